"""Ours beside theirs: decisions at the controller's own instants.

A sync lasts some ms from the instant that counts as its own, and our metrics are fetched at other
instants than its. So a difference is explained, and named, where the very same rules on the very
same recording give what the controller did if one sync is taken at another of its own moments, if
an event was seen some ms earlier or later, or if our next fetch had come in time. All that is
proved by deciding anew; what nothing explains is a failure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tests.live_cluster.recording import Decision, Recording, Span
from tests.live_cluster.sequences import Difference
from tests.live_cluster.truth import Hpa, Sync, Truth

EVENT_MS: Final = (10, 25, 50)
"""How much earlier or later than the controller we may have seen an event."""

MOST_LEFT: Final = 3
"""After so many differences of an HPA that nothing explains no more is searched: it takes long."""

MORE_PODS: Final = 3
"""How many pods that share a load may have come between one of our passes and a sync."""


@dataclass
class Agreement:
    """How an HPA's decisions agree at the controller's instants."""

    decisions: int = 0
    differences: list[Difference] = field(default_factory=list)


def compare_decisions(
    recording: Recording, truth: Truth, hpas: Sequence[Hpa], window_ms: int, gap_ms: int
) -> dict[Hpa, Agreement]:
    """Return by HPA how our decisions at the controller's instants are its own.

    `window_ms`: how long a recommendation counts; `gap_ms`: how long after one of our fetches the
    next one comes at the latest.
    """
    known = [hpa for hpa in hpas if hpa in recording.where and truth.syncs.get(hpa)]
    decided = recording.at({hpa: _instants(truth.syncs[hpa]) for hpa in known})
    found = {}
    for hpa in hpas:
        syncs = truth.syncs.get(hpa, [])
        agreement = found[hpa] = Agreement(len(syncs))
        ours = decided.get(hpa, {})
        if syncs and hpa not in recording.where:
            text = "it is not in the recording"
            agreement.differences.append(Difference(hpa, syncs[0].at_ms, "-", text, ""))
            continue
        if _first(syncs, _instants(syncs), ours, 0) is not None:
            search = _Search(recording, hpa, truth, window_ms, gap_ms)
            agreement.differences += search.run()
    return found


def _instants(syncs: Sequence[Sync]) -> list[int]:
    return [sync.at_ms for sync in syncs]


def _same(sync: Sync, decision: Decision | None) -> bool:
    """Return whether a decision is the controller's; a size that it could not write is unknown."""
    if sync.refused:
        return True
    if decision is None:
        return False
    return (decision.replicas, decision.desired) == (sync.replicas, sync.desired)


def _first(
    syncs: Sequence[Sync], instants: Sequence[int], ours: Mapping[int, Decision], start: int
) -> int | None:
    """Return the first sync from `start` on that differs, None if none does."""
    for k in range(start, len(syncs)):
        if not _same(syncs[k], ours.get(instants[k])):
            return k
    return None


class _Variant(NamedTuple):
    """Another reading of a sync: at which instant, with our next answers there already, and why."""

    at_ms: int
    early: tuple[Span, ...]
    why: str


