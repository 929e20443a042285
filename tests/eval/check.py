#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the analysis with data whose answer is known; ends with `N passed, N failed` by unittest's own words."""
import argparse
import csv
import io
import math
import pathlib
import random
import shutil
import statistics
import tempfile
import threading
import time
import unittest
import unittest.mock
import xml.dom.minidom

import analyse
import channels_gpu
import document
import frontier
import frontier_page
import language
import measure
import meeting
import plot
import replay
import scenarios
import state
import stats
import tpot
import worth

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def row(**values):
    return {key: str(values.get(key, "")) for key in ("round", "group", "cell", "system", "phase", "load", "program", "rate", "seconds", "items", "skip_s",
                                                      "latencies_ms", "at_s", "error", "when")} | {"when": "1"}


def phase(system, name, program, latencies, at=None, round_=1):
    return row(round=round_, group="core", cell="a+b@50", system=system, phase=name, load=50, program=program, seconds=4, skip_s=0.4,
               latencies_ms=";".join(f"{v:.3f}" for v in latencies), at_s=";".join(f"{v:.3f}" for v in at) if at else "")


def measured(slower, job_slower, ls2=1.0, cut_off=()):
    """A cell: requests of 1.00 to 1.99 ms alone, `slower` times that beside the job; steps of 10 ms, `job_slower` times that."""
    at = [i * 0.01 for i in range(400)]
    alone = [1 + (i * 37 % 100) / 100 for i in range(400)]
    rows = [row(phase="capacity", system="native", program=name, rate=rate, latencies_ms=text) for name, rate, text in
            (("a", 1000, ";".join(["1.000"] * 500)), ("b", 100, "10.000"))]
    for system in ("native", "detshare:detshare"):
        times, job = (slower, job_slower) if system != "native" else (1, 1)
        rows += [phase(system, "ls1", "ls0:a", alone, at), phase(system, "be1", "be1:b", [10.0] * 410),
                 phase(system, "together", "ls0:a", [v * times for v in alone], at), phase(system, "together", "be1:b", [10.0 * job] * 520),
                 phase(system, "ls2", "ls0:a", [v * ls2 for v in alone], at), phase(system, "be2", "be1:b", [10.0] * 410),
                 row(round=1, group="core", cell="a+b@50", system=system, phase="end", load=50)]
    rows.append(row(round=1, group="core", cell="a+b@50", system="mps", phase="failed", load=50, error="MPS cannot start: no"))
    return {r["system"]: r for r in analyse.figures_of(analyse.Measured(list(cut_off) + rows))}


def pages(rows):
    """Both pages of tables as one text."""
    rows = list(rows)
    return "\n".join(analyse.measured_page(rows, "A machine", {}) + analyse.cells_page(rows, ""))


class Whole(unittest.TestCase):
    def test_what_a_run_that_was_cut_off_left_does_not_count(self):
        at = [i * 0.01 for i in range(400)]
        left = [phase(system, name, "ls0:a", [50.0] * 400, at, round_) for system in ("native", "detshare:detshare") for name in ("ls1", "together")
                for round_ in (1, 2)]  # round 1 was measured again, round 2 was not
        self.assertEqual(measured(1.2, 1.5, cut_off=left), measured(1.2, 1.5))


