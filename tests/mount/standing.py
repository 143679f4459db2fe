"""Turns that stand, as begin_long of lib.sh has them: after `holdable`."""
import contextlib
import os


@contextlib.contextmanager
def standing(tokens=40):
    """Meanwhile each turn of the mount stands once it has so many tokens."""
    with open(os.environ["MOEFS_HOLD"], "w") as f:
        f.write(str(tokens))
    try:
        yield
    finally:
        os.remove(os.environ["MOEFS_HOLD"])
