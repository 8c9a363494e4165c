# SPDX-License-Identifier: BSD-3-Clause
"""The main program of test/run: builds, runs the parts, adds up their results."""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from dataclasses import dataclass, field
from pathlib import Path

TEST = Path(__file__).resolve().parent
ROOT = TEST.parent
BUILD = ROOT / "build"

sys.path[:0] = [str(TEST / "lab"), str(TEST / "lint"), str(ROOT / "packaging")]

from rawelab import download, launch, record  # noqa: E402  (the path has to be set first)
from rawelab.command import LabError  # noqa: E402
from rawelint import cli as lint  # noqa: E402
from rawepack import chroot  # noqa: E402

DEFAULT = ("lint", "unit", "sim", "fuzz", "lab")
ALL = (*DEFAULT, "sanitize")
LINT_SHOWN = 50  # findings of one check
FUZZ_SECONDS = 15
FUZZ_SECONDS_BRIEF = 5
FUZZ_SECONDS_LONG = 1800
# The simulators with fewer seeds, and without planted faults, which need no sanitizer.
BRIEF = {"RAWE_SIM_SEEDS": "2000", "RAWE_SIM_PLANTED": "0"}
# Only on request.
OPTIONAL = ("threads", "mutants", "bench", "distros", "vm", "deb", "rpm")
OPTIONAL += ("containers", "launchers")
FOR_OTHER_OMPI = ("unit", "sim", "lab")  # parts that depend on Open MPI or the compiler
RELEASES = {"5.0": "trixie", "6.0": "sid"}  # of Debian, by the Open MPI in it
BENCH = ROOT / "bench"
# Quick forms of the benchmarks, which only show that these work; their figures mean nothing.
QUICK = (
    ("imb-runs/compare", "--quick", "--check"),
    ("imb-runs/compare", "--quick", "--check", "--benchmarks", "Bcast,Barrier", "--hosts", "16"),
    ("nas-runs/compare", "--quick"),
    ("app-runs/compare", "--quick"),
    ("instructions",),
    ("memory",),
    ("many-ranks", "--quick"),
    ("others", "--quick"),
    ("batch-time", "--quick"),
    ("programs/compare", "--quick"),
    ("rates/compare", "--quick"),
    ("several-nics/compare", "--quick", "--seconds", "1"),
)
WITHOUT_UNIT_TESTS = 'S["RAWE_BUILD_UNIT_TESTS_TRUE"]="#"'  # in config.status
NO_CACHE = ("-p", "no:cacheprovider")
TESTS_FAILED = 1  # pytest's exit status
REPEATED_AT_MOST = 5  # failures of a part; more are no coincidence
# The parts that run under each sanitizer; simulators and fuzz targets have only one thread.
SANITIZERS = {"address,undefined": ("unit", "sim", "fuzz"), "thread": ("unit",)}
CHECK_SECONDS = 1800  # limit of a `make check`: five times what the slowest takes
# For the component alone, loaded into a program that is not instrumented.
INSTRUMENTED = "-g -O1 -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan"
# Results in .trs files of automake's test drivers, and what they count as.
RESULTS = {
    "PASS": "passed",
    "XFAIL": "passed",
    "SKIP": "skipped",
    "FAIL": "failed",
    "XPASS": "failed",
    "ERROR": "failed",
}


