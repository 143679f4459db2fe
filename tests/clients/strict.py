"""Every type of answer against the models of the official packages, validated strictly: no value is converted."""
import json, urllib.request
from pydantic import TypeAdapter
from claims import URL


def asked(path, body=None, headers={}):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json", **headers})
    try:
        return urllib.request.urlopen(request).read().decode()
    except urllib.error.HTTPError as e:
        return e.read().decode()


def valid(kind, text):
    return TypeAdapter(kind).validate_json(text, strict=True)


def valid_stream(kind, path, body, headers={}, leave_out=()):
    """Each event; those named in leave_out are of no type in the package. Their number."""
    events = [line[6:] for line in asked(path, {**body, "stream": True}, headers).splitlines() if line.startswith("data: ")]
    events = [e for e in events if e != "[DONE]" and json.loads(e).get("type") not in leave_out]
    for event in events:
        valid(kind, event)
    return len(events)
