#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One picture per policy: which SMs a service and a job may use over time, in the same small replay (sim:h200).

The service answers requests of four kernels that need half of the SMs for 0.6 ms in all. The job runs kernels of three lengths
without a pause. detshare-replay plays two seconds, so that policies have learned; the picture shows the last milliseconds.

usage: policies.py --build BUILD [--out docs/pictures] [POLICY...]     writes policy-NAME.svg (`make pictures`)
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import svg

HERE = pathlib.Path(__file__).resolve().parent
POLICIES = ("detshare", "sgdrc", "sgdrc-static", "multistream", "static", "fifo", "temporal", "orion", "tgs", "reef", "tally", "krisp", "paella", "gemini",
            "antman", "edf", "tpot-first")
COMMAND = "make pictures"
# parameters other than the defaults, for policies whose rule does not show in a window of a few milliseconds
# otherwise
WITH = {"gemini": "quota_ms=2,min_quota_ms=1,window_ms=100", "temporal": "slice_ms=1", "tgs": "interval_ms=20"}
OBJECTIVE = {"edf": ",slo=1.2ms"}  # a policy that orders by deadlines needs an objective
DURATION_MS, WINDOW_MS = 2000, 10
SMS, KERNELS = 132, 4
STEP_ALONE_MS = 1.402  # mean step of the job alone under fifo, ms
WIDTH, LEFT, TOP, HIGH = 760, 92, 58, 132


def rung_sms(rung):
    """(least, most) SM of a rung of the ladder on the upright axis: the lower side belongs to LS, the upper one to BE."""
    if rung == 0:
        return 0, SMS
    step, of = ((rung + 1) // 2, 16) if rung <= 30 else ((rung - 29) // 2, 8)
    border = 2 * round(SMS / 2 * step / of)
    return (0, border) if rung % 2 else (border, SMS)


def kernels(lines):
    """[(session, kernel, start, end, rung)] in ms, from the lines of a trace."""
    waiting, found = {}, []
    for line in lines:
        kind, at, session, name, *words = line.split()
        fields = dict(word.split("=") for word in words)
        key = session, name.split("__")[0]
        if kind == "launch":
            waiting.setdefault(key, []).append(int(fields["rung"]))
        elif waiting.get(key):
            found.append((session, key[1], int(fields["start"]) / 1e6, int(at) / 1e6, waiting[key].pop(0)))
    return found


def requests(found, arrivals):
    """[(arrival, end)] in ms: a request ends with its last kernel."""
    ends = [end for session, _, _, end, _ in found if session == "service"][KERNELS - 1::KERNELS]
    return list(zip(arrivals, ends)) + [(arrival, None) for arrival in arrivals[len(ends):]]


def arrivals_ms():
    """Arrival times of the requests, ms. The first request arrives at once; the list of gaps repeats."""
    gaps, found = json.loads((HERE / "policies-gaps.json").read_text(encoding="utf8")), [0.0]
    while found[-1] < DURATION_MS:
        found.append(found[-1] + 1000 * gaps[len(found) % len(gaps)])
    return found


def replay(build, policy):
    """The kernels of the trace, and the results of the service and the job."""
    with tempfile.TemporaryDirectory(prefix="detshare-pictures.") as folder:
        trace = pathlib.Path(folder) / "trace"
        named = f"{policy},{WITH[policy]}" if policy in WITH else policy
        done = subprocess.run([str(build / "detshare-replay"), "--json", "--profiled", "--transform", "--policy", named, "--duration", f"{DURATION_MS}ms", "--no-alone",
                               "--ls", f"{HERE}/policies-ls.profile@{HERE}/policies-gaps.json,name=service" + OBJECTIVE.get(policy, ""), "--be",
                               f"{HERE}/policies-be.profile,name=job,queue=8", "--trace", str(trace)], check=True, stdout=subprocess.PIPE, text=True)
        return kernels(trace.read_text(encoding="utf8").splitlines()), json.loads(done.stdout)["runs"][0]["sessions"]


def summary(service, job):
    """One line of text: the service's tail and the job's throughput in the whole replay."""
    text = f"{service['p99_ms']:.2f} ms" if service["arrived"] - service["ended"] <= 2 else "grows without end"
    return f"whole replay (2 s, sim:h200): p99 of the service {text} (alone 0.61 ms), throughput of the job {job['steps_per_s'] * STEP_ALONE_MS / 1000:.2f} of alone"


def picture(policy, found, sessions):
    begin, end = DURATION_MS - WINDOW_MS - 1, DURATION_MS - 1
    wide = WIDTH - LEFT - 16
    right = lambda at: LEFT + wide * (min(max(at, begin), end) - begin) / WINDOW_MS
    up = lambda sm: TOP + HIGH * (1 - sm / SMS)
    lines = [svg.text(12, 22, policy, 15, extra='font-weight="bold"'), svg.rect(LEFT, TOP, wide, HIGH, "grid", 'fill="none"'),
             svg.text(LEFT - 8, TOP + 10, f"{SMS} SMs", 11, "end", "dim"), svg.text(LEFT - 8, TOP + HIGH, "0", 11, "end", "dim"), svg.text(LEFT - 8, TOP - 8, "requests, ms", 11, "end", "dim"),
             svg.rect(LEFT + 130, 12, 12, 10, "orange", 'fill-opacity="0.55"'), svg.text(LEFT + 147, 22, "job (BE): SMs that its kernel may use", 11, kind="dim"),
             svg.rect(LEFT + 370, 12, 12, 10, "blue", 'fill-opacity="0.8"'), svg.text(LEFT + 387, 22, "service (LS): SMs that its kernel may use", 11, kind="dim")]
    for session, _, start, stop, rung in sorted(found, key=lambda kernel: kernel[0] != "job"):
        if stop <= begin or start >= end:
            continue
        low, high = rung_sms(rung)
        hue = "orange" if session == "job" else "blue"
        if session == "service":
            high = min(high, low + SMS // 2)
        lines.append(svg.rect(right(start), up(high), max(0.6, right(stop) - right(start) - 0.4), up(low) - up(high), hue, f'fill-opacity="{0.45 if session == "job" else 0.8}"'))
    for arrival, stop in requests(found, arrivals_ms()):
        if arrival < end and (stop is None or stop > begin) and (stop is not None or arrival > begin):
            x = right(stop if stop is not None else end)
            lines.append(svg.rect(right(arrival), TOP - 17, max(1, x - right(arrival)), 9, "blue"))
            if stop is not None and stop < end and arrival > begin and x - right(arrival) > 24:
                lines.append(svg.text((right(arrival) + x) / 2, TOP - 9.5, f"{stop - arrival:.2f}", 9, "middle", "paper"))
    for i in range(0, WINDOW_MS + 1, 2):
        lines.append(svg.text(LEFT + wide * i / WINDOW_MS, TOP + HIGH + 14, f"{i} ms", 10, "middle", "dim"))
    lines.append(svg.text(LEFT, TOP + HIGH + 31, summary(*sessions), 11, kind="dim"))
    return svg.frame(WIDTH, TOP + HIGH + 40, COMMAND, f"SMs of a service and a job over time under {policy} (simulated H200)", lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    parser.add_argument("policies", nargs="*", default=POLICIES)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for policy in options.policies or POLICIES:
        (options.out / f"policy-{policy}.svg").write_text(picture(policy, *replay(options.build, policy)), encoding="utf8")


if __name__ == "__main__":
    main()
