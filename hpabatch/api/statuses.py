"""HPAs at a time, as kubectl shows them, and explanations of one sync."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpabatch.api.manifests import read_hpas
from hpabatch.engine.explain.moment import Key, Metadata, Moment, moments
from hpabatch.engine.explain.request import DescribeRequest, ExplainRequest, GetRequest
from hpabatch.engine.explain.run import explain_history
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.errors import RefusedError
from hpabatch.history.base import History
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import counted, printable
from hpabatch.model.progress import Progress, silent
from hpabatch.model.times import show_api_time, show_instant
from hpabatch.report.base import label
from hpabatch.report.explain.document import Explained
from hpabatch.report.kubectl import (
    Descriptions,
    GetRow,
    HpaStatuses,
    describe_text,
    get_rows,
    live_document,
)


@dataclass(slots=True)
class HpasThen:
    """The HPAs that a request means, at its time.

    Attributes:
        plan: the replay whose last syncs they are.
        metadata: labels, annotations and more, as recorded or as in manifests.
        at_ms: that time.
        left_out: a sentence for each HPA that was asked for and is not shown; whole once all are
            read.
        named: each was asked for by its name.
    """

    plan: ReplayPlan
    metadata: Metadata
    at_ms: int
    named: bool
    left_out: list[str] = field(default_factory=list)

    def read(self, progress: Progress = silent) -> Iterator[Moment]:
        """Yield every HPA that existed at the time, after its last sync."""
        total = len(self.plan.chosen)
        shown: set[Key] = set()
        for found, moment in enumerate(moments(self.plan), 1):
            progress("deciding", found / total)
            if _exists(moment.candidate, self.at_ms):
                shown.add(moment.candidate.key)
                yield moment
        at = show_instant(self.at_ms)
        for candidate in self.plan.chosen:
            if candidate.key in shown:
                continue
            # Of all HPAs kubectl shows those that exist, and says nothing of others.
            if _exists(candidate, self.at_ms):
                reason = f"no sync of it until {at}, so there is no status to show"
            elif self.named:
                reason = f"there was no such HPA at {at}{_was_there(candidate)}"
            else:
                continue
            self.left_out.append(f"{printable(self.label(candidate.key))}: {reason}")

    def label(self, key: Key) -> str:
        """Return the name of an HPA, with its cluster where there are several."""
        return label(*key, with_cluster=len({c.cluster for c in self.plan.everyone}) > 1)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about the rules' version."""
        return self.plan.versions.warnings


def _exists(candidate: Candidate, at_ms: int) -> bool:
    return any(period.from_ms <= at_ms < period.to_ms for period in candidate.periods)


def _was_there(candidate: Candidate) -> str:
    first, last = candidate.periods[0].from_ms, candidate.periods[-1].to_ms
    known = [f"from {show_instant(first)}"] if first > ALWAYS_MS else []
    known += [f"until {show_instant(last)}"] if last < NEVER_MS else []
    return f"; it was there {' '.join(known)}: choose a time with --at" if known else ""


def hpas_then(
    history: History, request: GetRequest, manifests: Sequence[HPA] | None = None
) -> HpasThen:
    """Plan what was asked for.

    Raises:
        UsageError: an option is not possible, or there is no HPA of that name.
        RefusedError: none of the HPAs can be replayed.
        HistoryError: the history cannot be read.
    """
    parameters = replay_parameters(request)
    plan = plan_replay(history, parameters, manifests, selection_of(request), whole=True)
    asked_ms = plan.clocks.asked_ms
    at_ms = plan.clocks.to_ms if asked_ms is None else asked_ms
    found = HpasThen(plan, Metadata(history, manifests), at_ms, bool(request.names))
    found.left_out += [f"{printable(found.label(s.key))}: {s.reason}" for s in plan.skipped]
    if not plan.chosen:
        raise RefusedError("no HPA can be replayed", *(f"skipped: {s}" for s in found.left_out))
    return found