class _Search:
    """Explains one HPA's differences one after another, in order of time.

    `chosen`: the syncs that are read in another way, and how; `left`: those that nothing explains.
    """

    def __init__(
        self, recording: Recording, hpa: Hpa, truth: Truth, window_ms: int, gap_ms: int
    ) -> None:
        self.recording, self.hpa, self.truth = recording, hpa, truth
        self.window_ms, self.gap_ms = window_ms, gap_ms
        self.syncs = truth.syncs[hpa]
        self.chosen: dict[int, _Variant] = {}
        self.left: set[int] = set()
        self.found: dict[int, Difference] = {}

    def run(self) -> list[Difference]:
        start, ours = 0, self._decided(self.chosen)
        while (k := _first(self.syncs, self._instants(self.chosen), ours, start)) is not None:
            was = ours.get(self._instants(self.chosen)[k])
            why = self._explained(k, ours) if len(self.left) < MOST_LEFT else ""
            self.found[k] = self._difference(k, was, why)
            if why:
                ours = self._decided(self.chosen)
            else:
                self.left.add(k)
            start = k + 1
        return [self.found[k] for k in sorted(self.found)]

    def _instants(self, chosen: Mapping[int, _Variant]) -> list[int]:
        return [chosen[k].at_ms if k in chosen else s.at_ms for k, s in enumerate(self.syncs)]

    def _decided(self, chosen: Mapping[int, _Variant]) -> dict[int, Decision]:
        early = [span for k in sorted(chosen) for span in chosen[k].early]
        return self.recording.alone(self.hpa, self._instants(chosen), early)

    def _explained(self, k: int, ours: Mapping[int, Decision]) -> str:
        """Take the first other reading under which sync k agrees, and say it; "": there is none.

        It may be one of an earlier sync, of which so far another reading was taken or none.
        """
        for j in (k, *self._suspects(k, ours)):
            for variant in self._variants(j):
                chosen = {**self.chosen, j: variant}
                if not self._agrees(chosen, j, k):
                    continue
                self.chosen = chosen
                if j in self.found:
                    self.found[j] = replace(self.found[j], why=variant.why)
                ago = self.syncs[k].at_ms - self.syncs[j].at_ms
                return f"{ago} ms before: {variant.why}" if ago else variant.why
        return ""

    def _agrees(self, chosen: Mapping[int, _Variant], j: int, k: int) -> bool:
        """Whether under these readings all syncs from j to k agree but those that were left."""
        instants, decided = self._instants(chosen), self._decided(chosen)
        return all(
            i in self.left or _same(self.syncs[i], decided.get(instants[i]))
            for i in range(j, k + 1)
        )

    def _suspects(self, k: int, ours: Mapping[int, Decision]) -> Iterator[int]:
        """Yield the syncs before k in the window that may have recommended something else.

        That shows in the reasons of conditions only, until a window ends; and not even there where
        a limit allows less than is recommended, or another reading gave the same size.
        """
        instants = self._instants(self.chosen)
        for j in range(k - 1, -1, -1):
            if self.syncs[j].at_ms < self.syncs[k].at_ms - self.window_ms - self.gap_ms:
                return
            decision = ours.get(instants[j])
            if decision is None:
                continue
            hidden = j in self.chosen or decision.proposal != decision.desired
            if hidden or _reasons(self.truth, self.hpa, self.syncs[j], decision):
                yield j

    def _variants(self, k: int) -> Iterator[_Variant]:
        sync = self.syncs[k]
        moments = [(sync.at_ms, "")]
        if sync.metrics_us is not None:
            ms = -(-sync.metrics_us // 1000)
            moments.append((ms, f"it asked for metrics {ms - sync.at_ms} ms later"))
        last_ms = sync.decided_ms
        moments.append((last_ms, f"it had decided {last_ms - sync.at_ms} ms later"))
        for ms in EVENT_MS:
            moments.append((sync.at_ms + ms, f"it saw an event, or time, {ms} ms before us"))
            moments.append((sync.at_ms - ms, f"we saw an event, or time, {ms} ms before it"))
        instants = self._instants(self.chosen)
        low = instants[k - 1] if k else 0
        high = instants[k + 1] if k + 1 < len(instants) else 1 << 60
        moments = [(at_ms, why) for at_ms, why in moments if low < at_ms < high]
        for at_ms, why in moments[1:]:
            yield _Variant(at_ms, (), why)
        for more in (None, *range(MORE_PODS + 1)):
            for at_ms, why in moments:
                span = Span(at_ms, at_ms + self.gap_ms, more)
                yield _Variant(at_ms, (span,), self._said(at_ms, more, why))

    def _said(self, at_ms: int, more: int | None, why: str) -> str:
        passes = self.recording.passes_ms
        k = bisect_right(passes, at_ms)
        before = at_ms - passes[k - 1] if k else self.gap_ms
        after = passes[k] - at_ms if k < len(passes) else self.gap_ms
        text = f"metrics changed between our passes {before} ms before and {after} ms after"
        if more is not None:
            text += ", when more pods shared them"
        if more:
            text += f", up to {more} of which had come"
        return f"{text}; {why}" if why else text

    def _difference(self, k: int, was: Decision | None, why: str) -> Difference:
        sync = self.syncs[k]
        ours = "nothing" if was is None else f"{_show(was.replicas, was.desired)} ({was.why})"
        return Difference(self.hpa, sync.at_ms, ours, _show(sync.replicas, sync.desired), why)


def _show(replicas: int | None, desired: int | None) -> str:
    if replicas is None:
        return "no scale"
    return f"stay at {replicas}" if desired == replicas else f"{replicas} -> {desired}"


def _reasons(truth: Truth, hpa: Hpa, sync: Sync, decision: Decision) -> list[str]:
    """Return the reasons of conditions that differ after a sync."""
    statuses = truth.statuses.get(hpa, [])
    k = bisect_right(statuses, sync.end_us, key=lambda status: status.at_us)
    if k == 0:
        return []
    theirs = statuses[k - 1].reasons
    return [
        f"{name} {reason}, theirs {theirs.get(name)}"
        for name, reason in decision.reasons.items()
        if theirs.get(name) != reason
    ]
