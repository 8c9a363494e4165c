# SPDX-License-Identifier: BSD-3-Clause
"""The patterns of the Intel MPI Benchmarks: suites, options, runs, tables and plots."""

import argparse
import os
import re
import shutil
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from benchlib import BenchError, Rejected, prepare, summary, transports
from benchlib.cli import count, list_of, seconds
from benchlib.driver import HOSTS_MOST, Case, Driver, Run
from benchlib.page import Line, LineChart, size_text
from benchlib.places import NICS
from benchlib.summary import Key, Metric, Row, Table
from benchlib.transports import BASELINE, TITLES

from . import output

# The collectives of IMB-MPI1, except Reduce_local, which sends nothing.
POINT_TO_POINT = ("PingPong", "PingPing", "PingPongAnySource", "PingPingAnySource", "Sendrecv")
POINT_TO_POINT += ("Exchange", "Uniband", "Biband", "UnibandCold", "BibandCold", "Isend")
IMB_COLLECTIVES = ("Bcast", "Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block")
IMB_COLLECTIVES += ("Allgather", "Allgatherv", "Gather", "Gatherv", "Scatter", "Scatterv")
IMB_COLLECTIVES += ("Alltoall", "Alltoallv", "Barrier")
# The tests of predecessors: eight of MPBench, two of GAMMA, one of ESP.
MPBENCH = ("MpBandwidth", "MpRoundtrip", "MpLatency", "MpBidirectional")
MPBENCH_COLLECTIVES = ("MpBroadcast", "MpReduce", "MpAllreduce", "MpAlltoall")
SEEDS = (*MPBENCH, *MPBENCH_COLLECTIVES, "CacheHot", "CacheCold", "SendCall")
COLLECTIVES = IMB_COLLECTIVES + MPBENCH_COLLECTIVES
BENCHMARKS = POINT_TO_POINT + IMB_COLLECTIVES + SEEDS
# Each stream, and its variant that receives into several buffers instead of one.
COLD = {"Uniband": "UnibandCold", "Biband": "BibandCold"}
OWN_ONLY = (*COLD.values(), "Isend", *SEEDS)  # IMB-MPI1 does not have these benchmarks
# These benchmarks use only two of the ranks.
PAIRS = (
    *(name for name in POINT_TO_POINT if name.startswith("Ping")),
    "Isend",
    *(name for name in SEEDS if name not in MPBENCH_COLLECTIVES),
)
METRICS = {
    one.key: one
    for one in (
        Metric("time_us", "time", "µs", False),
        Metric("mbytes_per_s", "bandwidth", "MB/s", True),
        Metric("messages_per_s", "message rate", "messages/s", True),
    )
}


@dataclass(frozen=True)
class Part:
    """Benchmarks that run in one mpirun, at the sizes 0 and 2^low to 2^high."""

    name: str
    benchmarks: tuple
    low: int
    high: int


SUITES = {
    "default": (
        Part("latency", ("PingPong",), 0, 22),
        Part("rate", ("Uniband", "Isend"), 0, 21),
        Part("collectives", ("Bcast", "Allreduce", "Allgather", "Alltoall", "Barrier"), 2, 16),
    ),
    "latency": (
        Part("latency", ("PingPong", "PingPing", "Sendrecv", "Exchange"), 0, 22),
        Part("calls", ("Isend",), 0, 16),
    ),
    "rate": (Part("rate", ("Uniband", "Biband"), 0, 12), Part("calls", ("Isend",), 0, 12)),
    "bandwidth": (
        Part("bandwidth", ("Uniband", "Biband"), 10, 22),
        Part("latency", ("PingPong",), 10, 22),
    ),
    "collectives": (Part("collectives", IMB_COLLECTIVES, 2, 20),),
    "seeds": (
        Part("mpbench", MPBENCH, 0, 22),
        Part("mpbench-collectives", MPBENCH_COLLECTIVES, 2, 20),
        Part("cache", ("CacheHot", "CacheCold"), 0, 20),
        Part("calls", ("SendCall", "Isend"), 0, 16),
    ),
    # A change of the data path must not slow these down: 1 B, 4 KiB, 64 KiB; 64 B, 256 KiB.
    "change": (
        Part("1-byte", ("PingPong",), 0, 0),
        Part("4-kib", ("PingPong",), 12, 12),
        Part("64-kib", ("PingPong",), 16, 16),
        Part("rate", ("Uniband",), 6, 6),
        Part("stream", ("Uniband",), 18, 18),
    ),
    # The mean cost of loss, including rare long waits. 1 B and 256 KiB.
    "loss": (Part("latency", ("PingPong",), 0, 0), Part("rate", ("Uniband",), 18, 18)),
    "all": (
        Part("latency", ("PingPong", "PingPing", "Sendrecv", "Exchange"), 0, 22),
        Part("any-source", ("PingPongAnySource", "PingPingAnySource"), 0, 22),
        Part("rate", ("Uniband", "Biband", "Isend"), 0, 22),
        Part("collectives", IMB_COLLECTIVES, 2, 20),
    ),
}


