"""Whether a thread of this process waits in a call to the kernel: for tests that act while somebody waits."""
import time

# A call's numbers on x86-64 and arm64.
READ = {"0", "63"}
SELECT = {"23", "270", "72"}


def waits(thread, calls):
    with open("/proc/self/task/%d/syscall" % thread.native_id) as f:
        return f.read().split()[0] in calls


def until(thread, calls):
    while not waits(thread, calls):
        time.sleep(0.001)
