"""A client of moefs-http for tests, by Python's own library: $url is where it is, $mnt what it serves.

Claims are read from standard input, or stand in a file: `python3 CLAIMS.py NAME` calls its function of that name by `main`."""
import contextlib, http.client, json, os, re, socket, sys, time
from standing import standing

url, mnt, limit = os.environ["url"], os.environ["mnt"], int(os.environ["limit"])
fable = "fable-moe-15m"
address = tuple(url[7:].rsplit(":", 1))
HEADERS = {}  # of every request


def request(method, path, body=None, headers={}):
    """The connection and its response, not yet read."""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    c = http.client.HTTPConnection(address[0], int(address[1]), timeout=limit)
    c.request(method, path, data, {"Content-Type": "application/json", **HEADERS, **headers})
    return c, c.getresponse()


def answered(path, body=None, method=None, headers={}):
    """The status and what is answered; at once an error if that is no JSON. Of an error its headers as well."""
    c, r = request(method or ("GET" if body is None else "POST"), path, body, headers)
    with contextlib.closing(c):
        said = json.loads(r.read())
    if r.status >= 400:
        said["headers"] = dict(r.headers)
    return r.status, said


def post(path, body, status=200, headers={}):
    got, said = answered(path, body, "POST", headers)
    assert got == status, (got, said)
    return said


def good(path, body=None, method=None, headers={}):
    status, said = answered(path, body, method, headers)
    assert status == 200, (status, said)
    return said


def refused(status, path, body=None, method=None, headers={}):
    got, said = answered(path, body, method, headers)
    assert got == status, (got, said)
    return said["error"]


def named_events(path, body):
    """The events of a stream as they come, each (name, data). Comments are none."""
    c, r = request("POST", path, body)
    with contextlib.closing(c):
        assert r.status == 200, (r.status, r.read())
        assert r.headers["Content-Type"].startswith("text/event-stream"), r.headers
        name = None
        for line in map(bytes.decode, r):
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                data = line[6:].strip()
                yield name, data if data == "[DONE]" else json.loads(data)
                name = None


def events(path, body):
    for _, data in named_events(path, body):
        yield data


def streamed(path, body):
    return list(named_events(path, {**body, "stream": True}))


def same(is_, should, what="differs"):
    assert is_ == should, f"{what}: {is_!r} is not {should!r}"


def main(claims):
    claims[sys.argv[1]]()


def chat(text, model=fable, **more):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    return {"model": model, "messages": messages, "temperature": 0, **more}


def ask(text, status=200, headers={}, **more):
    return post("/v1/chat/completions", chat(text, **more), status, headers)


def stream(text, **more):
    return list(events("/v1/chat/completions", chat(text, stream=True, **more)))


def content(answer):
    return answer["choices"][0]["message"]["content"]


def sessions(model=fable):
    own = re.compile("(key-[0-9a-f]{16}-)?http-")
    return sorted(s for s in os.listdir(f"{mnt}/{model}/sessions") if own.match(s))


def prefixes(model=fable):
    """The texts that are kept of conversations, special tokens spelled out; the one that was used last comes last."""
    paths = [p.path for p in os.scandir(f"{mnt}/{model}/prefixes")]
    texts = [(os.stat(p).st_mtime_ns, open(p, newline="").read()) for p in paths]
    return [text for _, text in sorted(texts)]


def look(session, file, model=fable):
    with open(f"{mnt}/{model}/sessions/{session}/{file}") as f:
        return f.read()


def working(model=fable):
    """Those that answer: across another file system others lie there for a while."""
    found = []
    for s in sessions(model):
        try:
            found += [s] if look(s, "status", model) in ("queued\n", "prompting\n", "generating\n") else []
        except OSError:
            pass  # it has gone meanwhile
    return found


def stat(session, key):
    return dict(line.split(" ", 1) for line in look(session, "stats").splitlines())[key]


def until(what, why):
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, why
        time.sleep(0.01)


# An answer that goes on until the context is full: the tokens that end an answer are banned. The model repeats itself
# then, so the test writes off to params/stop_repetition of its default session.
def long(text="Tell me a story.", **more):
    return chat(text, max_tokens=3500, logit_bias={"4087": -100, "4089": -100}, **more)


def connect():
    return socket.create_connection((address[0], int(address[1])), timeout=limit)


def begin(body, path="/v1/chat/completions"):
    """A request whose answer is not read yet."""
    data = json.dumps(body).encode()
    s = connect()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    return s


def raw(data):
    """What is answered to these bytes until the connection is closed; raw.took: seconds to send them."""
    began, got = time.monotonic(), b""
    s = connect()
    try:
        try:
            s.sendall(data)
        finally:
            raw.took = time.monotonic() - began
        while piece := s.recv(65536):
            got += piece
    except ConnectionError:
        pass
    s.close()
    return got
