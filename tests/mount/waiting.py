"""Whether a thread of this process waits in a call to the kernel: for tests that act while somebody waits."""
import signal
import threading
import time

# Numbers of a system call on x86-64 and arm64.
OPEN = {"257", "56"}
READ = {"0", "63"}
SELECT = {"23", "270", "72"}
POLL = {"7", "271", "73"}
EPOLL = {"232", "281", "22"}


def waits(thread, calls):
    with open("/proc/self/task/%d/syscall" % thread.native_id) as f:
        return f.read().split()[0] in calls


def until(thread, calls):
    while not waits(thread, calls):
        time.sleep(0.001)


def until_over(thread, calls):
    """The same of a call that may be over before anybody looks, and the thread with it."""
    try:
        while thread.is_alive() and not waits(thread, calls):
            time.sleep(0.001)
    except (FileNotFoundError, ProcessLookupError):
        pass


def interrupted(read):
    """Whether a signal whose handler raises got through to this thread's read, which it found waiting."""
    class Done(Exception):
        pass

    def handler(*_):
        raise Done

    def interrupt(reader):
        until(reader, READ)
        signal.pthread_kill(reader.ident, signal.SIGALRM)

    signal.signal(signal.SIGALRM, handler)
    thread = threading.Thread(target=interrupt, args=[threading.main_thread()])
    thread.start()
    try:
        read()
        return False
    except Done:
        return True
    finally:
        thread.join()
