"""What the tests of moefs-http ask with: Python's own HTTP, and what streams must hold to.

http_*.sh run their claims as `python3 CLAIMS.py URL NAME`; `main` calls the function of that name."""
import http.client
import json
import sys
import urllib.parse

URL = sys.argv[1]
HEADERS = {}  # of every request


def request(method, path, body=None, **headers):
    """The connection and its response, not yet read."""
    at = urllib.parse.urlparse(URL)
    c = http.client.HTTPConnection(at.hostname, at.port, timeout=300)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    c.request(method, path, data, {"Content-Type": "application/json", **HEADERS, **headers})
    return c, c.getresponse()


def ask(path, body=None, method=None, **headers):
    """The status and what is answered; at once an error if that is no JSON."""
    c, r = request(method or ("GET" if body is None else "POST"), path, body, **headers)
    answer = json.loads(r.read())
    c.close()
    return r.status, answer


def good(path, body=None, **rest):
    status, answer = ask(path, body, **rest)
    assert status == 200, (status, answer)
    return answer


def refused(status, path, body=None, **rest):
    got, answer = ask(path, body, **rest)
    assert got == status, (got, answer)
    return answer["error"]


def stream(path, body):
    """The events of a stream, each (name, data), to its end. Comments are none."""
    c, r = request("POST", path, {**body, "stream": True})
    assert r.status == 200, (r.status, r.read())
    assert r.headers["Content-Type"].startswith("text/event-stream"), r.headers["Content-Type"]
    text = r.read().decode()
    c.close()
    found = []
    for part in text.split("\n\n"):
        lines = [line for line in part.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name = [line[7:] for line in lines if line.startswith("event: ")]
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        found.append((name[0] if name else None, json.loads(data) if data != "[DONE]" else data))
    return found


def same(is_, should, what="differs"):
    assert is_ == should, f"{what}: {is_!r} is not {should!r}"


def main(claims):
    claims[sys.argv[2]]()
