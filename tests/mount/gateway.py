# A client of moefs-http for tests, by Python's own library: $url is where it is, $mnt what it serves.
import json, os, socket, time, urllib.error, urllib.request
from standing import standing

url, mnt, limit = os.environ["url"], os.environ["mnt"], int(os.environ["limit"])
fable = "fable-moe-15m"
address = tuple(url[7:].rsplit(":", 1))


def post(path, body, status=200, headers={}):
    """What is answered, with this status; of an error its headers as well."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=limit) as f:
            got, said = f.status, json.load(f)
    except urllib.error.HTTPError as e:
        got, said = e.code, json.load(e)
        said["headers"] = dict(e.headers)
    assert got == status, (got, said)
    return said


def chat(text, model=fable, **more):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    return {"model": model, "messages": messages, "temperature": 0, **more}


def ask(text, status=200, headers={}, **more):
    return post("/v1/chat/completions", chat(text, **more), status, headers)


def events(path, body):
    with urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(body).encode()), timeout=limit) as f:
        assert f.headers["Content-Type"].startswith("text/event-stream"), f.headers
        for line in f:
            if line.startswith(b"data: "):
                data = line[6:].decode().strip()
                yield data if data == "[DONE]" else json.loads(data)


def stream(text, **more):
    return list(events("/v1/chat/completions", chat(text, stream=True, **more)))


def content(answer):
    return answer["choices"][0]["message"]["content"]


def sessions(model=fable, kept=False):
    names = [s for s in os.listdir(f"{mnt}/{model}/sessions") if s.startswith("http-")]
    return sorted(s for s in names if s.startswith("http-kept-") == kept)


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


# An answer that goes on until the context is full: what would end it is banned.
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
