# SPDX-License-Identifier: BSD-3-Clause
"""Condenses the runs of a comparison: medians per case and transport, and their ratio."""

from dataclasses import dataclass

from imbruns import stats


@dataclass
class Figures:
    """One transport in one case."""

    peer: str
    good: int  # runs with a verified result
    failed: int
    mops: float = None  # medians
    seconds: float = None
    mpi_share: float = None
    spread: float = None  # (max - min) / median of Mop/s


@dataclass
class Comparison:
    """All transports in one case."""

    case: object
    figures: dict  # by transport
    messages: int = None  # of one run, all ranks
    bytes_sent: int = None

    def ratio(self, peer, base):
        """Median Mop/s of a transport over that of another; None when one has none."""
        one, other = self.figures.get(peer), self.figures.get(base)
        if one is None or other is None or one.mops is None or not other.mops:
            return None
        return one.mops / other.mops

    def reading(self, peer, base):
        """One sentence on what the ratio says."""
        ratio = self.ratio(peer, base)
        if ratio is None:
            return f"{self.case.label}: no comparison, a transport has no verified run."
        percent = 100.0 * (ratio - 1.0)
        word = "more" if percent >= 0 else "fewer"
        return (
            f"{self.case.label}: {peer} does {abs(percent):.1f} % {word} operations a second "
            f"than {base}."
        )


def _median_of(runs, name):
    values = [getattr(run, name) for run in runs if getattr(run, name) is not None]
    return stats.median(values) if values else None


def condense(runs, cases, peers):
    """A Comparison for each case that has runs, in the order given."""
    comparisons = []
    for case in cases:
        of_case = [run for run in runs if run.case == case]
        if not of_case:
            continue
        figures = {}
        for peer in peers:
            mine = [run for run in of_case if run.peer == peer]
            good = [run for run in mine if not run.failure]
            figures[peer] = Figures(
                peer,
                len(good),
                len(mine) - len(good),
                _median_of(good, "mops"),
                _median_of(good, "seconds"),
                _median_of(good, "mpi_share"),
                stats.spread([run.mops for run in good]) if good else None,
            )
        counted = [run for run in of_case if run.messages is not None]
        comparisons.append(
            Comparison(
                case,
                figures,
                counted[0].messages if counted else None,
                counted[0].bytes_sent if counted else None,
            )
        )
    return comparisons
