"""What the claims of Python's clients have in common: @claim(NAME) runs a function and prints a line; over() ends."""
import inspect, os, sys, asyncio

URL = os.environ["url"]
SCRIPTED, TRAINED = "scripted", "fable-moe-15m"
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
ADD = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
HELLO, SUM = "Hello to you.", "It is 42."  # what the script has it say, without and with a tool
failed = 0


def claim(name):
    def run(f):
        global failed
        try:
            asyncio.run(f()) if inspect.iscoroutinefunction(f) else f()
            print("ok", name, flush=True)
        except Exception as e:
            failed += 1
            print(f"not ok {name}: {type(e).__name__}: {e}".replace("\n", " ")[:1000], flush=True)
        return f
    return run


def refusal(f):
    """The error that f ends with."""
    try:
        f()
    except Exception as e:
        return e
    raise AssertionError("not refused")


def same(is_, should):
    assert is_ == should, f"{is_!r} is not {should!r}"


def over():
    sys.exit(failed > 0)
