# SPDX-License-Identifier: BSD-3-Clause
"""The driver of the Intel MPI Benchmarks' patterns: its options, programs and runs."""

import argparse
import os
import re
import shutil
import statistics
from pathlib import Path

from benchlib import BenchError, prepare, summary, transports
from benchlib.driver import Driver
from benchlib.options import count, seconds
from benchlib.places import NICS
from benchlib.program import HOSTS_MOST, Case, Run
from benchlib.session import Rejected
from benchlib.summary import Key

from . import benchmarks, output

ALL_RANKS = (2, 4, 8)  # of suite all
COLLECTIVES_HOSTS = 4  # where coll/rawe begins to multicast
# IMB-MPI1 repeats a size until 40 MB have moved, whatever -time says, but drops the remaining sizes
# when all it has measured took longer than -time for each: so it gets time enough.
IMB_SECONDS = 1.0
BUFFERS_MOST = 4096  # of rawe-imb
PROGRAMS = {
    "own": "imb-runs/rawe-imb",
    "pingpong": "baseline/baseline-pingpong",
    "stream": "baseline/baseline-stream",
}
EPILOG = """examples:
  compare                                  two virtual hosts, tcp against rawe, under 2 minutes
  compare --quick --mtu 9000               a short run with jumbo frames
  compare --suite all                      all of IMB-MPI1 on 2, 4 and 8 ranks
  compare --suite collectives --hosts 8    also without coll/rawe's multicast (unicast)
  compare --suite seeds                    the tests of MPBench, GAMMA and ESP
  compare --rate 1gbit --topology switch --suite bandwidth
  compare --transports tcp,ofi,ucx,rawe --suite latency
  compare --suite change --against ../old/build --nic cut --rounds 7
  compare --hostfile hosts --interface eth1 --np 8
  compare --resume bench/imb-runs/results/<date-time>

Exit status: 0 all runs ended well, 1 some failed (each is shown with the command that repeats it),
2 nothing could be measured, 130 interrupted; the report holds what was measured until then.
IMB-MPI1 is used when it is on PATH or named by IMB_MPI1, rawe-imb otherwise."""


def real_imb():
    """Path of IMB-MPI1, from $IMB_MPI1 or PATH, or None; BenchError when $IMB_MPI1 is wrong."""
    named = os.environ.get("IMB_MPI1")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise BenchError(
                f"IMB_MPI1={named} is no program; let it name the IMB-MPI1 binary, or unset it"
            )
        return Path(named).resolve()
    found = shutil.which("IMB-MPI1")
    return Path(found) if found else None


def _benchmarks(text):
    try:
        return [benchmarks.benchmark_named(name) for name in text.split(",") if name.strip()]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _msglog(text):
    match = re.fullmatch(r"(?:(\d+):)?(\d+)", text)
    if not match or not int(match.group(1) or 0) <= int(match.group(2)) <= 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH with 0 <= LOW <= HIGH <= 30")
    return int(match.group(1) or 0), int(match.group(2))


def _buffers(text):
    number = count(text)
    if not 2 <= number <= BUFFERS_MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 2 to {BUFFERS_MOST}")
    return number


def _hosts_in(hostfile):
    lines = hostfile.read_text(encoding="utf-8").splitlines()
    return max(2, len([line for line in lines if line.split("#")[0].strip()]))


def _collectives(options):
    """Return true for the suite of collectives, which is also compared without multicast."""
    return options.suite == "collectives" and not options.benchmarks


def _groups(made, options):
    """(ranks, hosts) of each group; hosts is 0 where a hostfile decides."""
    if options.hostfile is not None:
        hosts = _hosts_in(options.hostfile)
        ranks = options.np or [hosts]
        if options.np is None and options.suite == "all":
            ranks = sorted({*(n for n in ALL_RANKS if n < hosts), hosts})
        return [(number, 0) for number in ranks]
    ranks = options.np or [options.hosts or (COLLECTIVES_HOSTS if _collectives(options) else 2)]
    if options.np is None and options.hosts is None and options.suite == "all":
        ranks = list(ALL_RANKS)
    most = 2 if options.topology == "pair" else HOSTS_MOST
    for number in ranks:
        if number < 2:
            made.error("--np 1: a single rank has no partner")
        if number < (options.hosts or 2):
            made.error(f"--np {number} leaves some of {options.hosts} hosts idle")
    return [(number, options.hosts or min(number, most)) for number in ranks]