class Stats(unittest.TestCase):
    def test_percentile(self):
        values = list(range(100, 0, -1))
        self.assertEqual([stats.percentile(values, p) for p in (0.5, 0.99, 1)], [50, 99, 100])
        self.assertTrue(math.isnan(stats.percentile([], 0.5)))

    def test_interval_of_independent_values(self):
        random_ = random.Random(3)
        values = [random_.gauss(5, 1) for _ in range(400)]
        low, high = stats.interval(stats.draws([values], lambda v: sum(v) / len(v)))
        mean = sum(values) / len(values)
        self.assertLess(low, mean)
        self.assertGreater(high, mean)
        self.assertAlmostEqual(high - low, 2 * 1.96 / 20, delta=0.06)

    def test_interval_covers(self):
        random_, hits = random.Random(4), 0
        for seed in range(60):
            values = [random_.expovariate(1) for _ in range(100)]
            low, high = stats.interval(stats.draws([values], lambda v: sum(v) / len(v), 120, seed))
            hits += low <= 1 <= high
        self.assertGreaterEqual(hits, 48)  # 57 of 60 in the mean where the theory's conditions held

    def test_neighbours_that_depend_on_each_other_make_it_wide(self):
        random_, value, values = random.Random(5), 0.0, []
        for _ in range(900):
            value = 0.9 * value + random_.gauss(0, 1)
            values.append(value)
        wide = stats.interval(stats.draws([values], lambda v: sum(v) / len(v)))
        random_.shuffle(values)
        narrow = stats.interval(stats.draws([values], lambda v: sum(v) / len(v)))
        self.assertGreater(wide[1] - wide[0], 2 * (narrow[1] - narrow[0]))

    def test_spread_and_verdict(self):
        self.assertAlmostEqual(stats.spread([9, 11, 10]), 0.1)
        self.assertTrue(math.isnan(stats.spread([9])))
        self.assertEqual(stats.against(1.2, (1.1, 1.3), 0.05), "more")
        self.assertEqual(stats.against(1.2, (1.1, 1.3), 0.25), "noise")
        self.assertEqual(stats.against(1.2, (0.9, 1.3), 0.0), "noise")
        self.assertEqual(stats.against(0.8, (0.7, 0.9), math.nan), "less")


class Analysis(unittest.TestCase):
    def test_twice_as_slow_is_twice(self):
        rows = measured(2, 2)
        ours = rows["detshare:detshare"]
        self.assertAlmostEqual(ours["p99_over_alone"], 2, places=2)
        self.assertEqual(ours["p99_verdict"], "more")
        self.assertAlmostEqual(ours["be_share"], 0.5, places=2)
        self.assertLessEqual(ours["p99_over_alone_low"], ours["p99_over_alone"])
        self.assertLessEqual(ours["p99_over_alone"], ours["p99_over_alone_high"])
        self.assertEqual(ours["requests"], 360)  # of 400 requests a tenth is warm-up
        self.assertAlmostEqual(ours["in_slo_n"], 1, delta=0.3)  # percent: of 2.00, 2.02, ... 3.98 ms one is within 2 x 1 ms
        self.assertAlmostEqual(ours["sum"], ours["be_share"] + 0.5 * ours["in_slo_n"] / 100)
        self.assertEqual(rows["mps"]["error"], "MPS cannot start: no")

    def test_the_same_is_noise(self):
        ours = measured(1, 1)["detshare:detshare"]
        self.assertEqual(ours["p99_verdict"], "noise")
        self.assertAlmostEqual(ours["be_share"], 1, places=2)
        self.assertEqual(ours["be_verdict"], "noise")

    def test_noise_of_the_machine_takes_a_claim_back(self):
        self.assertEqual(measured(1.3, 1)["detshare:detshare"]["p99_verdict"], "more")
        noisy = measured(1.3, 1, ls2=1.5)["detshare:detshare"]
        self.assertAlmostEqual(noisy["p99_noise"], 0.2, places=2)
        self.assertEqual(noisy["p99_verdict"], "noise")

    def test_the_section_says_it(self):
        rows = list(measured(2, 2).values())
        text = pages(rows)
        self.assertIn("| `mps` | MPS cannot start: no |", text)
        self.assertIn("| `a+b@50` | **no** |", text)
        self.assertRegex(text, r"`detshare:detshare` \| [0-9.]+ \| [0-9.]+ \| 2\.00 \[")
        self.assertRegex(pages(measured(1, 1).values()), r"`detshare:detshare` \| [0-9.]+ \| [0-9.]+ \| ~1\.00 \[")

    def test_the_section_says_how_much_is_there_and_how_unsteady_it_was(self):
        rows = list(measured(2, 2, ls2=1.5).values())
        text = pages(rows)
        self.assertIn("* `core`: 1 of 27 cells. ", text)
        self.assertIn("`a+b@50` (±20%)", " ".join(text.split()))
        self.assertNotIn("was unsteady", pages(measured(2, 2).values()))

    def test_alone_and_beside_in_a_row_per_cell(self):
        rows = measured(2, 2, ls2=1.5)
        self.assertAlmostEqual(rows["detshare:detshare"]["ls_alone_p10_ms"], 1.19)  # a fifth of the quicker half is a tenth of all
        self.assertEqual(rows["detshare:detshare"]["be_alone_p50_ms"], 10)
        text = pages(measured(2, 2).values())
        self.assertIn("| `a+b@50` | ~1.00 / ~1.000 | - | 2.00 / 0.500 |", text)
        self.assertIn("| `a+b@50` | 1.090, 1.98; 10.00 | 1.090, 1.98; 10.00 |", text)

    def test_slices_count_parts_of_steps(self):
        one = phase("native", "be1", "be0:b", [1000.0] * 4)
        self.assertTrue(all(abs(value - 1) < 1e-9 for value in analyse.steady_bins(one)))


