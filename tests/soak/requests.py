"""Requests to moefs-http at random, of several clients at once: whole and as streams, by each protocol, with tools, ended early,
refused, conversations that grow. Each is answered as it should be; the end is told by soak.

    requests.py URL MODEL COUNT CLIENTS SEED
"""
import http.client
import json
import random
import socket
import sys
import threading
import urllib.parse
from collections import Counter

url, model = urllib.parse.urlparse(sys.argv[1]), sys.argv[2]
count, clients, seed = map(int, sys.argv[3:6])
LIMIT = 300  # seconds within which any answer must come, on however busy a machine
PLACES = {"France": "Paris", "Peru": "Lima", "Italy": "Rome"}
TOOL = {"name": "weather", "description": "of a place", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
lock, left, done, wrongs = threading.Lock(), [count], Counter(), []


class Client:
    """One of them: its connection, its random numbers and its conversation."""

    def __init__(self, number):
        self.random = random.Random(seed * 1000 + number)
        self.talk = []
        self.connection = None

    def send(self, path, body):
        if not self.connection:
            self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=LIMIT)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request("POST", path, data, {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def ask(self, path, body, status=200):
        r = self.send(path, body)
        text = r.read().decode()
        if r.status != status:
            raise RuntimeError("%s: %d and not %d: %s" % (path, r.status, status, text[:300]))
        return text

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def chat(c, messages, **more):
    return {"model": model, "messages": messages, "temperature": 0, "max_tokens": c.random.choice([8, 16, 24]), **more}


def question(c):
    place = c.random.choice(list(PLACES))
    return place, [{"role": "user", "content": "What is the capital of %s?" % place}]


# ---- what they ask ----

def whole(c):
    place, messages = question(c)
    said = json.loads(c.ask("/v1/chat/completions", chat(c, messages, max_tokens=24)))["choices"][0]["message"]["content"]
    if said != "The capital of %s is %s." % (place, PLACES[place]):
        raise RuntimeError("it says " + said)


def streamed(c):
    text = c.ask("/v1/chat/completions", chat(c, question(c)[1], stream=True))
    if not text.endswith("data: [DONE]\n\n") or '"error"' in text:
        raise RuntimeError("a stream ends with " + text[-300:])


def grows(c):
    if len(c.talk) > 12:
        c.talk = []
    c.talk += question(c)[1]
    c.talk.append(json.loads(c.ask("/v1/chat/completions", chat(c, c.talk)))["choices"][0]["message"])


def several(c):
    if len(json.loads(c.ask("/v1/chat/completions", chat(c, question(c)[1], n=3)))["choices"]) != 3:
        raise RuntimeError("not three")


def with_tools(c):
    c.ask("/v1/chat/completions", chat(c, question(c)[1], tools=[{"type": "function", "function": TOOL}], stream=c.random.random() < 0.5))


def formed(c):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}},
                                                                         "required": ["a"], "additionalProperties": False}}}
    c.ask("/v1/chat/completions", chat(c, question(c)[1], response_format=form))


def completion(c):
    c.ask("/v1/completions", {"model": model, "prompt": "The capital of Peru is", "max_tokens": 4, "logprobs": 1, "echo": c.random.random() < 0.5})


def messages(c):
    c.ask("/v1/messages", {"model": model, "max_tokens": 12, "messages": question(c)[1], "stream": c.random.random() < 0.5})


def responses(c):
    c.ask("/v1/responses", {"model": model, "input": question(c)[1][0]["content"], "stream": c.random.random() < 0.5})


def tokens(c):
    c.ask("/tokenize", {"model": model, "prompt": "one two three"})
    c.ask("/v1/messages/count_tokens", {"model": model, "messages": question(c)[1]})


def refused(c):
    body, status = c.random.choice([(b"{", 400), (b"[]", 400), (chat(c, []), 400), (chat(c, question(c)[1]) | {"model": "nobody"}, 404),
                                    (chat(c, question(c)[1]) | {"temperature": 9}, 400), (chat(c, question(c)[1], top_k=-3), 400)])
    c.ask("/v1/chat/completions", body, status)


def leaves(c):
    """In the midst of an answer, or before one."""
    c.send("/v1/chat/completions", chat(c, question(c)[1], stream=True, max_tokens=200)).read(c.random.choice([1, 100, 400]))
    c.connection.sock and c.connection.sock.shutdown(socket.SHUT_RDWR)
    c.close()


def looks(c):
    for path in "/health", "/metrics", "/v1/models":
        c.connection or c.send("/tokenize", {"model": model, "prompt": "x"}).read()
        c.connection.request("GET", path)
        r = c.connection.getresponse()
        if r.status != 200 or not r.read():
            raise RuntimeError(path)


REQUESTS = [(whole, 8), (streamed, 12), (grows, 6), (several, 1), (with_tools, 3), (formed, 2), (completion, 3), (messages, 5), (responses, 4),
            (tokens, 2), (refused, 3), (leaves, 3), (looks, 1)]


def run(number):
    c = Client(number)
    while not wrongs:
        with lock:
            if not left[0]:
                break
            left[0] -= 1
        what = c.random.choices([r for r, _ in REQUESTS], [w for _, w in REQUESTS])[0]
        try:
            what(c)
            with lock:
                done[what.__name__] += 1
            if c.random.random() < 0.1:
                c.close()
        except Exception as e:  # whatever it is, it is told
            wrongs.append("%s: %s: %s" % (what.__name__, type(e).__name__, e))
    c.close()


def main():
    threads = [threading.Thread(target=run, args=(n,)) for n in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name, n in sorted(done.items()):
        print("%7d %s" % (n, name))
    for wrong in wrongs:
        print("WRONG", wrong)
    return 1 if wrongs else 0


sys.exit(main())
