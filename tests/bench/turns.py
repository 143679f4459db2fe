#!/usr/bin/env python3
"""turns.py MOEFS MODEL.gguf TEXT [--tokens 6000] [--threads 2]: the time to the first token of an agent's turns, moefs
beside llama.cpp (the Python package llama-cpp-python, where it is installed) on one file.

A conversation of 20 turns grows to --tokens tokens, cut from a TEXT. Between them a helper asks twice: with the same
system line and the first turns, but then other words; the main conversation goes on after that. Before turn 17 the
system line is edited, as where it says the time. Each turn's answer is one token, so that what is measured is what has
to be read again. llama.cpp keeps one conversation, of which it finds the longest beginning that is the same, as its
servers do for each slot; with --slots 2 it keeps the helper's apart.

Seconds by the clock, and of processors: those of the mount's daemon, and of this process."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

TURNS, HELPERS, EDITED = 20, (7, 13), 17
SYSTEM = "You are a careful assistant that works through a long text. The time is {}."
TICKS = os.sysconf("SC_CLK_TCK")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("moefs")
    p.add_argument("model")
    p.add_argument("text")
    p.add_argument("--tokens", type=int, default=6000)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--slots", type=int, default=1)
    return p.parse_args()


def turns_of(text, tokens):
    """(name, messages) of each turn; 5 bytes of text are about a token of a small vocabulary."""
    words, share = text.split(), tokens * 5 // TURNS
    at = 0

    def take(size):
        nonlocal at
        taken, length = [], 0
        while length < size:
            taken.append(words[at % len(words)])
            length += len(taken[-1]) + 1
            at += 1
        return " ".join(taken)

    system, main = {"role": "system", "content": SYSTEM.format("09:00")}, []
    for turn in range(1, TURNS + 1):
        if turn == EDITED:
            system = {"role": "system", "content": SYSTEM.format("09:05")}
        if turn in HELPERS:
            helper = main[:6] + [{"role": "user", "content": "Look for names in this. " + take(share)}]
            yield f"{turn} helper", [system, *helper]
        main.append({"role": "user", "content": take(share * 3 // 4)})
        yield f"{turn} edited" if turn == EDITED else str(turn), [system, *main]
        main.append({"role": "assistant", "content": take(share // 4)})


class Moefs:
    name = "moefs"

    def __init__(self, args):
        self.folder = tempfile.TemporaryDirectory()
        self.mount, store = self.folder.name + "/mnt", self.folder.name + "/store"
        os.mkdir(self.mount)
        subprocess.run([args.moefs, "-o", f"store={store},context=8192,threads={args.threads},temperature=0,max_tokens=1",
                        args.model, self.mount], check=True)
        self.model = f"{self.mount}/" + os.path.basename(args.model).removesuffix(".gguf")
        with open(self.mount + "/pid") as f:
            self.pid = int(f.read())
        for session in ("main", "helper"):
            os.mkdir(f"{self.model}/sessions/{session}")

    def processor(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def ask(self, name, messages):
        session = f"{self.model}/sessions/" + ("helper" if "helper" in name else "main")
        with open(session + "/messages.json", "w") as f:
            json.dump(messages, f)
        with open(session + "/ctl", "w") as f:
            f.write("answer\n")
        with open(session + "/output", "rb", buffering=0) as f:
            f.read(1)
        with open(session + "/wait") as f:
            f.read()
        with open(session + "/stats") as f:
            stats = dict(line.split(None, 1) for line in f)
        return int(stats["prompt_tokens"]), int(stats.get("cached_tokens", 0))

    def close(self):
        subprocess.run(["fusermount3", "-u", self.mount], check=True)
        while os.path.exists(f"/proc/{self.pid}"):
            time.sleep(.05)
        self.folder.cleanup()


class Llama:
    name = "llama.cpp"

    def __init__(self, args):
        import jinja2.sandbox
        import llama_cpp
        self.slots = [llama_cpp.Llama(args.model, n_ctx=8192, n_batch=512, n_threads=args.threads,
                                      n_threads_batch=args.threads, verbose=False) for _ in range(args.slots)]
        source = self.slots[0].metadata["tokenizer.chat_template"]
        self.template = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)

    def processor(self):
        return time.process_time()

    def ask(self, name, messages):
        llama = self.slots[-1 if "helper" in name else 0]
        text = self.template.render(messages=messages, add_generation_prompt=True)
        ids = llama.tokenize(text.encode(), add_bos=False, special=True)
        same = 0
        while same < min(llama.n_tokens, len(ids) - 1) and llama.input_ids[same] == ids[same]:
            same += 1
        next(llama.generate(ids, temp=0))
        return len(ids), same

    def close(self):
        self.slots = []


def run(engine, turns):
    """[(name, tokens, of which were there, seconds, processor seconds)], without the first turn, which loads."""
    rows = []
    for name, messages in turns:
        begun, processor = time.monotonic(), engine.processor()
        tokens, there = engine.ask(name, messages)
        rows.append((name, tokens, there, time.monotonic() - begun, engine.processor() - processor))
        print(f"{engine.name}: turn {name}, {tokens - there} of {tokens} tokens, {rows[-1][3]:.2f} s", file=sys.stderr)
    engine.close()
    return rows[1:]


def main():
    args = arguments()
    with open(args.text, encoding="utf-8") as f:
        turns = list(turns_of(f.read(), args.tokens))
    engines = [Moefs]
    try:
        import llama_cpp  # noqa: F401
        engines.append(Llama)
    except ImportError:
        print("llama-cpp-python is not installed: moefs alone")
    all_rows = [run(engine(args), turns) for engine in engines]
    print("| turn | tokens |" + "".join(f" {e.name}: read, s, processor s |" for e in engines))
    print("|---|---|" + "---|" * len(engines))
    for rows in zip(*all_rows):
        print(f"| {rows[0][0]} | {rows[0][1]} |" + "".join(f" {r[1] - r[2]}, {r[3]:.2f}, {r[4]:.2f} |" for r in rows))
    totals = [f" {sum(r[1] - r[2] for r in rows)}, {sum(r[3] for r in rows):.1f}, {sum(r[4] for r in rows):.1f} |"
              for rows in all_rows]
    print("| all | |" + "".join(totals))


if __name__ == "__main__":
    main()