def statuses(then: HpasThen, progress: Progress = silent) -> HpaStatuses:
    """Return the HPAs with their statuses, once all shards are decided."""
    documents: list[HPA] = []
    rows: dict[str, list[GetRow]] = {}
    for moment in then.read(progress):
        document, cluster = then.metadata.document(moment), moment.candidate.cluster
        documents.append(document)
        version = then.plan.versions.name_of(cluster)
        rows.setdefault(cluster, []).extend(get_rows([document], then.at_ms, k8s=version))
    return HpaStatuses(then.at_ms, tuple(documents), rows, tuple(then.left_out))


def get(history: History, request: GetRequest) -> HpaStatuses:
    """Return HPAs with their statuses at a time, as `kubectl get hpa` would show them.

    Raises:
        UsageError: an option is not possible, or there is no HPA of that name.
        RefusedError: none of the HPAs can be replayed.
        HistoryError: the history cannot be read.
    """
    return statuses(hpas_then(history, request, _manifests(history, request)))


def descriptions(then: HpasThen, events_for_ms: int, progress: Progress = silent) -> Descriptions:
    """Return the descriptions, with events of the last `events_for_ms`."""
    texts, items, early = [], [], []
    for moment in then.read(progress):
        document = then.metadata.document(moment)
        events = moment.events(then.at_ms - events_for_ms + 1)
        version = then.plan.versions.name_of(moment.candidate.cluster)
        texts.append(describe_text(document, events, then.at_ms, k8s=version))
        items.append(_item(moment, document, events))
        if _begins_with_warnings(then, moment, events):
            early.append(printable(then.label(moment.candidate.key)))
    left_out, notes = tuple(then.left_out), _early_note(then, early)
    return Descriptions(then.at_ms, tuple(texts), tuple(items), left_out, notes)


def _begins_with_warnings(then: HpasThen, moment: Moment, events: Sequence[Event]) -> bool:
    """Whether the recording begins with a sync that fails, maybe for lack of earlier samples."""
    clocks = then.plan.clocks
    first_ms = moment.first_ms
    opening = first_ms < clocks.from_ms + clocks.grid.period_ms
    return opening and any(e.type == "Warning" and e.first_ms == first_ms for e in events)


def _early_note(then: HpasThen, early: Sequence[str]) -> tuple[str, ...]:
    if not early:
        return ()
    some = early[0] + (f" and {counted(len(early) - 1, 'more HPA')}" if len(early) > 1 else "")
    return (
        f"warnings of the first syncs (from {show_instant(then.plan.clocks.from_ms)} on) of {some} "
        "may be of the recording only: samples from before its beginning are missing",
    )


def describe(history: History, request: DescribeRequest) -> Descriptions:
    """Describe HPAs at a time as `kubectl describe hpa` would; raises as `get` does."""
    then = hpas_then(history, request, _manifests(history, request))
    return descriptions(then, request.events_for_ms)


def _item(moment: Moment, document: HPA, events: Sequence[Event]) -> dict[str, Any]:
    return {
        "cluster": moment.candidate.cluster,
        "sync": show_api_time(moment.now_ms),
        "k8s": moment.shard.profile.name,
        "hpa": live_document(document),
        "error": moment.reader.error(moment.words, moment.t),
        "events": [
            {
                "type": e.type,
                "reason": e.reason,
                "message": e.message,
                "count": e.count,
                "firstTimestamp": show_api_time(e.first_ms),
                "lastTimestamp": show_api_time(e.last_ms),
            }
            for e in events
        ],
    }


def explain(history: History, request: ExplainRequest) -> Explained:
    """Explain one decision of an HPA, its last sync until a time: every rule's arithmetic.

    Raises:
        UsageError: there is no such HPA, there are several, or it has no sync by then.
        RefusedError: the HPA cannot be replayed; the reason.
        HistoryError: a table is broken.
    """
    manifests = _manifests(history, request)
    return Explained(explain_history(history, replay_parameters(request), request.hpa, manifests))


def _manifests(history: History, request: GetRequest | ExplainRequest) -> list[HPA] | None:
    if not request.hpas:
        history.require("replay")
    return read_hpas(history, request.hpas, request.k8s, request.feature_gates)
