# SPDX-License-Identifier: BSD-3-Clause
"""Condenses the runs of a comparison: medians per case, figure and transport, and their ratio."""

from dataclasses import dataclass

from imbruns import stats

from .app import Figure
from .plan import APPS

# What every application has: from mpirun's start to its end, start and finish of MPI included.
WHOLE = Figure("mpirun_s", "whole run of mpirun", "s", False)


@dataclass
class Row:
    """One figure of one case, over all transports."""

    figure: Figure
    medians: dict  # transport -> median, None when no run of it counts
    spreads: dict  # transport -> (max - min) / median

    def ratio(self, peer, base):
        """Median of a transport over that of another; None when one has none."""
        one, other = self.medians.get(peer), self.medians.get(base)
        return one / other if one is not None and other else None

    def gain(self, peer, base):
        """How many times better the transport is, above 1 is better, whatever the figure."""
        ratio = self.ratio(peer, base)
        if ratio is None or self.figure.higher_is_better:
            return ratio
        return 1.0 / ratio if ratio else None


@dataclass
class Comparison:
    """All figures of one case."""

    case: object
    rows: list
    good: dict  # transport -> runs that count
    failed: dict  # transport -> runs that do not

    def reading(self, peer, base):
        """One sentence on what its first figure says."""
        row = self.rows[0]
        gain = row.gain(peer, base)
        if gain is None:
            return f"{self.case.label}: no comparison, a transport has no run that counts."
        word = "better" if gain >= 1 else "worse"
        change = 100.0 * (row.ratio(peer, base) - 1.0)
        return (
            f"{self.case.label}: {row.figure.title} is {change:+.1f} % over {peer} against {base} "
            f"({word}: {'higher' if row.figure.higher_is_better else 'lower'} is better)."
        )


def _row(figure, values_of):
    medians = {peer: stats.median(values) if values else None for peer, values in values_of.items()}
    spreads = {peer: stats.spread(values) if values else None for peer, values in values_of.items()}
    return Row(figure, medians, spreads)


def condense(runs, cases, peers):
    """A Comparison for each case that has runs, in the order given."""
    comparisons = []
    for case in cases:
        of_case = [run for run in runs if run.case == case]
        if not of_case:
            continue
        good = {
            peer: [run for run in of_case if run.peer == peer and not run.failure]
            for peer in peers
        }
        rows = [
            _row(figure, {peer: [run.figures[figure.key] for run in good[peer]] for peer in peers})
            for figure in APPS[case.app].figures
        ]
        rows.append(_row(WHOLE, {peer: [run.seconds for run in good[peer]] for peer in peers}))
        failed = {
            peer: len([run for run in of_case if run.peer == peer and run.failure])
            for peer in peers
        }
        counts = {peer: len(found) for peer, found in good.items()}
        comparisons.append(Comparison(case, rows, counts, failed))
    return comparisons


def scaling(comparisons, app, peers):
    """Speed-up and efficiency of an application over the case with the fewest ranks.

    Lists of (case, {transport: (speed-up, efficiency)}); None without two cases. The speed is
    that of the application's first figure.
    """
    mine = sorted((one for one in comparisons if one.case.app == app), key=lambda c: c.case.ranks)
    if len(mine) < 2:
        return None
    first, lines = mine[0], []
    for one in mine:
        values = {}
        for peer in peers:
            start, now = first.rows[0].medians[peer], one.rows[0].medians[peer]
            if start and now:
                ratio = now / start if one.rows[0].figure.higher_is_better else start / now
                values[peer] = (ratio, ratio * first.case.ranks / one.case.ranks)
        lines.append((one.case, values))
    return lines
