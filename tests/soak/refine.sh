#!/usr/bin/env bash
# moefs --refine is killed KILLS (100) times at random moments, and then ends with the bytes of an undisturbed one:
# tests/mount/refine.sh with more of them.
#
#     KILLS=100 SEED=1 tests/soak/refine.sh
KILLS=${KILLS:-100} exec "$(dirname "$0")/../mount/refine.sh"
