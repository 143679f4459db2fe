#!/usr/bin/env bash
# How a mounted tree responds to many clients at once (measured, not judged): SESSIONS (1000) conversations, READERS (10000)
# threads that wait in a read, as many open files that are polled, and WRITERS (64) processes that ask at once; the time of reads
# of the tree during each, and the daemon's memory for each. crowd.py describes the measurements.
#
#     READERS=1000 tests/bench/crowd.sh
. "$(dirname "$0")/../mount/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
mounted -o budget=64M
loaded
complete
ask "What is the capital of France?" >/dev/null
timeout 1800 python3 "$root/tests/bench/crowd.py" "$m" "$daemon" "${SESSIONS:-1000}" "${READERS:-10000}" "${WRITERS:-64}"
