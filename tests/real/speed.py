"""speed.py MOEFS_BENCH MODEL.gguf: how fast moefs and llama.cpp read a prompt of 445 tokens and answer with 64, in turns:
tokens a second by two threads and the clock, and by one thread and its own processor time, which other programs on the
machine do not change as much. Medians (least to most) of five rounds, the first round of each left out. Fails if
llama.cpp is faster by the latter."""
import ctypes
import json
import statistics
import subprocess
import sys
import time

import llama_cpp

import peer

PROMPT, ANSWER, ROUNDS = 445, 64, 6


def moefs(bench, path, threads, own):
    run = [bench, "run", path, "--threads", str(threads), "--prompt", str(PROMPT), "--tokens", str(ANSWER), "--rounds",
           "2", "--seconds", "0.02", "--json"] + ["--own-time"] * own
    phases = json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout)["phases"]
    return [next(p["tokens_per_s"]["median"] for p in phases if p["rounds"] == "others" and p["phase"] == phase)
            for phase in ("prefill", "decode")]


class Peer:
    def __init__(self, path, threads, clock):
        self.llama = llama_cpp.Llama(path, n_ctx=1024, n_batch=512, n_threads=threads, n_threads_batch=threads,
                                     verbose=False)
        self.clock = clock

    def timed(self, tokens):
        begun = self.clock()
        for part in tokens:
            array = (llama_cpp.llama_token * len(part))(*part)
            if llama_cpp.llama_decode(self.llama.ctx, llama_cpp.llama_batch_get_one(array, len(part))):
                raise SystemExit("llama.cpp cannot decode")
            llama_cpp.llama_get_logits_ith(self.llama.ctx, -1)
        return sum(map(len, tokens)) / (self.clock() - begun)

    def round(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.llama.ctx), True)
        ids = [1000 + i * 97 % 40000 for i in range(PROMPT + ANSWER)]
        return [self.timed([ids[:PROMPT]]), self.timed([[i] for i in ids[PROMPT:]])]


def main():
    bench, path = sys.argv[1:]
    slower = []
    llama_cpp.llama_log_set(peer.silence, ctypes.c_void_p(0))
    for threads, own, clock, words in ((2, False, time.monotonic, "two threads, by the clock"),
                                       (1, True, time.process_time, "one thread, its own time")):
        other = Peer(path, threads, clock)
        rounds = [(moefs(bench, path, threads, own), other.round()) for _ in range(ROUNDS)][1:]
        for at, phase in enumerate(("prefill", "decode")):
            both = [[r[who][at] for r in rounds] for who in (0, 1)]
            own_median, its = (statistics.median(x) for x in both)
            said = [f"{statistics.median(x):.0f} ({min(x):.0f} to {max(x):.0f})" for x in both]
            print(f"# {words}, {phase}: moefs {said[0]}, llama.cpp {said[1]} tok/s, {own_median / its:.2f} x")
            if own and own_median < its:
                slower.append(phase)
    sys.exit(f"slower: {', '.join(slower)}" if slower else 0)


main()
