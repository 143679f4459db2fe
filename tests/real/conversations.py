"""Conversations in the model's own template, rendered by Jinja2.

conversations.py check MODEL.gguf CONVERSATIONS.jsonl SESSION: what a mounted model's session renders of each
conversation of plain messages is what Jinja2 does.
conversations.py text MODEL.gguf SKILLS.jsonl: prints conversations of three questions with their answers each."""
import json
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

import gguf

TURNS = 3


def template_of(path):
    source = gguf.File(path).keys["tokenizer.chat_template"]
    return ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)


def is_plain(messages):
    return all(m["role"] in ("system", "user", "assistant") and set(m) == {"role", "content"} and
               isinstance(m["content"], str) for m in messages) and any(m["role"] == "user" for m in messages)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def check(template, conversations, session):
    compared = 0
    for c in conversations:
        messages = c["messages"]
        if not is_plain(messages):
            continue
        with open(session + "/messages.json", "w", encoding="utf-8") as f:
            json.dump(messages, f)
        with open(session + "/rendered", encoding="utf-8", newline="") as f:
            said = f.read()
        wanted = template.render(messages=messages, add_generation_prompt=True)
        if said not in (wanted, wanted + "\n"):
            raise SystemExit(f"{c['id']}: {said!r}, but Jinja2 has {wanted!r}")
        compared += 1
    print(f"{compared} conversations")
    if not compared:
        raise SystemExit("no conversation of plain messages")


def text(template, skills):
    for at in range(0, len(skills), TURNS):
        messages = []
        for turn in skills[at:at + TURNS]:
            messages += [{"role": "user", "content": turn["question"]}, {"role": "assistant", "content": turn["answer"]}]
        sys.stdout.write(template.render(messages=messages, add_generation_prompt=False))


def main():
    template = template_of(sys.argv[2])
    if sys.argv[1] == "check":
        check(template, lines(sys.argv[3]), sys.argv[4])
    else:
        text(template, lines(sys.argv[3]))


main()