@dataclass
class Part:
    """The results of a part, and problems other than failed tests."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    troubles: list = field(default_factory=list)

    def trouble(self, text):
        """Count a problem that is not a failed test as one failure."""
        self.failed += 1
        self.troubles.append(text)

    def call(self, argv, text=None, **options):
        """Run a command that is one test; `text` describes its failure."""
        if call(argv, **options) == 0:
            self.passed += 1
        elif text is None:
            self.failed += 1
        else:
            self.trouble(f"{text}, see above")


def say(text):
    """Print a line about the next step."""
    print(f"==> {text}", flush=True)


def call(argv, cwd=None, env=None, seconds=None):
    """Run a command with visible output; return its exit status, None after a timeout."""
    say(shlex.join(map(str, argv)) + (f"    (in {cwd})" if cwd else ""))
    sys.stdout.flush()
    with subprocess.Popen(
        list(map(str, argv)), cwd=cwd, env=env, process_group=0 if seconds else None
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            return None
        except KeyboardInterrupt:
            # Wait until it has removed its labs; subprocess.call() would kill it. At a terminal,
            # its process group has received the signal already, and another one would disturb it.
            if seconds or not sys.stdin.isatty():
                process.send_signal(signal.SIGINT)
            process.wait()
            raise


def configure(directory, *options):
    """Configure a build directory, and again when cmocka was installed. Returns true on success."""
    status = directory / "config.status"
    if not (directory / "Makefile").exists():
        directory.mkdir(parents=True, exist_ok=True)
        return call([ROOT / "configure", "--quiet", *options], cwd=directory) == 0
    if WITHOUT_UNIT_TESTS not in status.read_text(encoding="utf-8"):
        return True
    # bench/imb-runs/compare configured it before cmocka was installed.
    again = (["--quiet", "--recheck"], ["--quiet"])
    return all(call([status, *words], cwd=directory) == 0 for words in again)


def build(directory, *options):
    """Configure and make a build directory, with the programs that tests run; return None, or a
    description of the failure."""
    if not (ROOT / "configure").exists() and call([ROOT / "autogen.pl"]) != 0:
        return "autogen.pl failed, see above"
    if not configure(directory, *options):
        return f"configure failed, see {directory}/config.log"
    if call(["make", "-s", f"-j{os.cpu_count()}", "tests"], cwd=directory) != 0:
        return f"make failed in {directory}, see above"
    return None


def check(part, directory, launcher=(), env=None, target="check"):
    """Run `make check` in a directory, and count the results in automake's .trs files."""
    for old in directory.rglob("*.trs"):
        old.unlink()
    argv = [*launcher, "make", "-s", f"-j{os.cpu_count()}", target]
    status = call(argv, cwd=directory, env=env, seconds=CHECK_SECONDS)
    failed_before = part.failed
    count = 0
    for file in directory.rglob("*.trs"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, rest = line.partition(" ")
            words = rest.split()
            if key == ":test-result:" and words and words[0] in RESULTS:
                kind = RESULTS[words[0]]
                setattr(part, kind, getattr(part, kind) + 1)
                count += 1
    if status is None:
        part.trouble(f"a test in {directory} did not end within {CHECK_SECONDS} seconds, see above")
    elif status != 0 and part.failed == failed_before:
        part.trouble(f"make check failed in {directory} before or beside its tests, see above")
    if count == 0:
        part.trouble(f"no test ran in {directory}")


def run_lint(part, options):
    """Checks of the source tree, each counted as a test, and tests of these checks."""
    for name in lint.CHECKS:
        part.call([TEST / "lint" / "lint", "--most", str(LINT_SHOWN), name], env=options.env)
    count_pytest(part, BUILD / "lint", ["-q", *NO_CACHE, TEST / "lint" / "tests"], options)


def install_and_uninstall(part):
    """Install into an empty directory, and uninstall; no file may be left."""
    with tempfile.TemporaryDirectory(prefix="rawe-install-") as name:
        for target in ("install", "uninstall"):
            if call(["make", "-s", target, f"DESTDIR={name}"], cwd=BUILD) != 0:
                part.trouble(f"make {target} DESTDIR=... failed, see above")
                return
            files = [str(path) for path in Path(name).rglob("*") if not path.is_dir()]
            if target == "install" and not any(path.endswith("mca_btl_rawe.so") for path in files):
                part.trouble("make install DESTDIR=... installed no component")
                return
    if files:
        part.trouble(f"make uninstall has left {', '.join(files)}")
    else:
        part.passed += 1


def run_unit(part, options):
    """Unit tests, creation of the tarball, installation and uninstallation."""
    check(part, options.build / "test" / "unit", env=options.env)
    if options.inside:
        return
    part.call(["make", "-s", "dist"], "make dist failed", cwd=BUILD)
    install_and_uninstall(part)


def run_sim(part, options):
    """The simulator."""
    env = {**options.env, **(BRIEF if options.brief else {})}
    check(part, options.build / "test" / "sim", env=env)


def run_fuzz(part, options):
    """The fuzz targets: their corpora, then libFuzzer on each for a short time."""
    check(part, BUILD / "test" / "fuzz", env=options.env)
    seconds = FUZZ_SECONDS_BRIEF if options.brief else FUZZ_SECONDS
    seconds = FUZZ_SECONDS_LONG if options.long else seconds
    argv = [TEST / "fuzz" / "run", "--seconds", str(seconds), "--jobs", str(os.cpu_count())]
    part.call(argv, env=options.env)


def run_sanitize(part, options):
    """Unit tests, simulator and fuzz corpora again, instrumented."""
    for sanitizer, names in SANITIZERS.items():
        directory = BUILD / "sanitize" / sanitizer.replace(",", "-")
        problem = build(directory, f"--enable-sanitizers={sanitizer}")
        if problem:
            part.trouble(problem)
            continue
        # The thread sanitizer cannot place its shadow memory under full address randomisation.
        launcher = ["setarch", "--addr-no-randomize"] if sanitizer == "thread" else []
        # The sanitizer mistakes the start of a program by several threads for a fork, after which
        # it would allow no new threads.
        env = {**options.env, **BRIEF, "TSAN_OPTIONS": "die_after_fork=0"}
        for name in names:
            check(part, directory / "test" / name, launcher, env=env)


def is_root(part):
    """Return true if this is root; otherwise add a problem to the part."""
    if os.geteuid() != 0:
        part.trouble("this needs root: run test/run as root")
    return os.geteuid() == 0


def has_packages(part, *groups):
    """Install the packages of a part. Returns true on success, or adds a problem to the part."""
    missing = call([TEST / "install-deps", *groups]) != 0
    if missing:
        part.trouble(f"packages of {part.name} are missing, see above")
    return not missing


def count_pytest(part, folder, words, options):
    """Run pytest, and add the results of its report in a folder; return its exit status."""
    report = folder / "tests-report.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    argv = ["/usr/bin/python3", "-m", "pytest", "--tb=short", f"--junitxml={report}", *words]
    status = call(argv, env=options.env)
    failed_before = part.failed
    if report.exists():
        for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
            bad = int(suite.get("failures")) + int(suite.get("errors"))
            skipped = int(suite.get("skipped"))
            part.failed += bad
            part.skipped += skipped
            part.passed += int(suite.get("tests")) - bad - skipped
    if status != 0 and part.failed == failed_before:
        part.trouble(f"pytest ended with status {status}, see above")
    return status


def run_bench(part, options):
    """Tests of the benchmarks' drivers, and a quick form of each benchmark."""
    if not has_packages(part, "bench"):
        return
    folders = sorted(BENCH.glob("*/tests"))
    count_pytest(part, BUILD / "bench", ["-q", *NO_CACHE, *folders], options)
    if not is_root(part):
        return
    for program, *words in QUICK:
        if not (BENCH / program).exists():
            continue
        with tempfile.TemporaryDirectory(prefix="rawe-bench-") as output:
            argv = [BENCH / program, *words, "--build", BUILD, "--output", Path(output) / "run"]
            part.call(argv, f"bench/{program} failed")


def run_pytest(part, options, name, more=()):
    """Run the tests of one folder; with --repeat, run failed ones again."""
    folder = options.build / "test" / f"{name}-report"
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    words = ["-v", "-o", f"cache_dir={cache}", f"--build={options.build}", *more]
    words += ["-k", options.k] if options.k else []
    words += [TEST / name / "tests"]
    status = count_pytest(part, folder, words, options)
    if not options.repeat or status != TESTS_FAILED or part.failed > REPEATED_AT_MOST:
        return
    say(f"{name}: what failed is run once more")
    failed, passed = part.failed, part.passed
    part.failed = 0
    count_pytest(part, folder / "repeated", [*words, "--last-failed"], options)
    part.troubles.append(f"{part.passed - passed} of {failed} passed when repeated, see above")


def run_lab(part, options):
    """The tests of sockets between two namespaces, then pytest over the virtual hosts."""
    if not is_root(part):
        return
    if not options.k:
        check(part, options.build / "test", env=options.env, target="check-am")
    before = set(record.names())
    more = ["--long"] * options.long + ["--brief"] * options.brief
    run_pytest(part, options, "lab", more)
    mine = [
        name for name in set(record.names()) - before if record.state(record.load(name)) == "stale"
    ]
    if mine:
        part.trouble(f"stale labs: {', '.join(mine)}; remove them with test/lab/lab down --stale")


def run_threads(part, options):
    """Jobs over virtual hosts, with the component under the thread sanitizer."""
    if not is_root(part):
        return
    directory = BUILD / "sanitize" / "component"
    directory.mkdir(parents=True, exist_ok=True)
    configured = (directory / "Makefile").exists()
    if not configured and call([ROOT / "configure", "--quiet"], cwd=directory) != 0:
        part.trouble(f"configure failed, see {directory}/config.log")
        return
    argv = ["make", "-s", f"-j{os.cpu_count()}", f"CFLAGS={INSTRUMENTED}"]
    if call(argv, cwd=directory / launch.COMPONENT.parent) != 0:
        part.trouble(f"make failed in {directory}, see above")
        return
    run_pytest(part, options, "lab", [f"--instrumented={directory}"])


def run_mutants(part, options):
    """Random small changes to core and coll/rawe, which tests must notice."""
    argv = [TEST / "mutants.py", "--mutants", str(options.mutants), "--seed", str(options.seed)]
    part.call(argv, "too few mutants were found", env=options.env)


def run_distros(part, options):
    """The components and tools with older C libraries, and from the tarball on minimal systems."""
    for what in ("2.17", "2.28", "tarball"):
        part.call([TEST / "distros", what], f"{what} failed", env=options.env)
    if is_root(part) and has_packages(part, "deb"):
        for what in (*chroot.SYSTEMS, "source-4.1", "source-5.0"):
            part.call([TEST / "distros", what], f"{what} failed", env=options.env)


def run_vm(part, options):
    """pytest over virtual machines."""
    if has_packages(part, "vm"):
        run_pytest(part, options, "vm")


def run_deb(part, options):
    """The packages for Debian 12 and 13: built, installed and purged on clean systems."""
    if is_root(part) and has_packages(part, "deb"):
        run_pytest(part, options, "deb")


def run_rpm(part, options):
    """The RPM packages: built from the tarball, installed and removed on clean systems."""
    if is_root(part) and has_packages(part, "deb"):
        run_pytest(part, options, "deb", ["--rpm"])


def run_containers(part, options):
    """Jobs over two Podman containers, made by the recipes of doc/cluster/containers.md."""
    if is_root(part) and has_packages(part, "deb", "containers"):
        run_pytest(part, options, "deb", ["--containers"])


def run_launchers(part, options):
    """Jobs that Slurm starts, and ranks in rootless containers: the recipes of doc/cluster."""
    if is_root(part) and has_packages(part, "launchers"):
        run_pytest(part, options, "lab", ["--launchers"])


def generate():
    """Run autogen.pl if its output is missing or outdated; return its exit status."""
    made = [ROOT / "configure", *ROOT.glob("**/Makefile.in")]
    component = ROOT / "opal/mca/btl/rawe"
    sources = [ROOT / "configure.ac", component / "configure.m4", *ROOT.glob("config/*.m4")]
    sources += [file.with_suffix(".am") for file in made[1:]]
    oldest = min((file.stat().st_mtime for file in made if file.exists()), default=0)
    newest = max(file.stat().st_mtime for file in sources if file.exists())
    return call([ROOT / "autogen.pl"]) if not made[0].exists() or newest > oldest else 0


def run_with_other_ompi(options):
    """Run the parts in a chroot with another Debian release's Open MPI; return the exit status."""
    if os.geteuid() != 0:
        sys.exit("test/run: --ompi makes a chroot, which only root may do: run it as root")
    # Outside of the chroot, which has other versions of the autotools.
    if call([TEST / "install-deps", "build", "ompi"]) != 0 or generate() != 0:
        return 1
    tree = download.cache("ompi") / options.ompi
    say(f"Debian {RELEASES[options.ompi]} in {tree}")
    chroot.base(RELEASES[options.ompi], tree, group="ompi")
    # The index of sid is valid for a week. A mirror that lags has an older one, also signed.
    config = tree / "etc/apt/apt.conf.d/50rawe-old-index"
    config.write_text('Acquire::Check-Valid-Until "false";\n')
    names = Path("/etc/resolv.conf")
    if names.exists():
        (tree / "etc/resolv.conf").write_bytes(names.read_bytes())
    enter = [TEST / "enter-chroot", tree]
    if call([*enter, TEST / "install-deps", "build", "check"]) != 0:
        return 1
    argv = ["/usr/bin/python3", TEST / "suite.py", "--inside", options.ompi, *options.parts]
    argv += ["--long"] if options.long else []
    argv += ["-k", options.k] if options.k else []
    argv += ["--repeat"] if options.repeat else []
    return call([*enter, *argv], env=options.env)


def parse():
    """Parse the command line; add the environment of the parts as `env`."""
    parser = argparse.ArgumentParser(
        prog="test/run",
        description="Installs missing Debian packages, builds into ./build, runs the tests.",
        epilog="lint: the source tree, without building it; unit: the core's objects; sim: whole "
        "networks in one thread, seeded; fuzz: hostile frames, libFuzzer; lab: real mpirun over "
        "virtual hosts. Without arguments these five in brief, in 20 minutes on two cores at most: "
        "fewer seeds, no planted faults, not lab's thorough tests (bad networks, the matrix of "
        "sizes and losses, soaks), two cases of each other test; those named run completely. "
        "sanitize: unit, sim and the fuzz corpora again under the address and undefined behaviour "
        "sanitizers, unit under the thread sanitizer, another six minutes; all: the six, complete. "
        "Only on request: threads, jobs with the component under the thread sanitizer, five "
        "minutes; mutants, whether tests notice small changes of core, twenty minutes; bench, the "
        "benchmarks' own tests, and a quick form of each benchmark; distros, builds with older C "
        "libraries, and from the tarball on minimal Debian 11 to 13, half an hour; vm, mpirun over "
        "virtual machines with real drivers, half an hour; deb, the packages for Debian 12 and 13, "
        "on clean systems, ten minutes; rpm, the RPM packages, five minutes; containers, jobs over "
        "Podman containers; launchers, jobs that Slurm starts, and ranks in rootless Podman "
        "containers, two minutes. --ompi builds into build/ompi-VERSION.",
    )
    parser.add_argument("parts", nargs="*", metavar="|".join((*ALL, "all", *OPTIONAL)))
    parser.add_argument("--long", action="store_true", help="also long tests: hours")
    text = "lab, vm, deb, rpm, containers and launchers tests that match, as pytest -k"
    parser.add_argument("-k", metavar="EXPR", help=text)
    text = "how many mutants are drawn (default: %(default)s)"
    parser.add_argument("--mutants", type=int, default=300, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=1, help="of the mutants: another draws others")
    text = "unit, sim and lab with the Open MPI and compiler of another Debian release, in a chroot"
    parser.add_argument("--ompi", choices=RELEASES, help=f"{text} of it")
    text = (
        "rerun a few failed tests over virtual hosts or machines, and show both outcomes: a busy "
    )
    text += "machine may delay a job beyond its test's limit"
    parser.add_argument("--repeat", action="store_true", help=text)
    parser.add_argument("--inside", choices=RELEASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = (*ALL, "all", *OPTIONAL)
    unknown = [part for part in options.parts if part not in known]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; choose from {', '.join(known)}")
    options.brief = not (options.parts or options.k or options.ompi or options.long)
    default = FOR_OTHER_OMPI if options.ompi else DEFAULT
    if options.ompi and not set(options.parts) <= set(default):
        parser.error(f"--ompi goes with {', '.join(default)}")
    if not options.parts:
        options.parts = ["lab"] if options.k else list(default)
    elif "all" in options.parts:
        options.parts = [*ALL, *(part for part in options.parts if part in OPTIONAL)]
    options.build = BUILD / f"ompi-{options.inside}" if options.inside else BUILD
    options.env = {**os.environ, "RAWE_TEST_LONG": "1" if options.long else "0"}
    return options


def summary(parts):
    """Print the results; return the exit status."""
    print(flush=True)
    for part in parts:
        print(
            f"{part.name:<9} {part.passed:5} passed {part.failed:4} failed "
            f"{part.skipped:4} skipped   {part.seconds:6.0f} s"
        )
        for text in part.troubles:
            print(f"          {text}")
    passed, failed, skipped = (
        sum(getattr(part, kind) for part in parts) for kind in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


def main():
    """Build, run the selected parts in order, print their results."""
    options = parse()
    if options.ompi:
        return run_with_other_ompi(options)
    done = []
    if options.parts != ["lint"]:
        say(f"building in {options.build}, then: {', '.join(options.parts)}")
        start = time.monotonic()
        building = Part("build")
        done.append(building)
        problem = build(options.build, *(["--disable-maintainer-mode"] if options.inside else []))
        building.seconds = time.monotonic() - start
        if problem:
            building.trouble(problem)
            return summary(done)
    for name in options.parts:
        part = Part(name)
        done.append(part)
        run = globals()[f"run_{name}"]
        say(f"{name}: {run.__doc__}")
        start = time.monotonic()
        run(part, options)
        part.seconds = time.monotonic() - start
    return summary(done)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also a regular end
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("test/run: interrupted")
    except LabError as error:
        sys.exit(f"test/run: {error}")