class ImbDriver(Driver):
    """compare of bench/imb-runs."""

    name = "imb-runs"
    description = "Measure MPI over raw Ethernet frames (rawe) against TCP and others."
    epilog = EPILOG
    transports_said = "tcp,rawe; with --suite collectives tcp,unicast,rawe"
    quick = "2 rounds and little time for each size"
    timeout = 180.0

    def __init__(self):
        self.receive_buffers = None
        self.shown = {}  # the medians that the tables are made of
        self.programs = {}  # name -> path; imb: the real one where there is one

    def add_options(self, parser):
        add = parser.add_argument
        add("--suite", choices=tuple(benchmarks.SUITES), default="default")
        add("--benchmarks", type=_benchmarks, metavar="A,B", help="instead of a suite")
        add("--msglog", type=_msglog, metavar="LOW:HIGH", help="sizes 0, 2^LOW..2^HIGH")
        add("--time", type=seconds, help="most seconds for a size (default 0.02; with --rate 1)")
        add("--iterations", type=count, help="most repetitions of a size (default 1000)")
        text = "streams also into N buffers in turn, where one is the rule"
        add("--receive-buffers", type=_buffers, metavar="N", help=text)
        add("--check", action="store_true", help="rawe-imb verifies contents")
        add("--no-baseline", dest="baseline", action="store_false", help="do not run the baseline")

    def transports(self, options):
        names = super().transports(options)
        return ["tcp", transports.UNICAST, "rawe"] if _collectives(options) else names

    def finish(self, parser, options):
        options.groups = _groups(parser, options)
        # A window of long messages alone takes half a second on a slow line.
        options.time = options.time or (1.0 if options.rate else 0.01 if options.quick else 0.02)
        options.iterations = options.iterations or (200 if options.quick else 1000)
        options.baseline_time = 0.01 if options.quick else 0.02
        options.baseline = options.baseline and not _collectives(options)
        options.parts = benchmarks.parts_of(options.suite, options.benchmarks or (), options.msglog)
        if options.receive_buffers:
            options.parts = benchmarks.with_cold(options.parts)
        self.receive_buffers = options.receive_buffers
        options.cases = [Case("all", "", *group) for group in options.groups]
        options.left_out = []

    def prepare(self, options, say):
        names = PROGRAMS if options.baseline else ("own",)
        self.programs = {name: prepare.program(options.build, PROGRAMS[name]) for name in names}
        real = real_imb()
        self.programs["imb"] = real or self.programs["own"]
        say(f"benchmark: {self.programs['imb']}")
        if options.check and real is not None:
            return ["--check does nothing with the real IMB-MPI1"]
        return []

    def facts(self):
        found = [("Benchmark", Path(self.programs["imb"]).name)]
        if self.receive_buffers:
            text = f"1 (Uniband, Biband); {self.receive_buffers} (UnibandCold, BibandCold)"
            found.append(("Receive buffers", text))
        return found

    def plan(self, options, interface):
        """Group by group: transports alternate within each part. What takes two ranks whatever
        there are, the baseline too, is measured in the first group only."""
        runs = []
        for group in options.groups:
            is_first = group == options.groups[0]
            parts = benchmarks.parts_for(options.parts, is_first)
            for number in range(1, options.rounds + 1):
                if options.baseline and is_first:
                    runs += self._baseline_runs(options, number, interface, group[1])
                names = transports.order(options.transports, number)
                runs += [
                    self._run(options, part, words, number, transport, interface, group)
                    for part in parts
                    for words in self.imb_arguments(options, part, group[0])
                    for transport in names
                ]
        return runs

    def _run(self, options, part, words, number, transport, interface, group):
        words_of = transports.arguments(transport, interface, against=options.against)
        start = ["-np", str(group[0]), *words_of]
        case = Case(part.name, "", *group, part.name)
        return Run(number, transport, case, ((*start, *options.starter, *words),))

    def imb_arguments(self, options, part, ranks):
        """Program and arguments of a part: one list for each program that it needs."""
        common = ["-npmin", str(ranks), "-msglog", f"{part.low}:{part.high}"]
        common += ["-iter", str(options.iterations)]
        own, imb = self.programs["own"], self.programs["imb"]
        groups = [(own, list(part.benchmarks))]
        if imb != own:
            groups = [
                (imb, [name for name in part.benchmarks if name not in benchmarks.OWN_ONLY]),
                (own, [name for name in part.benchmarks if name in benchmarks.OWN_ONLY]),
            ]
        calls = []
        for program, names in groups:
            limit = options.time if program == own else max(options.time, IMB_SECONDS)
            cold = options.receive_buffers and set(names) & set(benchmarks.COLD.values())
            extra = ["-receive_buffers", str(options.receive_buffers)] if cold else []
            extra += ["-check"] if options.check and program == own else []
            if names:
                calls.append([str(program), *common, "-time", str(limit), *extra, *names])
        return calls

    def _baseline_runs(self, options, number, interface, hosts):
        for name in ("pingpong", "stream"):
            words = ["-np", "2", *transports.arguments("tcp", interface), *options.starter]
            words.append(str(self.programs[name]))
            words += ["--seconds", f"{options.baseline_time:g}"]
            words += ["--interface", interface] if interface else []
            case = Case(name, "", 2, hosts, name)
            yield Run(number, transports.BASELINE, case, (tuple(words),))

    def read(self, run, outcome, earlier):
        is_baseline = run.transport == transports.BASELINE
        parse = output.parse_baseline if is_baseline else output.parse_imb
        try:
            samples = parse(outcome.output)
        except output.WrongContents as error:
            raise Rejected(str(error)) from error
        if not samples:
            raise BenchError("the output holds no values")
        return samples

    def values(self, done):
        found = {}
        for one in done:
            for sample in one.result or ():
                metric, hosts = benchmarks.METRICS[sample.metric], one.run.case.hosts
                key = Key(sample.benchmark, sample.size, sample.processes, hosts, metric)
                rounds = found.setdefault(key, {}).setdefault(one.run.transport, {})
                rounds[one.run.round] = sample.value
        order = {name: index for index, name in enumerate(benchmarks.BENCHMARKS)}

        def place(key):
            known = order.get(key.benchmark, len(order))
            return known, key.benchmark, key.ranks, key.size, key.metric.key

        keys = [key for key in found if set(found[key]) != {transports.BASELINE}]
        return {key: found[key] for key in sorted(keys, key=place)}

    def medians(self, done, transports_of):
        ways = {}
        for one in done:
            for sample in one.result or () if one.run.transport == transports.BASELINE else ():
                ways.setdefault((sample.benchmark, sample.size, sample.metric), []).append(
                    sample.way
                )
        medians = super().medians(done, transports_of)
        for key, found in medians.items():
            if transports.BASELINE in found:
                way = statistics.mode(ways[key.benchmark, key.size, key.metric.key])
                found[transports.BASELINE].way = way
        return medians

    def tables(self, medians, about):
        self.shown = medians
        return benchmarks.tables_of(medians, about)

    def texts(self, found, about):
        wiring = _wiring(about)
        lines = [f"NICs: {NICS[wiring]}\n"] if wiring else []
        return lines + super().texts(found, about)

    def title(self, about):
        wiring = _wiring(about)
        nics = f", --nic {wiring}" if wiring else ""
        return f"{' against '.join(about['transports'])}: MPI benchmarks{nics}, {about['date']}"

    def lead(self, about):
        titles = ", ".join(f"{name} = {transports.TITLES[name]}" for name in about["transports"])
        return (
            f"Transports: {titles}. They ran alternately; each value is the median over the "
            f"rounds, each ratio a ratio of such medians. {summary.DOUBT} The baseline is what a "
            "bare program reaches with the same raw frames on the same wire without any protocol, "
            "in the way that is the fastest at the size: plain frames or TCP-shaped batches. "
            "For Uniband it sends one message in a frame; a transport that coalesces "
            "small messages can exceed it."
        )

    def body(self, page, found, about):
        chosen = benchmarks.panels(self.shown)
        for is_collective, file, words in (
            (False, "plot.svg", "Time and bandwidth over message size"),
            (True, "collectives.svg", "Collectives: time over message size"),
        ):
            several = [
                benchmarks.panel_chart(self.shown, panel, about["transports"])
                for panel in chosen
                if (panel[0] in benchmarks.COLLECTIVES) == is_collective
            ]
            page.charts(several, file, words)


def _wiring(about):
    """Return the value of --nic, or None."""
    return about.get("shape", {}).get("nic")
