# SPDX-License-Identifier: BSD-3-Clause
"""Makes the runs of a comparison: transports alternately, round by round, case by case."""

import math
import shutil
from dataclasses import dataclass, field

from benchlib import rounds

from .app import AppError
from .plan import APPS
from .records import Run


@dataclass
class Ended:
    """How the commands of one run ended, taken together."""

    output: str = ""
    errors: str = ""
    seconds: float = 0.0
    failure: str = ""
    commands: list = field(default_factory=list)


def arguments_of(app, case, peer, words, directory, place):
    """mpirun's arguments for one command of a run."""
    shares_hosts = case.hosts == 0 or case.ranks > case.hosts
    made = ["-np", str(case.ranks)]
    made += rounds.transport_arguments(peer, place.interface, shares_hosts)
    made += ["--wdir", str(directory)]
    for name, value in app.environment.items():
        made += ["-x", f"{name}={value}"]
    return [*made, *words]


def execute(place, argument_lists, timeout, tick):
    """Run the commands one after the other, up to the first that fails."""
    ended = Ended()
    for arguments in argument_lists:
        ended.commands.append(place.command(arguments))
        outcome = place.run(arguments, timeout, tick)
        ended.output += outcome.output
        ended.errors += outcome.errors
        ended.seconds += outcome.seconds
        if outcome.timed_out:
            ended.failure = f"not finished after {timeout:g} s"
        elif outcome.status != 0:
            ended.failure = f"status {outcome.status}: {rounds.last_line(outcome)}"
        if ended.failure:
            break
    return ended


def _differences(app, steady, others):
    """Which results of the computation differ from those of an earlier run, as text."""
    found = []
    for name, value in steady.items():
        wanted = others.get(name, value)
        if not math.isclose(value, wanted, rel_tol=app.steady_tolerance, abs_tol=1e-12):
            found.append(f"{name} is {value!r}, in an earlier run {wanted!r}")
    return "; ".join(found)


def judge(run, app, ended, files, earlier):
    """Fill in a run's figures, or why it does not count. `earlier`: runs of the same case."""
    run.seconds = round(ended.seconds, 3)
    if ended.failure:
        run.failure = ended.failure
        return
    try:
        result = app.read(f"{ended.output}\n{ended.errors}", files, run.case)
    except AppError as error:
        run.failure = str(error)
        return
    run.failure = result.failed_checks
    if run.failure:
        return
    for one in earlier:
        if not one.failure:
            run.failure = _differences(app, result.steady, one.steady)
            break
    if not run.failure:
        run.figures, run.steady = result.figures, result.steady


def measure(place, case, peer, number, program, options, records, tick):
    """One run, recorded; its Run and the file with its output."""
    app = APPS[case.app]
    run = Run(case.app, case.size, case.ranks, case.hosts, peer, number)
    directory = records.directory / "work" / run.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        app.prepare(directory, case)
        lists = [
            arguments_of(app, case, peer, words, directory, place)
            for words in app.commands(program, case)
        ]
        ended = execute(place, lists, options.timeout, tick)
        files = {
            name: (directory / name).read_text(encoding="utf-8", errors="replace")
            for name in app.keeps
            if (directory / name).exists()
        }
    finally:
        shutil.rmtree(directory.parent, ignore_errors=True)
    run.command = " && ".join(ended.commands)
    judge(run, app, ended, files, [one for one in records.runs() if one.case == case])
    text = "".join(f"$ {command}\n" for command in ended.commands) + ended.output
    text += f"--- standard error\n{ended.errors}" if ended.errors else ""
    text += "".join(f"--- {name}\n{content}" for name, content in files.items())
    path = records.keep_raw(run, text)
    records.add(run)
    return run, path


def run_case(place, case, peers, number_of_rounds, options, records, progress):
    """All rounds of one case that the records do not hold yet."""
    app = APPS[case.app]
    program = app.find(options.programs)
    for peer, number in rounds.missing(case, peers, number_of_rounds, records.runs()):
        start = f"{case.label}: round {number} of {number_of_rounds}, {peer:<5}"
        progress.begin(start)
        run, path = measure(place, case, peer, number, program, options, records, progress.tick)
        progress.end(line_of(run, app, start))
        if run.failure:
            progress.say(f"    its output: {path}")


def line_of(run, app, start):
    """One line of progress."""
    if run.failure:
        return f"{start} FAILED: {run.failure}"
    figure = app.figures[0]
    return (
        f"{start} {run.seconds:7.2f} s, {figure.title} {run.figures[figure.key]:.4g} {figure.unit}"
        ", checks passed"
    )
