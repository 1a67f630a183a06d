"""Golden cases through the package's kernels, back in the form of the golden `expected`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.explain import status
from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import Fleet, Memory, Records
from hpabatch.layout.results import Results, empty_results
from hpabatch.model import messages
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.encode import encode_metric
from hpabatch.model.versions import Profile
from hpabatch.packing.memory import seed_recommendations, seed_status
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from tests.compiled import compiled, propose_alone
from tests.conformance.drive import Drive
from tests.conformance.golden import (
    HPALane,
    Json,
    calculator_lane,
    decode,
    hpa_lane,
    to_flags,
    to_ms,
    to_profile,
)
from tests.conformance.results import tick_result
from tests.packed import LaneView, make_memory, pack_fleet

NAMESPACE = "default"

propose_metric = compiled(propose_alone)

_UTILIZATION = {codes.RESOURCE_UTILIZATION}
_AVERAGE = {
    codes.RESOURCE_UTILIZATION,
    codes.RESOURCE_AVERAGE,
    codes.PODS_AVERAGE,
    codes.OBJECT_AVERAGE,
    codes.EXTERNAL_AVERAGE,
}
_VALUE = {codes.OBJECT_VALUE, codes.EXTERNAL_VALUE}


def decide_calculator_case(case: Json, k8s: str, lane: LaneView | None = None) -> dict[str, Any]:
    """Return the `expected` of a calculator case; `lane` is what is read of it, where known."""
    profile, texts = to_profile(k8s, case["flags"]), Texts()
    lane = lane or calculator_lane(case, profile)
    fleet = pack_fleet([lane], to_flags(case["flags"]), profile, texts)
    results = empty_results(1, 1, details=True)
    propose_metric(fleet, case.get("spec_replicas") or 0, results)
    proposal = results.metrics[0]
    metric, kind = lane.specs[0].metrics[0], int(fleet.metrics[0].kind)
    ok = proposal.code == codes.METRIC_OK
    code = codes.INVALID_METRIC_SOURCE_TYPE + int(fleet.metrics[0].source)
    failure = None
    if not ok:
        text = texts[int(results.details[0].text)]
        failure = messages.metric_failure(
            metric, kind, int(proposal.code), text, NAMESPACE, profile
        )
    current_status = _status_value(lane, fleet, results, texts, profile) if ok else {}
    return {
        "replicas": int(proposal.proposal) if ok else None,
        "current_average_utilization": _if(ok and kind in _UTILIZATION, proposal.utilization_pct),
        "current_average_value": current_status.get("averageValue") if kind in _AVERAGE else None,
        "current_average_value_milli": _if(ok and kind in _AVERAGE, proposal.average_milli),
        "current_value": current_status.get("value") if kind in _VALUE else None,
        "current_value_milli": _if(ok and kind in _VALUE, proposal.value_milli),
        "metric_name": metric_name(metric, kind, profile.container_metric_named) if ok else None,
        "error": failure.error if failure else None,
        "condition_reason": codes.CONDITIONS[code].reason if failure else None,
        "condition_message": (messages.condition_message(code, failure.event) if failure else None),
    }


def _status_value(
    lane: LaneView, fleet: Fleet, results: Results, texts: Texts, profile: Profile
) -> dict[str, Any]:
    """Return `current` of the one metric's status."""
    reader = StatusReader(
        fleet, results, _statuses_of_first_tick(), list(lane.specs), texts, profile
    )
    found = reader.current_metrics(LaneWords(NAMESPACE), 0)
    assert found is not None
    member: Any = next(value for key, value in encode_metric(found[0]).items() if key != "type")
    return dict(member["current"])


def _statuses_of_first_tick() -> Any:
    statuses = empty_statuses(1)
    statuses.metrics_tick[0] = 0
    return statuses


def _if(shown: bool, value: int) -> int | None:
    return int(value) if shown else None


def decide_timeline(timeline: Json, k8s: str) -> list[Json]:
    """Return the `expected` of every tick of a timeline."""
    unwritten = unwritten_statuses(timeline)
    if any(unwritten):
        profile = to_profile(k8s, timeline["flags"])
        drive = Drive([hpa_lane(timeline, profile)], to_flags(timeline["flags"]), profile)
        drive.begin(0, decode(timeline["hpa"]))
        return [drive.sync(0, error) for error in unwritten]
    return replay_timeline(timeline, k8s).results(range(len(unwritten)))


