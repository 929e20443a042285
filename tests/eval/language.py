#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model's server for the evaluation: answers prompts of the Azure trace's lengths, batched continuously.

A Llama-like model of 1.1 billion parameters with random weights. A decode step computes the next token of every running
answer and is captured once as a CUDA graph; prompts are captured by padded length. After each step the host reads the
tokens, admits the prompts that have arrived, and launches the next step, so the server pauses only without any request.

It takes orders on standard input and answers with lines of JSON:

     serve RATE SECONDS SEED     {"ttft_ms": [...], "tpot_ms": [...], "step_ms": [...]}: RATE prompts a second at random times
                                 for SECONDS; answers are completed. TPOT is the mean of an answer
     objective KIND PERMILLE     {"objective": KIND}: states a factor of what this client of DetShare has alone, in thousandths;
                                 KIND 1: TTFT, 2: TPOT; PERMILLE 0 removes it

usage: language.py [--device cuda]     with --device cpu a tiny model, to test the program
"""
import argparse
import csv
import ctypes
import json
import os
import pathlib
import random
import sys
import time

TRACE = pathlib.Path(__file__).resolve().parent.parent / "data/azure_llm_2023_conv.csv"
PROMPTS = (256, 512, 768, 1024)  # padded lengths, tokens
ANSWER = 200  # longest answer, tokens
LENGTH = PROMPTS[-1] + ANSWER + 56  # of the cache of an answer, tokens
WARM_S = 3


class Sizes:
    def __init__(self, device):
        small = device == "cpu"
        self.width, self.inner, self.heads, self.kv, self.layers, self.words, self.slots = (
            (64, 128, 4, 2, 2, 100, 4) if small else (2048, 5632, 16, 4, 22, 32000, 24))
        self.head = self.width // self.heads


class Model:
    """Weights, cache, and the two steps. Slots of the cache belong to running answers."""

    def __init__(self, device):
        import torch
        self.torch, self.sizes, self.device = torch, Sizes(device), device
        self.kind = torch.float32 if device == "cpu" else torch.bfloat16
        s = self.sizes
        self.embedding, self.out = self.weights(s.words, s.width), self.weights(s.width, s.words)
        self.layers = [{"qkv": self.weights(s.width, (s.heads + 2 * s.kv) * s.head), "o": self.weights(s.width, s.width),
                        "up": self.weights(s.width, 2 * s.inner), "down": self.weights(s.inner, s.width)} for _ in range(s.layers)]
        self.keys = torch.zeros(s.layers, s.slots, LENGTH, s.kv, s.head, device=device, dtype=self.kind)
        self.values = torch.zeros_like(self.keys)
        self.token, self.place = self.numbers(s.slots), self.numbers(s.slots)
        self.rows, self.places = torch.arange(s.slots, device=device), torch.arange(LENGTH, device=device)
        self.slot, self.last = self.numbers(1), self.numbers(1)
        self.prompt = {n: self.numbers(n) for n in PROMPTS}
        self.decode = self.captured(self.decode_step)
        self.prefill = {n: self.captured(lambda n=n: self.prefill_step(n)) for n in PROMPTS}

    def weights(self, *shape):
        return (self.torch.randn(*shape, device=self.device) * shape[0] ** -0.5).to(self.kind)

    def numbers(self, n):
        return self.torch.zeros(n, dtype=self.torch.long, device=self.device)

    def captured(self, step):
        if self.device == "cpu":
            return step
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
        import graphs
        graphs.warmed(step)
        return graphs.captured(step)[0].replay

    def norm(self, x):
        return self.torch.nn.functional.rms_norm(x, (self.sizes.width,))

    def split(self, x, layer):
        s = self.sizes
        return (self.norm(x) @ layer["qkv"]).split([s.heads * s.head, s.kv * s.head, s.kv * s.head], -1)

    def feed(self, x, layer):
        a, b = (self.norm(x) @ layer["up"]).chunk(2, -1)
        return x + (self.torch.nn.functional.silu(a) * b) @ layer["down"]

    def weighed(self, scores, mask):
        scores = (scores * self.sizes.head ** -0.5).masked_fill(~mask, -1e4).float()
        return self.torch.softmax(scores, -1).to(self.kind)

    def repeated(self, x, axis):
        return x.repeat_interleave(self.sizes.heads // self.sizes.kv, axis)

    def decode_step(self):
        """The next token of each slot."""
        s, x = self.sizes, self.embedding[self.token]
        mask = (self.places[None] <= self.place[:, None])[:, None, None]
        for i, layer in enumerate(self.layers):
            q, k, v = self.split(x, layer)
            self.keys[i].index_put_((self.rows, self.place), k.view(s.slots, s.kv, s.head))
            self.values[i].index_put_((self.rows, self.place), v.view(s.slots, s.kv, s.head))
            keys, values = (self.repeated(t[i].transpose(1, 2), 1) for t in (self.keys, self.values))
            a = self.weighed(q.view(s.slots, s.heads, 1, s.head) @ keys.transpose(2, 3), mask) @ values
            x = self.feed(x + a.reshape(s.slots, s.width) @ layer["o"], layer)
        self.token.copy_((self.norm(x) @ self.out).argmax(-1))
        self.place.add_(1).clamp_(max=LENGTH - 1)

    def prefill_step(self, n):
        """The first token of the prompt of padded length n, in self.slot; self.last: index of its last token."""
        s, x = self.sizes, self.embedding[self.prompt[n]]
        mask = self.torch.ones(n, n, device=self.device, dtype=self.torch.bool).tril()
        for i, layer in enumerate(self.layers):
            q, k, v = self.split(x, layer)
            k, v = k.view(1, n, s.kv, s.head), v.view(1, n, s.kv, s.head)
            self.keys[i, :, :n].index_copy_(0, self.slot, k)
            self.values[i, :, :n].index_copy_(0, self.slot, v)
            keys, values = (self.repeated(t[0].transpose(0, 1), 0) for t in (k, v))
            a = self.weighed(q.view(n, s.heads, s.head).transpose(0, 1) @ keys.transpose(1, 2), mask) @ values
            x = self.feed(x + a.transpose(0, 1).reshape(n, s.width) @ layer["o"], layer)
        token = (self.norm(x.index_select(0, self.last)) @ self.out).argmax(-1)
        self.token.index_copy_(0, self.slot, token)
        self.place.index_copy_(0, self.slot, self.last + 1)

    def admit(self, slot, length):
        n = next(n for n in PROMPTS if n >= length)
        self.prompt[n].copy_(self.torch.randint(1, self.sizes.words, (n,)))
        self.slot.fill_(slot)
        self.last.fill_(length - 1)
        self.prefill[n]()
        self.token.cpu()

    def step(self):
        self.decode()
        self.token.cpu()


class Answer:
    def __init__(self, begin, tokens):
        self.begin, self.tokens, self.left = begin, tokens, tokens


def requests(rate, seconds, seed):
    """Times of arrival, lengths of prompts and of answers; the lengths are of the trace."""
    with open(TRACE, encoding="utf8", newline="") as file:
        lengths = [(min(int(row["ContextTokens"]), PROMPTS[-1]), min(max(int(row["GeneratedTokens"]), 2), ANSWER)) for row in csv.DictReader(file)]
    draw, at, found = random.Random(seed), 0.0, []
    while at < seconds:
        found.append((at, *draw.choice(lengths)))
        at += draw.expovariate(rate)
    return found


def serve(model, rate, seconds, seed):
    todo, live, free = requests(rate, seconds, seed), {}, list(range(model.sizes.slots))
    ttft, tpot, steps, begin = [], [], [], time.perf_counter()

    def now():
        return time.perf_counter() - begin
    while todo or live:
        while todo and free and todo[0][0] <= now():
            at, length, tokens = todo.pop(0)
            slot = free.pop()
            model.admit(slot, length)
            ttft.append((now() - at) * 1000)
            live[slot] = Answer(now(), tokens - 1)
        if not live:
            time.sleep(max(todo[0][0] - now(), 0))
            continue
        at = now()
        model.step()
        steps.append((now() - at) * 1000)
        for slot, answer in list(live.items()):
            answer.left -= 1
            if not answer.left:
                tpot.append((now() - answer.begin) / answer.tokens * 1000)
                free.append(slot)
                del live[slot]
    return {"ttft_ms": ttft, "tpot_ms": tpot, "step_ms": steps}


def objective(kind, permille):
    library = ctypes.CDLL("libdetshare-client.so.0")  # the one that the drop-in libcuda uses
    library.detshare_set_objective.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_uint32]
    error = library.detshare_set_objective(kind, 0, permille)
    if error:
        raise RuntimeError(f"detshare_set_objective: error {error}")
    return {"objective": kind}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # standard output belongs to the answers

    def say(answer):
        print(json.dumps(answer), file=answers, flush=True)
    import torch
    torch.manual_seed(1)
    with torch.inference_mode():
        model = Model(options.device)
        serve(model, 10, WARM_S if options.device != "cpu" else 0.2, 1)
        say({"ready": {"name": "language", "torch": torch.__version__}})
        for line in sys.stdin:
            word, *numbers = line.split()
            say(serve(model, float(numbers[0]), float(numbers[1]), int(numbers[2])) if word == "serve" else objective(int(numbers[0]), int(numbers[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