def parts_of(suite, benchmarks=(), msglog=None):
    """Return the Parts of a suite, or of a list of benchmarks; msglog is (low, high) or None."""
    if benchmarks:
        parts = [
            Part(
                "chosen-collectives" if collective else "chosen",
                tuple(name for name in benchmarks if (name in COLLECTIVES) == collective),
                2 if collective else 0,
                16 if collective else 22,
            )
            for collective in (False, True)
        ]
    else:
        parts = SUITES[suite]
    low, high = msglog or (None, None)
    return [
        part if msglog is None else replace(part, low=low, high=high)
        for part in parts
        if part.benchmarks
    ]


def with_cold(parts):
    """Return the parts, with each stream followed by its cold variant."""
    found = []
    for part in parts:
        names = [
            one for name in part.benchmarks for one in (name, COLD.get(name)) if one is not None
        ]
        found.append(replace(part, benchmarks=tuple(dict.fromkeys(names))))
    return found


def parts_for(parts, with_pairs):
    """Return the parts; unless `with_pairs`, omit the benchmarks that use only two ranks."""
    kept = [
        replace(part, benchmarks=tuple(n for n in part.benchmarks if with_pairs or n not in PAIRS))
        for part in parts
    ]
    return [part for part in kept if part.benchmarks]


FLOAT_BYTES = 4
RATE_BELOW = 1024  # bytes; streams below this are shown as messages per second, others as bandwidth
NAMES = {
    "PingPong": "PingPong: half the round trip",
    "PingPing": "PingPing: both send at once",
    "PingPongAnySource": "PingPong, received from any source: half the round trip",
    "PingPingAnySource": "PingPing, received from any source",
    "Isend": "Isend: time in the MPI_Isend call (median)",
    "SendCall": "ESP: time in the MPI_Send call (median)",
    "MpBandwidth": "MPBench: bandwidth, successive sends",
    "MpBidirectional": "MPBench: bandwidth both ways",
    "MpRoundtrip": "MPBench: round trip",
    "MpLatency": "MPBench: application latency, time in each of many successive MPI_Send calls",
    "MpBroadcast": "MPBench: broadcast",
    "MpReduce": "MPBench: reduce",
    "MpAllreduce": "MPBench: allreduce",
    "MpAlltoall": "MPBench: all-to-all",
    "CacheHot": "GAMMA: ping-pong in warm memory, half the round trip",
    "CacheCold": "GAMMA: ping-pong in memory that is in no cache, half the round trip",
}
WINDOWED = (*COLD, *COLD.values())
BANDWIDTHS = ("MpBandwidth", "MpBidirectional")


def title_of(benchmark, ranks, metric):
    """Return the title of a table, without the unit."""
    name = NAMES.get(benchmark, benchmark)
    if benchmark in WINDOWED:
        way = "one way" if benchmark.startswith("Uni") else "both ways"
        way += ", several receive buffers" if benchmark in COLD.values() else ""
        name = f"{benchmark}: {metric.title} {way}, 64 messages in flight"
    return f"{name}, {ranks} ranks"


def is_shown(key):
    """Returns true if a benchmark's metric is shown at this size."""
    benchmark, size, metric = key.benchmark, key.size, key.metric.key
    if benchmark in WINDOWED:
        return metric == ("messages_per_s" if size < RATE_BELOW else "mbytes_per_s")
    if benchmark in BANDWIDTHS:
        return metric == "mbytes_per_s" and size > 0
    if metric != "time_us":
        return False
    if benchmark == "Reduce_scatter_block" and size < FLOAT_BYTES * key.ranks:
        return False  # less than an element per rank: nothing is sent
    # A collective of zero bytes does not communicate.
    return size > 0 or benchmark not in COLLECTIVES or benchmark == "Barrier"


