"""A verdict as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.live_cluster.sequences import Difference
from tests.live_cluster.verdict import MOST_EXPLAINED, Row, Verdict

MOST = 12  # differences of one case, and others of a kind, that are listed


def table(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each case."""
    head = ("case", "syncs", "replay at its instants", "own replay", "sizes")
    rows = [head, *(_cells(row) for row in verdict.rows)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    replayed = "-"
    if row.replayed is not None:
        replayed = _counted(row.replayed.differences, "exact")
    sizes = " ".join(map(str, row.sizes)) or "-"
    if row.dull:
        sizes += f"  (too dull: at least {row.case.moves} sizes were expected)"
    told = "-" if row.told is None else _counted(row.told, "equal")
    return row.case.name, str(row.syncs), replayed, told, sizes


def _counted(differences: Sequence[Difference], word: str) -> str:
    unexplained = sum(not one.why for one in differences)
    if not differences:
        return word
    if not unexplained:
        return f"{len(differences)} explained"
    return f"{unexplained} DIFFER, {len(differences) - unexplained} explained"


def differences(verdict: Verdict) -> Iterator[str]:
    """Yield every difference: HPA, what was compared, instant, ours, theirs, why."""
    for row in verdict.rows:
        found = row.all_differences()
        for kind, one in found[:MOST]:
            why = one.why or "UNEXPLAINED"
            yield f"{one.hpa.name} {kind} at {one.at_ms}: ours {one.ours}; theirs {one.theirs}"
            yield f"    {why}"
        if len(found) > MOST:
            yield f"{row.case.name}: {len(found) - MOST} more differences"


def counts(verdict: Verdict) -> Iterator[str]:
    """Yield what was compared altogether."""
    replayed = [row.replayed for row in verdict.rows if row.replayed is not None]
    found = [one for row in verdict.rows for _, one in row.all_differences()]
    unexplained = sum(not one.why for one in found)
    yield (
        f"{sum(one.decisions for one in replayed)} decisions of {len(verdict.rows)} HPAs: "
        f"{len(found)} differences, {unexplained} of them unexplained"
    )


def failures(verdict: Verdict) -> Iterator[str]:
    """Yield why the run as a whole failed: the last lines, which are seen first."""
    for row in verdict.rows:
        unexplained = sum(not one.why for _, one in row.all_differences())
        if row.dull:
            sizes = f"{len(row.sizes)} sizes of at least {row.case.moves}"
            yield f"FAILED: {row.case.name}: the controller went to {sizes}"
        if unexplained:
            yield f"FAILED: {row.case.name}: {unexplained} differences without an explanation"
    if verdict.explained_share > MOST_EXPLAINED:
        yield f"FAILED: {verdict.explained_share:.1%} of the decisions had to be explained"


def skips(skipped: Sequence[str], words: Mapping[str, str]) -> Iterator[str]:
    """Yield what was left out."""
    if skipped:
        yield "left out:"
    for name in skipped:
        yield f"    {name}: {words[name]}"