class Files(unittest.TestCase):
    """Tests of state.State with a compressed file."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.packed = pathlib.Path(self.folder.name) / "s.csv.xz"
        self.growing = self.packed.with_suffix("")

    def phases(self, path=None):
        return [row["phase"] for row in state.State(path or self.packed).rows]

    def test_packed_and_gone_on_from(self):
        first = state.State(self.packed)
        first.add(phase="capacity", program="a", rate="10", latencies_ms="1.000;2.000")
        self.assertTrue(self.growing.exists())
        first.close()
        self.assertEqual([path.name for path in pathlib.Path(self.folder.name).iterdir()], ["s.csv.xz"])
        self.assertEqual(self.packed.read_bytes()[:6], b"\xfd7zXZ\0")
        second = state.State(self.packed)
        self.assertEqual((second.capacity("a"), second.rows), (10, first.rows))
        before = self.packed.read_bytes()
        second.close()
        self.assertEqual(self.packed.read_bytes(), before)
        self.assertFalse(self.growing.exists())
        second.add(phase="end")
        second.close()
        self.assertEqual(self.phases(), ["capacity", "end"])

    def test_a_run_that_was_killed_has_lost_no_row(self):
        first = state.State(self.packed)
        first.add(phase="ls1")
        first.close()
        killed = state.State(self.packed)
        killed.add(phase="be1")
        with open(self.growing, "a", encoding="utf8") as file:
            file.write("1,core,a+b@50,native,toget")
        self.assertEqual([row["phase"] for row in state.read(self.packed)], ["ls1"])
        after = state.State(self.packed)
        self.assertEqual([row["phase"] for row in after.rows], ["ls1", "be1"])
        after.add(phase="together")
        after.close()
        self.assertEqual([row["phase"] for row in state.read(self.packed)], ["ls1", "be1", "together"])

    def test_plain_files_are_what_they_were(self):
        plain = state.State(self.growing)
        plain.add(phase="ls1")
        plain.close()
        self.assertEqual(self.phases(self.growing), ["ls1"])
        self.assertFalse(self.packed.exists())

    def test_what_is_in_two_files_counts_once(self):
        paths = [self.packed.with_name(name) for name in ("a.csv.xz", "b.csv")]
        state.write(paths[0], [row(phase="ls1")])
        state.write(paths[1], [row(phase="ls1"), row(phase="be1")])
        self.assertEqual([r["phase"] for r in state.union(paths)], ["ls1", "be1"])

    def test_a_system_that_comes_later_is_asked_at_the_rate_of_the_others(self):
        kept = state.State(self.packed)
        cell = scenarios.Cell("core", ("a",), ("b",), 50, "poisson")
        kept.add(phase="ls1", group="core", cell="a+b@50", round="1", program="ls0:a", rate="12.5")
        self.assertEqual([kept.rate(1, cell, "ls0:a"), kept.rate(2, cell, "ls0:a"), kept.rate(1, cell, "ls0:b")], [12.5, None, None])

    def test_phases_of_another_length_are_not_gone_on_from(self):
        kept = state.State(self.packed)
        cell = scenarios.Cell("core", ("a",), ("b",), 50, "poisson")
        kept.add(phase="ls1", group="core", cell="a+b@50", round="2", program="ls0:a", seconds="2.500000")
        kept.add(phase="ls1", group="core", cell="a+b@75", round="1", program="ls0:a", seconds="9.000000")

        def check(seconds, rounds):
            measure.check_seconds(argparse.Namespace(state=self.packed, seconds=seconds, first_round=1, rounds=rounds, requests=0), [cell], kept)

        check(2.5, 2)
        check(4, 1)
        self.assertRaisesRegex(SystemExit, "phases of 2.5 s", check, 4, 2)

    def test_the_document_says_what_was_measured_on_a_gpu(self):
        rows = state.read(DOCS / "evaluation/h200.csv.xz")
        self.assertGreaterEqual(len(rows), 352)
        said = (DOCS / "evaluation/cells.md").read_text(encoding="utf8")
        own = analyse.figures_of(analyse.Measured([r for r in rows if r["cell"] in ("", "bert+bert-b64@50")]))
        for line in analyse.cell_tables(own):
            self.assertIn(line, said)  # `make eval-tables` writes it again
        self.assertFalse([r["phase"] for r in rows if r["latencies_ms"] and float(r["latencies_ms"].split(";")[0]) <= 0])

    def test_the_document_says_what_packs_in_parts_of_the_channels_did_on_a_gpu(self):
        found, _ = channels_gpu.ratios(channels_gpu.read([DOCS / "evaluation/channels-h200.csv.xz"]))
        said = (DOCS / "channels/h200.md").read_text(encoding="utf8")

        def cell(share, colours, bound, pairs):
            of = [c for key, c in found.items() if key[:1] + key[3:] == (share, colours, bound) and key[1:3] in pairs]
            self.assertEqual(len(of), len(pairs))
            p50, p99, be = (channels_gpu.mean_of([statistics.median(c[what]) for c in of]) for what in ("p50", "p99", "be"))
            return f"{p50:.2f} / {p99:.2f}, {be:.2f}"

        four = [(ls, be) for ls in ("resnet34", "mobilebert") for be in ("bert", "densenet161")]
        for pairs, shares in (four, ("1/4", "1/3")), (four[:1], ("1/6", "1/4", "1/3", "1/2")):
            for share in shares:
                for colours, name in ("off", "nobody"), ("be", "BE"), ("both", "both"):
                    self.assertIn(f"| {name} | " + " | ".join(cell(share, colours, bound, pairs) for bound in (0, 33, 16)) + " |\n", said)


class Frontier(unittest.TestCase):
    """Tests of the comparison of `detshare` with fixed settings. The rows have (share of the job, share of requests in time) by setting."""

    def cell(self, load=5, alone=1.0, **settings):
        by = {"alone": (0.0, alone), "detshare": (0.5, 1.0), "detshare,slo=2": (0.6, 0.998), "multistream": (0.9, 0.5), "static": (0.6, 0.995)}
        by |= {"detshare,slo=2" if name == "slo" else name: value for name, value in settings.items()}
        return [{"device": "sim:h200", "pair": "a/b", "load": load, "round": 1, "setting": name, "objective": 2.0, "p50_over_alone": 1.0, "p99_over_alone": 1.5,
                 "attainment": met, "job_share": share, "requests": 1000} for name, (share, met) in by.items()]

    def reasons(self, *rows):
        return [sorted(frontier_page.reasons(cell)) for cell in frontier_page.cells([row for lot in rows for row in lot])]

    def test_the_best_setting_that_meets_the_objective_is_the_frontier(self):
        cell, = frontier_page.cells(self.cell())
        self.assertEqual((cell.best.setting, cell.below), ("static", False))
        cell, = frontier_page.cells(self.cell(static=(0.6, 0.9)))
        self.assertEqual((cell.best, cell.below), (None, False))

    def test_a_cell_that_is_not_complete_does_not_count(self):
        for setting in ("alone", "detshare", "detshare,slo=2"):
            self.assertEqual(frontier_page.cells([row for row in self.cell() if row["setting"] != setting]), [])

    def test_a_cell_that_is_left_out_is_named_with_what_it_lacks(self):
        rows = [row for row in self.cell() if row["setting"] != "detshare"]
        self.assertEqual(frontier_page.incomplete(self.cell(load=10) + rows), {"`a+b@5`": ["`detshare`"]})
        text = " ".join(frontier_page.page(self.cell(load=10) + rows, "title", (), {}))
        self.assertIn("in no table and no count: `a+b@5` (`detshare`).", text)
        self.assertNotIn("in no table", " ".join(frontier_page.page(self.cell(), "title", (), {})))

    def test_settings_without_a_common_round_are_compared_through_detshare(self):
        # the job's throughput alone is lower in round 2, so all shares there are doubled
        settings = {"detshare": 0.5, "static": 0.6, "alone": 0.0}
        second = [dict(row, round=2, job_share=2 * settings[row["setting"]]) for row in self.cell() if row["setting"] in settings]
        cell, = frontier_page.cells([row for row in self.cell() if row["setting"] != "static"] + second)
        self.assertAlmostEqual(cell.of_best, 0.6 / 0.6)
        self.assertFalse(cell.loses)  # 0.6 against 0.5 in round 1, although the mean over both rounds is 0.75
        cell, = frontier_page.cells(self.cell() + second)
        self.assertAlmostEqual(cell.of_best, 0.6 / 0.6)

    def test_a_cell_without_a_sweep_has_no_frontier(self):
        rows = [dict(row, setting="native") if row["setting"] == "multistream" else row for row in self.cell() if row["setting"] != "static"]
        cell, = frontier_page.cells(rows)
        self.assertEqual((cell.swept, cell.best, cell.below, cell.best_text), (False, None, False, ""))
        self.assertIn("| 1 | 1 | 0 | 0 | 0 | 0 | - |", " ".join(frontier_page.summary_table([cell])))
        self.assertIn("only `native` was measured in 1 of the 1", " ".join(frontier_page.page(rows, "title", (), {})))
        cell, = frontier_page.cells(self.cell(static=(0.6, 0.9)))
        self.assertEqual((cell.swept, cell.best_text), (True, "-"))

    def test_the_table_of_the_readme_has_the_cells_with_every_system(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "f.csv"
            frontier.Rows(path).add([dict(row, p50_ms=1.0, p99_ms=1.0, setting={"multistream": "mps-priority"}.get(row["setting"], row["setting"]))
                                     for row in self.cell() + [row for row in self.cell(load=50) if row["setting"] != "multistream"]])
            rows, systems, cells = worth.figures(path)
        self.assertEqual((cells, systems), (1, ["mps-priority", "detshare:detshare", "detshare:detshare,slo=2"]))
        self.assertEqual({row["load"] for row in rows}, {5})

    def test_each_goal_that_is_missed_has_its_reason(self):
        self.assertEqual(self.reasons(self.cell(slo=(0.56, 0.998))), [["unused"]])
        self.assertEqual(self.reasons(self.cell(slo=(0.56, 0.992))), [["spent"]])
        self.assertEqual(self.reasons(self.cell(slo=(0.57, 0.98))), [["overspent"]])
        self.assertEqual(self.reasons(self.cell(slo=(0.57, 0.98), detshare=(0.5, 0.98))), [["late alone"]])
        self.assertEqual(self.reasons(self.cell(slo=(0.57, 0.98), alone=0.99)), [[]])
        self.assertEqual(self.reasons(self.cell(slo=(0.50, 0.98), alone=0.99)), [["late", "not the objective"]])
        self.assertEqual(self.reasons(self.cell(detshare=(0.7, 1.0))), [["less"]])
        self.assertEqual(self.reasons([dict(row, p50_over_alone=1.2 if "slo" in row["setting"] else 1.0) for row in self.cell(detshare=(0.7, 1.0))]), [["slower requests"]])

    def test_a_setting_that_misses_the_objective_at_another_load_is_hindsight(self):
        busy = self.cell(load=75, static=(0.9, 0.4))
        self.assertEqual(self.reasons(self.cell(slo=(0.5, 0.998)), busy), [["hindsight", "not the objective", "unused"], []])
        self.assertEqual(self.reasons(self.cell(slo=(0.5, 0.998)), self.cell(load=75, static=(0.9, 0.4), alone=0.5))[0], ["not the objective", "unused"])

    def test_every_cell_below_the_frontier_of_the_documents_has_a_reason_and_no_other_cell(self):
        simulated, gpu = (frontier_page.cells(frontier_page.read(DOCS / f"evaluation/{name}.csv.xz")) for name in ("frontier-sim", "frontier"))
        self.assertEqual(len(simulated), 3 * 3 * 5 * 3)
        self.assertLessEqual({(pair, load) for pair in frontier.PAIRS.split(",") for load in (25, 50, 75)}, {(cell.pair, cell.load) for cell in gpu if cell.swept})
        for cell in simulated + gpu:
            self.assertEqual(cell.below, bool(frontier_page.reasons(cell)), cell.name)


class Writing(unittest.TestCase):
    def test_a_section_is_replaced_and_the_rest_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "e.md"
            path.write_text("# Title\n\nwords\n")
            self.assertIsNone(document.section(path, "x", "make x"))
            document.write(path, "x", ["one"], "make x")
            document.write(path, "y", ["two"], "make y")
            document.write(path, "x", ["three"], "make x")
            self.assertEqual([document.section(path, name, f"make {name}") for name in "xy"], ["three", "two"])
            self.assertTrue(path.read_text().startswith("# Title\n\nwords\n"))
            self.assertNotIn("one", path.read_text())

    def test_a_generated_file_names_its_command_first(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "new/e.md"
            document.whole(path, "make e", ["# Title", "", *document.paragraph("word " * 40), ""])
            first, *rest = path.read_text().split("\n")
            self.assertEqual(first, "<!-- written by `make e`: do not edit -->")
            self.assertEqual(rest[1:-1], document.body(path))
            self.assertEqual(max(map(len, rest)), 99)
            document.whole(path, "make e", document.body(path))
            self.assertEqual(path.read_text().split("\n"), [first, *rest])

    def test_plots_are_well_formed(self):
        svg = plot.grid({("a<", "b"): {"x": [(1.5, (1.2, 2.0), 0.7, 25), (math.inf, (math.nan, math.nan), 0.5, 50)], "y&": []}})
        self.assertEqual(xml.dom.minidom.parse(io.StringIO(svg)).documentElement.tagName, "svg")

    def test_every_scenario_can_be_simulated_and_measured(self):
        cells = scenarios.cells(simulated=True)
        self.assertEqual(sum(cell.group == "core" for cell in cells), 27)
        self.assertEqual(len({(cell.group, cell.name) for cell in cells}), len(cells))
        known = set(replay.profiles.WORKLOADS) | {"blocks-2ms"}
        self.assertTrue(all(name in known for cell in cells for name in cell.ls + cell.be))

    def test_shards_are_all_cells_once(self):
        cells = scenarios.cells()
        shards = [measure.share(cells, (k, 4)) for k in range(4)]
        self.assertEqual(sorted(cell.name + cell.group for shard in shards for cell in shard), sorted(cell.name + cell.group for cell in cells))
        self.assertTrue(max(map(len, shards)) - min(map(len, shards)) <= 1)

    def test_shards_wait_for_each_other_but_for_nobody_who_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            said, one, two = [], meeting.Meeting(folder, 0, 3), meeting.Meeting(folder, 1, 3)
            third = meeting.Meeting(folder, 2, 3)

            def goes(who, *points):
                for point in points:
                    who.at(point)
                    said.append((who.number, point))
                who.leave()
            first = threading.Thread(target=goes, args=(one, "a", "a", "b"))
            first.start()
            second = threading.Thread(target=goes, args=(two, "a", "c", "b"))
            second.start()
            time.sleep(0.3)
            self.assertEqual(said, [], "the third is not there yet")
            third.at("a")
            time.sleep(0.3)
            self.assertEqual(sorted(said), [(0, "a"), (0, "a"), (1, "a")])
            third.leave()  # then two members wait for each other at different points
            for thread in (first, second):
                thread.join(10)
                self.assertFalse(thread.is_alive())
        with tempfile.TemporaryDirectory() as folder:
            one, two = meeting.Meeting(folder, 0, 2), meeting.Meeting(folder, 1, 2)
            two.passed("a")
            one.at("a")  # no other member reaches this point
            first = threading.Thread(target=one.at, args=("b",))
            first.start()
            while pathlib.Path(folder).exists():  # the member writes files at the same time
                shutil.rmtree(folder, ignore_errors=True)
            first.join(10)
            self.assertFalse(first.is_alive(), "nobody is left where there is no folder")
            two.at("c")
            for who in (one, two):
                who.leave()
            pathlib.Path(folder).mkdir()
        alone = meeting.Meeting(None, 0, 2)
        alone.at("a")
        alone.leave()

    def test_the_job_has_a_percentage_of_the_threads_of_mps_and_the_service_all(self):
        for name, priority, percent in (("mps", False, None), ("mps-50", False, "50"), ("mps-priority", True, None), ("mps-priority-25", True, "25")):
            world = measure.Mps.__new__(measure.Mps)
            world.options, world.folder = argparse.Namespace(native_socket=None), pathlib.Path("/f")
            match = measure.MPS.fullmatch(name)
            world.priority, world.job_percent = bool(match[1]), match[2]
            service, job = (world.environment(class_) for class_ in ("ls", "be"))
            self.assertEqual((job.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), service.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")), (percent, None), name)
            self.assertEqual((job.get("CUDA_MPS_CLIENT_PRIORITY"), priority), ("1" if priority else None, priority))
        for wrong in ("mps-0", "mps-100", "mps-priority-", "mpspriority"):
            self.assertIsNone(measure.MPS.fullmatch(wrong), wrong)

    def test_phases_are_long_enough_for_the_requests_that_count(self):
        options = argparse.Namespace(seconds=5, requests=900)
        self.assertAlmostEqual(measure.seconds_of([50, 100], options), (900 + 3 * 30) / 50 / 0.9)
        self.assertEqual(measure.seconds_of([1000], options), 5)
        self.assertEqual(measure.seconds_of([], options), 5)

    def test_an_objective_is_a_multiple_of_the_first_native_phase_alone(self):
        alone = [row(group="g", cell="a+b@5", system=system, phase="ls1", program="ls0:a", skip_s="0.5", latencies_ms=text, at_s="0.1;0.6;0.7")
                 for system, text in (("detshare:x", "9;9;9"), ("native", "8.0;2.0;3.0"), ("native", "9;9;9"))]
        self.assertEqual(state.objective_ms(alone, ("g", "a+b@5"), "ls0:a"), 3)
        self.assertEqual(state.objective_ms(alone, ("g", "a+b@10"), "ls0:a"), 0)
        self.assertEqual([measure.slo_of(system) for system in ("detshare:detshare,slo=1.5", "detshare:x,slo=2,y=1", "native")], [1.5, 2, 0])

    def test_a_cell_that_fails_takes_no_other_with_it(self):
        cells = scenarios.cells(["core:bert+"])
        bad, opened, ended = {cells[0].name, cells[5].name}, [], []

        class World:
            def policy(self, system):
                pass

            def end(self):
                ended.append(self)

        class Company:
            def __init__(self, *_):
                pass

            def warm(self):
                pass

            def why_not(self, _cell):
                return ""

            def end(self):
                pass

        def run_system(cell, system, round_, _company, kept, _options, _folder):
            if cell.name in bad:
                raise measure.Failed("gone")
            kept.add(round=round_, group=cell.group, cell=cell.name, system=system, phase="end")

        def world_open(*_):
            opened.append(World())
            return opened[-1]
        options = argparse.Namespace(systems=["mps"], seconds=1, limit=0, requests=0, shard=(0, 1), first_round=3, rounds=1, meet=None)
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.multiple(
                measure, Company=Company, run_system=run_system, world_open=world_open, print=lambda *_, **__: None, create=True):
            kept = state.State(pathlib.Path(folder) / "s.csv")
            for name in {name for cell in cells for name in cell.ls + cell.be}:
                kept.add(phase="capacity", program=name, rate="10")
            self.assertTrue(measure.run(options, cells, kept, pathlib.Path(folder)))
            failed = {row["cell"] for row in kept.rows if row["phase"] == "failed"}
            done = {row["cell"] for row in kept.rows if (row["phase"], row["round"]) == ("end", "3")}
            again = measure.left_to_do(options, cells, kept)
        self.assertEqual((failed, done | bad, again), (bad, {cell.name for cell in cells}, 0))
        self.assertGreaterEqual(len(opened), 2)
        self.assertEqual(ended, opened)

    def test_a_program_that_is_gone_can_be_told_and_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            program = measure.Program(["true"], {}, pathlib.Path(folder) / "true.err")
            program.child.wait()
            with self.assertRaises(measure.Failed):
                program.tell("loop 1")
            program.end()

    def test_each_program_of_a_cell_has_a_name_of_its_own(self):
        cell = scenarios.Cell("g", ("a",), ("b", "b", "a"), 0, "closed")
        self.assertEqual(measure.keys_of(cell), [("ls", "a", 0), ("be", "b", 0), ("be", "b", 1), ("be", "a", 0)])
        plan = measure.plan_of(measure.keys_of(cell), dict.fromkeys(measure.keys_of(cell), "serve x"), False, 2, 1)
        self.assertEqual([(name, seconds, len(told)) for name, seconds, told in plan], [("", 2, 4), ("together", 2, 4)])
        plan = measure.plan_of(measure.keys_of(cell), dict.fromkeys(measure.keys_of(cell), "serve x"), True, 2, 1)
        self.assertEqual([(name, seconds, len(told)) for name, seconds, told in plan],
                         [("ls1", 2, 1), ("be1", 1, 1), ("together", 2, 4), ("ls2", 2, 1), ("be2", 1, 1)])

    def test_an_update_touches_the_rows_and_columns_of_its_policies_only(self):
        cells = "## Cell by cell on d"
        old = ["## `core` on d", "", *document.table(["policy", "p99"], [["(no job)", "1"], ["`a`", "2"], ["`b`", "3"]]),
               cells, "", *document.table(["cell", "`a`", "`b`"], [["`x@1`", "4 / 0", "5 / 0"], ["`y@1`", "6 / 0", "7 / 0"]]),
               "## The claims", "", *document.table(["said", ""], [["c", "**no**"]])]
        new = ["## `core` on d", "", *document.table(["policy", "p99"], [["(no job)", "1"], ["`b`", "30"]]),
               cells, "", *document.table(["cell", "`b`"], [["`x@1`", "50 / 0"]]),
               "## `core` on e", "", *document.table(["policy", "p99"], [["`a`", "9"]])]
        said = [line.replace("| `b` | 3 |", "| `b` | 30 |").replace("| `x@1` | 4 / 0 | 5 / 0 |", "| `x@1` | 4 / 0 | 50 / 0 |") for line in old]
        self.assertEqual(replay.updated(old, new), said)
        self.assertEqual(replay.updated(old, old), old)

    def test_a_file_written_later_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in "ab"]
            for path, share in zip(paths, ("1", "2")):
                with open(path, "w", encoding="utf8") as out:
                    writer = csv.DictWriter(out, ("device", "group", "cell", "policy", "be_share"))
                    writer.writeheader()
                    writer.writerow({"device": "d", "group": "g", "cell": "c", "policy": "p", "be_share": share})
            self.assertEqual([r["be_share"] for r in replay.merged(paths)], ["2"])


class Slots:
    """Stands in for a language model: counts the steps, and the prompts of each slot."""

    def __init__(self, slots):
        self.sizes, self.used, self.steps = unittest.mock.Mock(slots=slots), [], 0

    def admit(self, slot, length):
        assert 0 < length <= language.PROMPTS[-1]
        self.used.append(slot)

    def step(self):
        self.steps += 1


class LanguageService(unittest.TestCase):
    def test_every_prompt_is_answered_whatever_the_number_of_slots(self):
        for slots in (1, 2, 24):
            model = Slots(slots)
            prompts = language.requests(2000, 0.05, 3)
            took = language.serve(model, 2000, 0.05, 3)
            self.assertEqual(len(took["ttft_ms"]), len(prompts))
            self.assertEqual(len(took["tpot_ms"]), len(prompts))
            self.assertEqual(len(took["step_ms"]), model.steps)
            self.assertLessEqual(set(model.used), set(range(slots)))
            # each token after the first one is one step; with one slot no step computes tokens of two answers
            tokens = sum(tokens - 1 for _, _, tokens in prompts)
            self.assertLessEqual(model.steps, tokens)
            if slots == 1:
                self.assertEqual(model.steps, tokens)

    def test_the_same_prompts_arrive_for_the_same_seed(self):
        self.assertEqual(language.requests(10, 5, 1), language.requests(10, 5, 1))
        self.assertNotEqual(language.requests(10, 5, 1), language.requests(10, 5, 2))

    def test_the_first_steps_of_the_job_do_not_count(self):
        self.assertAlmostEqual(tpot.rate({"latencies_ms": [1000.0] + [10.0] * 9}), 100)


if __name__ == "__main__":
    unittest.main()