def tables_of(medians, about):
    """Return a Table for each benchmark, number of ranks and metric."""
    rows = {}
    for key, found in medians.items():
        if is_shown(key):
            label = "" if key.benchmark == "Barrier" else size_text(key.size)
            kind = key.benchmark, key.ranks, METRICS[key.metric.key]
            rows.setdefault(kind, []).append(Row([label], key, found, about["base"]))
    # IMB always measures 0 bytes, which do not make a table on their own.
    return [
        Table(title_of(*kind), ["size"], about["transports"], about["base"], found, True)
        for kind, found in rows.items()
        if kind[0] == "Barrier" or any(row.size > 0 for row in found)
    ]


def _points(medians, panel, name):
    """Return a transport's (size, median) pairs that a logarithmic axis can show."""
    return [
        (key.size, found[name].median)
        for key, found in medians.items()
        if (key.benchmark, key.ranks, key.metric.key) == panel
        and name in found
        and key.size > 0
        and found[name].median > 0
    ]


def panels(medians):
    """Return (benchmark, ranks, metric) of each panel of the plots, with the most ranks of each
    benchmark. Benchmarks with a single size have no panel."""
    sizes = {}
    for key in medians:
        wanted = "mbytes_per_s" if key.benchmark in WINDOWED + BANDWIDTHS else "time_us"
        if key.metric.key == wanted and key.size > 0:
            sizes.setdefault((key.benchmark, key.ranks, wanted), set()).add(key.size)
    found = [panel for panel, several in sizes.items() if len(several) > 1]
    names = {name for name, _, _ in found}
    if "PingPong" in names and not names & set(WINDOWED):
        found.insert(1, ("PingPong", 2, "mbytes_per_s"))
    largest = {name: ranks for name, ranks, _ in sorted(found)}
    return [panel for panel in found if panel[1] == largest[panel[0]]]


def panel_chart(medians, panel, transports):
    """Return a panel with a line per transport, the baseline dashed."""
    benchmark, ranks, metric = panel
    names = [*transports, *([BASELINE] if ranks == 2 else [])]
    lines = [
        Line(name, TITLES[name], _points(medians, panel, name), dashed=name == BASELINE)
        for name in names
    ]
    metric = METRICS[metric]
    return LineChart(f"{benchmark}, {ranks} ranks", f"{metric.title} in {metric.unit}", lines)


ALL_RANKS = (2, 4, 8)  # of suite all
COLLECTIVES_HOSTS = 4  # the fewest with which coll/rawe uses multicast
# IMB-MPI1 repeats a size up to 40 MB regardless of -time, but drops the remaining sizes once the
# measured sizes have each taken longer than -time. It therefore gets a generous -time.
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
    """Return the path of IMB-MPI1, from $IMB_MPI1 or PATH, or None. Raises BenchError if $IMB_MPI1
    is wrong."""
    named = os.environ.get("IMB_MPI1")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise BenchError(
                f"IMB_MPI1={named} is no program; let it name the IMB-MPI1 binary, or unset it"
            )
        return Path(named).resolve()
    found = shutil.which("IMB-MPI1")
    return Path(found) if found else None


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


def _collectives(options):
    """Return true for the suite of collectives, which also runs without multicast."""
    return options.suite == "collectives" and not options.benchmarks


