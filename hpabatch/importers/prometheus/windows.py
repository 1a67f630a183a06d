"""Windows of an import: those of a time, and those that a store has already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hpabatch.errors import UsageError
from hpabatch.history.store.catalog import quote
from hpabatch.importers.common.claims import PREFIX, span_of
from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.model.times import show_instant

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of time of one cluster, at most a UTC day, that is complete once its last part is.

    Attributes:
        span: its instants.
        initial: nothing was imported right before it, so what holds at its beginning is written.
        again: suffix of its name once another import took its place before it was complete.
    """

    span: Span
    initial: bool
    again: str = ""

    def name(self, source: str, cluster: str) -> str:
        """Return what the names of its parts begin with: as a claim it is an import of its own."""
        place = f"{PREFIX}/{source}/{quote(cluster)}"
        return f"{place}/{self.span.after_ms}-{self.span.until_ms}{self.again}"

    def part(self, source: str, cluster: str, name: str) -> str:
        """Return the name of a part of the store."""
        return f"{self.name(source, cluster)}/{name}"


def check_order(start_ms: int, end_ms: int) -> None:
    """Refuse a time that ends before it begins (UsageError)."""
    if end_ms <= start_ms:
        told = f"from {show_instant(start_ms)} to {show_instant(end_ms)}"
        raise UsageError(f"there is no time {told}: give a later --end")


def has_begun(parts: Collection[str], source: str) -> bool:
    """Whether a store has anything of a source."""
    return any(part.startswith(f"{PREFIX}/{source}/") for part in parts)


def first_start(parts: Collection[str], source: str) -> int | None:
    """Return from when on a store has anything of a source (ms), None: it has nothing."""
    head = f"{PREFIX}/{source}/"
    return min((span_of(part)[0] for part in parts if part.startswith(head)), default=None)


def windows(
    start_ms: int, end_ms: int, lookback_ms: int, covered: Sequence[tuple[int, int]]
) -> list[Window]:
    """Return what is still to be imported of a time, in order; `covered` are (after, until), ms.

    Raises:
        UsageError: something would have to be imported before what is there: lives that ended
            later are known already, and would be opened again.
    """
    found: list[Window] = []
    at, covered_ms = start_ms, max((until for _, until in covered), default=start_ms)
    while at < end_ms:
        inside = next((until for after, until in covered if after <= at < until), None)
        if inside is not None:
            at = inside
            continue
        if covered_ms < at and not found:
            raise UsageError(
                f"from {show_instant(covered_ms)} to {show_instant(at)} nothing was imported: "
                "a history has no holes, as nobody would know what ended in them; begin where it "
                "ends (leave out --start)"
            )
        later = [after for after, _ in covered if after > at]
        if later:
            raise UsageError(
                f"from {show_instant(at)} to {show_instant(min(later))} nothing was imported, but "
                "what comes after was: a history grows forward only. Import the earlier time into "
                "a history of its own, or all of it into a new one"
            )
        until = min(end_ms, at - at % DAY_MS + DAY_MS)
        initial = not any(end == at for _, end in covered) and not found
        found.append(Window(Span(at, until, lookback_ms), initial))
        at = until
    return found