def unwritten_statuses(timeline: Json) -> list[str]:
    """Return of each tick why its status could not be written, or an empty text."""
    return [tick.get("status_update_error") or "" for tick in timeline["ticks"]]


class Replayed(NamedTuple):
    """A timeline after its last tick."""

    lane: HPALane
    reader: StatusReader
    words: LaneWords

    def results(self, ticks: Iterable[int]) -> list[Json]:
        """Return the `expected` of some ticks."""
        rows: dict[int, list[Any]] = {}

        def row_of(table: Records, at: int) -> Any:
            # Nothing is written any more: each table becomes numbers once, not ten times a tick.
            if id(table) not in rows:
                row: Any = namedtuple("Row", table.dtype.names)  # type: ignore[misc]
                rows[id(table)] = list(map(row._make, table.tolist()))
            return rows[id(table)][at]

        with mock.patch.object(status, "row_of", row_of):
            return [tick_result(self.reader, self.words, t) for t in ticks]

    def ticks_unlike(self, other: Replayed) -> list[int]:
        """Return the ticks with other rows or texts than in another replay, and one of each kind.

        Of one kind are ticks with the same spec, codes and conditions: only numbers differ.
        """
        reader, count = self.reader, self.reader.statuses.size
        if self._texts() != other._texts():
            return list(range(count))
        decisions, ticks = reader.results.decisions, reader.fleet.ticks
        names = ("binding", "reason", "rescaled", *(f"condition_{k}" for k in range(4)))
        kinds = [ticks.spec, ticks.scale, ticks.selector, *(decisions[name] for name in names)]
        kinds += list(reader.results.metrics.code.reshape(-1, count))
        _, first = np.unique(np.stack(kinds), axis=1, return_index=True)
        unlike = np.zeros(count, bool)
        unlike[first] = True
        for mine, theirs in zip(self._columns(), other._columns(), strict=True):
            unlike |= (mine != theirs).any(axis=0)
        return [int(t) for t in unlike.nonzero()[0]]

    def _texts(self) -> list[str]:
        texts = self.reader.texts
        return [texts[k] for k in range(len(texts))]

    def _columns(self) -> Iterator[NDArray[Any]]:
        """Yield (blocks, ticks) of all that was seen and written but `observed`."""
        reader = self.reader
        for table in (reader.fleet.ticks, reader.statuses, *reader.results[:3]):
            for name in table.dtype.names or ():
                if name != "observed":  # the data do not have it
                    yield table[name].reshape(-1, reader.statuses.size)


def replay_timeline(timeline: Json, k8s: str, alike: Replayed | None = None) -> Replayed:
    """Replay a timeline whose statuses were all written.

    `alike` is its replay under a version that stores and reads the same, so that its lane serves.
    """
    profile = to_profile(k8s, timeline["flags"])
    adapted, hpa = alike.lane if alike else hpa_lane(timeline, profile), decode(timeline["hpa"])
    lane, texts = adapted.view(), Texts()
    fleet = pack_fleet([lane], to_flags(timeline["flags"]), profile, texts)
    before = hpa.status
    memory = _first_memory(fleet, timeline)
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    replay_fleet(fleet, memory, False, results)
    statuses, status_memory = empty_statuses(fleet.ticks.size), make_status_memory(fleet)
    status_memory.generations[:] = adapted.generations
    seed_status_memory(status_memory, 0, before)
    last = np.array([fleet.ticks.size], np.int64)
    status_fleet(fleet, results, status_memory, last, statuses)
    reader = StatusReader(fleet, results, statuses, list(lane.specs), texts, profile)
    return Replayed(adapted, reader, LaneWords(hpa.namespace or NAMESPACE, before, hpa.name))


def _first_memory(fleet: Fleet, timeline: Json) -> Memory:
    """Return the controller's memory and the HPA's status before the first tick."""
    seeds = timeline.get("initial_recommendations")
    memory = make_memory(fleet, recorded=False, spare=len(seeds or ()))
    seed_status(memory, 0, decode(timeline["hpa"]).status)
    if seeds is not None:
        entries = [(e["recommendation"], to_ms(e["timestamp"])) for e in seeds]
        seed_recommendations(memory, 0, entries)
    return memory