def _groups(made, options):
    """Return (ranks, hosts) of each group; hosts is 0 if a hostfile decides."""
    if options.hostfile is not None:
        lines = options.hostfile.read_text(encoding="utf-8").splitlines()
        hosts = max(2, len([line for line in lines if line.split("#")[0].strip()]))
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
    """The driver behind bench/imb-runs/compare."""

    name = "imb-runs"
    description = "Measure MPI over raw Ethernet frames (rawe) against TCP and others."
    epilog = EPILOG
    transports_said = "tcp,rawe; with --suite collectives tcp,unicast,rawe"
    quick = "2 rounds and little time for each size"
    timeout = 180.0

    def __init__(self):
        self.receive_buffers = None
        self.shown = {}  # the medians shown in the tables
        self.programs = {}  # name -> path; "imb" is IMB-MPI1 if there is one

    def add_options(self, parser):
        add = parser.add_argument
        add("--suite", choices=tuple(SUITES), default="default")
        add(
            "--benchmarks",
            type=list_of(BENCHMARKS, "benchmark"),
            metavar="A,B",
            help="instead of a suite",
        )
        add("--msglog", type=_msglog, metavar="LOW:HIGH", help="sizes 0, 2^LOW..2^HIGH")
        add("--time", type=seconds, help="most seconds for a size (default 0.02; with --rate 1)")
        add("--iterations", type=count, help="most repetitions of a size (default 1000)")
        text = "receive streams also into N buffers in turn, not only into one"
        add("--receive-buffers", type=_buffers, metavar="N", help=text)
        add("--check", action="store_true", help="rawe-imb verifies contents")
        add("--no-baseline", dest="baseline", action="store_false", help="do not run the baseline")

    def transports(self, options):
        names = super().transports(options)
        return ["tcp", transports.UNICAST, "rawe"] if _collectives(options) else names

    def finish(self, parser, options):
        options.groups = _groups(parser, options)
        # On a slow line, a single window of long messages takes half a second.
        options.time = options.time or (1.0 if options.rate else 0.01 if options.quick else 0.02)
        options.iterations = options.iterations or (200 if options.quick else 1000)
        options.baseline_time = 0.01 if options.quick else 0.02
        options.baseline = options.baseline and not _collectives(options)
        options.parts = parts_of(options.suite, options.benchmarks or (), options.msglog)
        if options.receive_buffers:
            options.parts = with_cold(options.parts)
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
        """Return the runs group by group; transports alternate within each part. The baseline, and
        benchmarks that use two ranks, run only in the first group."""
        runs = []
        for group in options.groups:
            is_first = group == options.groups[0]
            parts = parts_for(options.parts, is_first)
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
        """Return the command line of each program that a part needs."""
        common = ["-npmin", str(ranks), "-msglog", f"{part.low}:{part.high}"]
        common += ["-iter", str(options.iterations)]
        own, imb = self.programs["own"], self.programs["imb"]
        groups = [(own, list(part.benchmarks))]
        if imb != own:
            groups = [
                (imb, [name for name in part.benchmarks if name not in OWN_ONLY]),
                (own, [name for name in part.benchmarks if name in OWN_ONLY]),
            ]
        calls = []
        for program, names in groups:
            limit = options.time if program == own else max(options.time, IMB_SECONDS)
            cold = options.receive_buffers and set(names) & set(COLD.values())
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
            yield Run(number, BASELINE, case, (tuple(words),))

    def read(self, run, outcome, earlier):
        is_baseline = run.transport == BASELINE
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
                metric, hosts = METRICS[sample.metric], one.run.case.hosts
                key = Key(sample.benchmark, sample.size, sample.processes, hosts, metric)
                rounds = found.setdefault(key, {}).setdefault(one.run.transport, {})
                rounds[one.run.round] = sample.value
        order = {name: index for index, name in enumerate(BENCHMARKS)}

        def place(key):
            known = order.get(key.benchmark, len(order))
            return known, key.benchmark, key.ranks, key.size, key.metric.key

        keys = [key for key in found if set(found[key]) != {BASELINE}]
        return {key: found[key] for key in sorted(keys, key=place)}

    def medians(self, done, transports_of):
        ways = {}
        for one in done:
            for sample in one.result or () if one.run.transport == BASELINE else ():
                ways.setdefault((sample.benchmark, sample.size, sample.metric), []).append(
                    sample.way
                )
        medians = super().medians(done, transports_of)
        for key, found in medians.items():
            if BASELINE in found:
                way = statistics.mode(ways[key.benchmark, key.size, key.metric.key])
                found[BASELINE].way = way
        return medians

    def tables(self, medians, about):
        self.shown = medians
        return tables_of(medians, about)

    def texts(self, found, about):
        wiring = _wiring(about)
        lines = [f"NICs: {NICS[wiring]}\n"] if wiring else []
        return lines + super().texts(found, about)

    def title(self, about):
        wiring = _wiring(about)
        nics = f", --nic {wiring}" if wiring else ""
        return f"{' against '.join(about['transports'])}: MPI benchmarks{nics}, {about['date']}"

    def lead(self, about):
        titles = ", ".join(f"{name} = {TITLES[name]}" for name in about["transports"])
        return (
            f"Transports: {titles}. They ran alternately; each value is the median over the "
            f"rounds, each ratio a ratio of such medians. {summary.DOUBT} The baseline is what a "
            "bare program reaches with the same raw frames on the same wire without any protocol, "
            "in whichever way is fastest at the size: plain frames or TCP-shaped batches. "
            "For Uniband it sends one message in a frame; a transport that coalesces "
            "small messages can exceed it."
        )

    def body(self, page, found, about):
        chosen = panels(self.shown)
        for is_collective, file, words in (
            (False, "plot.svg", "Time and bandwidth over message size"),
            (True, "collectives.svg", "Collectives: time over message size"),
        ):
            several = [
                panel_chart(self.shown, panel, about["transports"])
                for panel in chosen
                if (panel[0] in COLLECTIVES) == is_collective
            ]
            page.charts(several, file, words)


def _wiring(about):
    """Return the value of --nic, or None."""
    return about.get("shape", {}).get("nic")
