#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of docs/performance.md's generator with figures whose page is known; the figures of the tests are invented."""
import contextlib
import csv
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import performance  # noqa: E402

first_times, eager_models = performance.first_times, performance.eager_models
README = "# Title\n\n<!-- begin eager: written by make performance-page -->\n\n<!-- end eager -->\n\nThe end.\n"


def put(path, head, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


class Case(unittest.TestCase):
    """A folder with runs, a document and a README."""

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.folder = pathlib.Path(self.tmp.name)
        self.doc, self.readme = self.folder / "docs/performance.md", self.folder / "README.md"
        self.readme.write_text(README)
        (self.folder / "docs").mkdir()

    def run_(self, *arguments):
        """Exit status, and all output."""
        said = io.StringIO()
        command = ["performance.py", "--doc", str(self.doc), "--readme", str(self.readme), *map(str, arguments)]
        with unittest.mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = performance.main()
        return status, said.getvalue()

    def made(self, *folders):
        self.assertEqual(self.run_("--from", *folders), (0, ""))
        return self.doc.read_text(encoding="utf8")

    def figures(self, name, part, rows, device="NVIDIA X1"):
        """A run of one part. rows: (round, side, figure, value, unit)."""
        put(self.folder / name / f"{part}.csv", ("round", "side", "figure", "value", "unit"), rows)
        put(self.folder / name / "machine.csv", ("name", "value"), (("device", device), ("driver", "1.2"), ("processors", 16), ("date", "2026-01-02")))
        return self.folder / name

    def eager(self, name, models, rounds=(1, 2)):
        """models: {model: (native us, DetShare us, GPU us, digest under DetShare)}."""
        rows = []
        for model, (native, shared, gpu, digest) in models.items():
            for round_ in rounds:
                for side, us, own in (("native", native, "a"), ("detshare", shared, digest)):
                    rows.append((model, "family", "fp16", round_, side, "cuda:0", 3, own, True, us, "", "", f"{us - 1};{us + round_};{us * 10}"))
            rows.append((model, "family", "fp16", 0, "kernels", "cuda:0", 0, "a", True, "", 200, gpu, ""))
        put(self.folder / name / "eager.csv", eager_models.HEAD, rows)
        return self.folder / name


class Tables(Case):
    def test_a_relative_time_is_of_medians_and_inverse_for_rates(self):
        rows = [(i, side, "launch_sync_p50", us, "us") for i, native, shared in ((1, 10, 8), (2, 20, 18), (3, 30, 33)) for side, us in (("native", native), ("detshare", shared))]
        rows += [(1, "native", "launches_per_s", 300000, "1/s"), (1, "detshare", "launches_per_s", 200000, "1/s")]
        page = self.made(self.figures("a", "figures", rows))
        self.assertIn("| launch and synchronise, p50 | 20.0 us | 18.0 us | 0.90 | 0.80 to 1.10 | at most 1 |", page)
        self.assertIn("| launches of one client | 300,000/s | 200,000/s | 1.50 | - | **at most 1** |", page)
        self.assertIn("Measured on: NVIDIA X1, driver 1.2, 16 processors, 2026-01-02, 3 rounds.", page)
        self.assertIn("    tests/bench/gpu.sh build figures clients\n", page)

    def test_goals_in_absolute_figures_and_beside_native(self):
        page = self.made(self.figures("a", "figures", [
            (1, "native", "launch_p50", 3, "us"), (1, "detshare", "launch_p50", 0.16, "us"), (1, "native", "copy_4KiB_to_host_p50", 5, "us"),
            (1, "detshare", "copy_4KiB_to_host_p50", 8, "us"), (1, "native", "copy_4KiB_to_device_p50", 5, "us"), (1, "detshare", "copy_4KiB_to_device_p50", 8.1, "us")]),
            self.figures("b", "clients", [(1, "detshare", "clients_8_launches", 1000001, "1/s"), (1, "detshare", "idle_daemon", 0.6, "%")]))
        for line in ("| 3.00 us | 0.16 us | 0.053 | - | **at most 0.15 us** |", "`cuMemcpyDtoH`, 4 KiB, p50 | 5.00 us | 8.00 us | 1.60 | - | native + 3.00 us |",
                     "`cuMemcpyHtoD`, 4 KiB, p50 | 5.00 us | 8.10 us | 1.62 | - | **native + 3.00 us** |", "| launches of 8 clients for some seconds | - | 1,000,001/s | - | - | at least 1,000,000/s |",
                     "| daemon without clients, of one core | - | 0.600% | - | - | **at most 0.500%** |"):
            self.assertIn(line, page)

    def test_latencies_beside_other_programs(self):
        def side(name, alone, beside):
            return [(1, name, f"{when}_{what}", value, "us") for when, value in (("alone", alone), ("beside", beside)) for what in ("p50", "p99", "max")]
        page = self.made(self.figures("a", "delay", side("native", 10, 2000) + side("static", 10, 11) + [(1, "static", "be_kernels", 62.5, "1/s")]),
                         self.figures("b", "loop", side("detshare", 100, 150) + [(1, "detshare", "programs", 141, "")]))
        for line in ("| natively | 10.0 | 10.0 | 10.0 | 2,000.0 | 2,000.0 | 2,000.0 | 200.00 | - |", "| policy `static` | 10.0 | 10.0 | 10.0 | 11.0 | 11.0 | 11.0 | 1.10 | 62.5 |",
                     "| DetShare | 100.0 | 100.0 | 100.0 | 150.0 | 150.0 | 150.0 | 1.50 | 141 |"):
            self.assertIn(line, page)

    def test_first_times_by_group_and_row(self):
        rows = [("modules", row, stage, side, i, us, "cuda:0") for i in (1, 2) for row, stage, native, shared in (("m.1", "cold", 100, 105), ("m.2", "cold", 100, 300), ("m.1", "again", 50, 60))
                for side, us in (("native", native), ("detshare", shared))]
        put(self.folder / "a/first/samples.csv", first_times.Samples.HEAD, rows)
        page = self.made(self.folder / "a")
        self.assertIn("| `modules`: Modules of 1, 100 and 10,000 kernels | 1 of 2 | 2.02 | 0 of 1 | 1.20 | `m.1` 1.20 |", page)
        rows = (self.folder / "docs/performance/first-times.md").read_text()
        self.assertIn("| `m.2` | 100 us | 300 us | **3.00** | - | - | - | 2 |", rows)

    def test_the_bench_without_a_gpu(self):
        for i, us in (1, 10), (2, 14), (3, 12):
            (self.folder / f"bench{i}.json").write_text(json.dumps({"device": "sim:h200+timing", "processors": 2, "date": "2026-01-02", "figures": [
                {"name": "worker", "value": us, "unit": "us", "target": "-"}, {"name": "the RPC over the bare round trip, p50", "value": us / 10, "unit": "times", "target": "-"}]}))
        page = self.made(self.folder)
        self.assertIn("| processor time of a launch: worker | 12.0 us | 10.0 us to 14.0 us |", page)
        self.assertIn("| the RPC over the bare round trip, p50 | 1.20 times | 1.00 times to 1.40 times |", page)
        self.assertIn("Measured on: sim:h200+timing, 2 processors, 2026-01-02, 3 rounds.", page)


class Eager(Case):
    MODELS = {"quick": (4000, 2800, 1000, "a"), "slow": (4000, 3600, 1000, "a"), "full": (8000, 7900, 7000, "a"), "wrong": (8000, 8800, 7000, "b")}

    def test_the_goal_depends_on_the_time_of_the_kernels(self):
        page = self.made(self.eager("a", self.MODELS))
        for line in ("| `quick` | family | fp16 | 200 | 25% | 4.00 | 2.80 | 0.70 | 0.70 to 0.70 | 0.75 | 0.70 | identical |",
                     "| `slow` | family | fp16 | 200 | 25% | 4.00 | 3.60 | **0.90** | 0.90 to 0.90 | 0.75 | 0.90 | identical |",
                     "| `full` | family | fp16 | 200 | 87% | 8.00 | 7.90 | 0.99 | 0.99 to 0.99 | 1 | 0.99 | identical |",
                     "| `wrong` | family | fp16 | 200 | 87% | 8.00 | 8.80 | **1.10** | 1.10 to 1.10 | 1 | 1.10 | **differ** |",):
            self.assertIn(line, page)
        self.assertIn("2 of 4 models reach their goal; 2 are host-limited; the outputs of 1 models differ", " ".join(page.split()))

    def test_readme_has_the_plot_between_its_markers(self):
        self.made(self.eager("a", self.MODELS))
        text = self.readme.read_text()
        self.assertIn("is 0.70 to 1.10; where the host is the limit (2 of 4), its median is 0.80", " ".join(text.split()))
        self.assertIn("![requests to eager PyTorch models](docs/performance/eager.svg)\n<!-- end eager -->\n\nThe end.\n", text)

    def test_runs_are_joined_with_all_their_rounds(self):
        page = self.made(self.eager("a", {"quick": (4000, 2000, 1000, "a")}), self.eager("b", {"quick": (4000, 3000, 1000, "a")}, (1, 2, 3)))
        self.assertIn("| 0.75 | 0.50 to 0.75 |", page)  # of five rounds, three have 3000 us

    def test_without_figures_there_is_no_section(self):
        page = self.made(self.figures("a", "figures", [(1, "detshare", "launch_p50", 1, "us")]))
        self.assertNotIn("Eager", page)
        self.assertEqual(self.readme.read_text(), README)


class Files(Case):
    def test_plots_are_well_formed_and_linked(self):
        sides = [(1, side, name, 10, unit) for name, unit in (("launch_p50", "us"), ("pinned_h2d_1MiB", "GB/s"), ("alloc_1MiB", "us"), ("module_ptx_new", "us")) for side in ("native", "detshare")]
        rows = [("start", "s", "cold", side, 1, 5, "cuda:0") for side in ("native", "detshare")]
        put(self.folder / "a/first/samples.csv", first_times.Samples.HEAD, rows)
        page = self.made(self.figures("a", "figures", sides), self.eager("b", Eager.MODELS))
        found = sorted((self.folder / "docs/performance").glob("*.svg"))
        self.assertEqual([path.stem for path in found], ["copies", "eager", "first", "launches", "memory", "modules"])
        for path in found:
            self.assertEqual(xml.dom.minidom.parse(str(path)).documentElement.tagName, "svg")
            self.assertIn(f"](performance/{path.name})", page)

    def test_a_check_finds_each_file_that_differs(self):
        self.made(self.figures("a", "figures", [(1, side, "launch_p50", 10, "us") for side in ("native", "detshare")]), self.eager("b", Eager.MODELS))
        self.assertEqual(self.run_("--check"), (0, ""))
        for path in (self.doc, self.doc.parent / "performance/eager.svg", self.doc.parent / "performance/launches.svg"):
            kept = path.read_text()
            path.write_text(kept.replace("DetShare", "Somebody"))
            status, said = self.run_("--check")
            self.assertEqual((status, said.split(":")[0]), (1, str(path.relative_to(self.doc.parent))))
            path.write_text(kept)
        self.readme.write_text(self.readme.read_text().replace("0.80", "0.70"))
        self.assertEqual(self.run_("--check")[1].split(":")[0], "README.md")
        self.readme.write_text(README.replace("begin eager", "begin nothing"))
        self.assertEqual(self.run_("--check"), (0, ""))
        (self.doc.parent / "performance/old.svg").write_text("<svg/>")
        self.assertEqual(self.run_("--check")[0], 1)
        self.assertEqual(self.run_(), (0, ""))
        self.assertEqual(self.run_("--check"), (0, ""))

    def test_a_run_replaces_the_parts_that_it_has(self):
        def run(name, part, value):
            return self.figures(name, part, [(1, side, "launch_sync_p50" if part == "figures" else "clients_1_launches", value, "us" if part == "figures" else "1/s")
                                             for side in ("native", "detshare")])
        self.made(run("a", "figures", 10), run("b", "clients", 70))
        page = self.made(run("c", "figures", 30), run("d", "figures", 50))
        self.assertIn("| launch and synchronise, p50 | 40.0 us | 40.0 us | 1.00 | 1.00 to 1.00 |", page)
        self.assertIn("| launches of one client for some seconds | 70/s | 70/s |", page)
        put(self.folder / "e/clients.csv", ("round", "side", "figure", "value", "unit"), ())
        self.assertEqual(self.run_("--from", self.folder / "e")[0], 3)
        self.assertEqual(self.doc.read_text(), page)

    def test_figures_of_a_simulated_device_are_refused(self):
        folder = self.figures("a", "figures", [(1, "detshare", "launch_p50", 1, "us")], "sim:h200")
        status, said = self.run_("--from", folder)
        self.assertEqual((status, self.doc.exists()), (3, False))
        self.assertIn("sim:h200, which is no GPU", said)
        self.assertEqual(self.run_("--simulated", "--from", folder)[0], 0)
        self.assertIn("On sim:h200: the figures say nothing about a GPU.", self.doc.read_text())


if __name__ == "__main__":
    unittest.main()
