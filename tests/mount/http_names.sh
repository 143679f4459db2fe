#!/bin/bash
# Names and requests with bytes that are not UTF-8: answers that repeat them are still valid JSON.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3"
cp -r "$MODEL" "$work/caf"$'\xe9' || skip_all "this file system takes only names that are UTF-8"
others=("$work/caf"$'\xe9')
mounted
loaded
gateway
export url mnt PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
py() { timeout $limit python3 - || fail "$(tail -n 3 "$work/http")"; }

lists() { py <<'PY'; }
from gateway import *
names = [m["id"] for m in good("/v1/models")["data"]]
assert "caf\ufffd" in names and fable in names, names
e = next(e for e in good("/tree") if e["name"] == "caf\ufffd")
assert e["path"] == "caf%E9", e
assert all("path" not in e for e in good("/tree") if e["name"] == fable)
c, r = request("GET", "/metrics")
with contextlib.closing(c):
    assert 'model="caf\ufffd"' in r.read().decode("utf-8")
PY
claim "lists of models and of the tree are JSON, whatever a model is called" lists

reached() { py <<'PY'; }
from gateway import *
assert good("/v1/models/caf%E9")["id"] == "caf\ufffd"
c, r = request("GET", "/tree/caf%E9/info/state")
with contextlib.closing(c):
    assert r.status == 200 and r.read().strip(), r.status
PY
claim "such a model is reached by its percent-encoded name" reached

echoed() { py <<'PY'; }
from gateway import *
refused(404, "/v1/models/sp%E9ak")
refused(404, "/tree/sp%E9ak")
refused(404, "/v1/sp%E9ak")
refused(400, "/v1/models?limit=%E9")
refused(400, "/v1/models?after_id=%E9")
refused(400, "/v1/chat/completions", b'{"model": "sp\xe9ak", "messages": []}')
PY
claim "errors that quote the request are valid JSON" echoed

listed() {
	"$MOEFS" list --json >"$work/list" && py <<PY
import json
mounts = json.loads(open("$work/list", "rb").read().decode("utf-8"))
assert any("caf\ufffd" in [m["name"] for m in mount["models"]] for mount in mounts), mounts
PY
}
claim "moefs list --json is JSON" listed
gateway_over
finish
