"""Explanations of a pass: the reason of each decision, and each HPA with hpabatch's status."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from hpabatch.engine.explain.status import LaneWords, StatusReader, row_of
from hpabatch.kernels.status import status_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import HEAD_STATUS_CURRENT, I64, Records
from hpabatch.layout.results import STATUS_NEXT
from hpabatch.live.passes.columns import TICKS, Columns
from hpabatch.live.passes.lanes import Lane
from hpabatch.model.messages import Event, condition_message
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.hpa import HPA, Condition, HPAStatus
from hpabatch.model.times import show_api_time
from hpabatch.model.versions import Profile
from hpabatch.packing.memory import condition_code
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory

_KINDS = {kind: name for name, kind in codes.CONDITION_TYPES.items()}
_FAILED = (codes.BOUND_BY_SCALE_READ, codes.BOUND_BY_SELECTOR, codes.BOUND_BY_INVALID_METRIC)


class PassWords:
    """Explanations of one pass; valid until the next one is decided.

    Attributes:
        current_before: (H,) status.currentReplicas before the pass.
    """

    def __init__(self, columns: Columns, profile: Profile, head_before: I64) -> None:
        self.current_before: I64 = head_before[:, HEAD_STATUS_CURRENT].copy()
        self._columns, self._fleet, self._profile = columns, columns.fleet, profile

    def why(self, h: int) -> str:
        """Return the reason of lane h's decision in one sentence."""
        reader, lane = self._reader, self._columns.lanes[h]
        words, t = LaneWords(lane.key[0], name=lane.key[1]), TICKS * h + 1
        decision = row_of(self._columns.results.decisions, t)
        if decision.binding == codes.BOUND_BY_NO_SCALE:
            return f"the scale of {lane.target} was not seen yet"
        error = reader.error(words, t)
        sentence = codes.BINDINGS[decision.binding].sentence
        if decision.binding in _FAILED:
            return error or sentence
        parts = [self._said(h, decision)] if decision.metric >= 0 else []
        if decision.stabilized != decision.proposal:
            parts.append(f"{decision.stabilized} after the windows")
        return f"{', '.join(parts)}: {sentence}" if parts else sentence

    def error_label(self, h: int) -> str:
        """Return the label of lane h's error in the controller's own metrics, "none" without one.

        Most lanes have no error, which their decision says without words.
        """
        t = TICKS * h + 1
        decision = self._columns.results.decisions[t]
        if (
            decision["binding"] not in (*_FAILED, codes.BOUND_BY_SCALE_WRITE)
            and not (decision["invalid_metrics"])
        ):
            return "none"
        return self._reader.error_label(t)

    def events(self, h: int) -> list[Event]:
        """Return the events of lane h in the controller's words."""
        return self._reader.events(self._lane_words(h), TICKS * h + 1)

    def document(self, h: int) -> HPA:
        """Return lane h's HPA with hpabatch's status instead of the cluster's own."""
        lane = self._columns.lanes[h]
        status = self._reader_of_statuses.status(self._lane_words(h), TICKS * h + 1)
        return replace(lane.item.hpa, status=status)

    def _said(self, h: int, decision: Any) -> str:
        columns, number = self._columns, int(self._columns.spec_now[h])
        specs, _, metrics = columns.tables
        m = int(specs.first_metric[number]) + decision.metric
        metric = columns.specs[number].metrics[decision.metric]
        row = TICKS * int(metrics.stream[m]) + TICKS - 1
        said = row_of(columns.results.metrics, row)
        kind = int(metrics.kind[m])
        name = metric_name(metric, kind, self._profile.container_metric_named)
        ratio = "" if said.ratio != said.ratio else f" at {said.ratio:.3g} of its target"
        return f"{name}{ratio} wants {decision.proposal}"

    @cached_property
    def _reader(self) -> StatusReader:
        return self._reader_with(empty_statuses(0))

    def _reader_with(self, statuses: Records) -> StatusReader:
        columns = self._columns
        return StatusReader(
            self._fleet,
            columns.results,
            statuses,
            columns.specs,
            columns.texts,
            self._profile,
        )

    @cached_property
    def _reader_of_statuses(self) -> StatusReader:
        """Return a reader of hpabatch's statuses, each derived from the cluster's."""
        memory, statuses = make_status_memory(self._fleet), empty_statuses(self._fleet.ticks.size)
        for h in range(len(self._columns.lanes)):
            seed_status_memory(memory, h, self._before(h))
            memory.head[h, STATUS_NEXT] = TICKS * h + 1
        last = np.array(self._fleet.lanes.last_tick, np.int64)
        status_fleet(self._fleet, self._columns.results, memory, last, statuses)
        return self._reader_with(statuses)

    def _lane_words(self, h: int) -> LaneWords:
        lane = self._columns.lanes[h]
        generation = lane.item.hpa.generation
        known = {} if generation is None else {int(self._columns.spec_now[h]): generation}
        return LaneWords(lane.key[0], self._before(h), lane.key[1], known)

    def _before(self, h: int) -> HPAStatus:
        """Return the cluster's status with hpabatch's conditions.

        These come first, in hpabatch's order, and win where the cluster's own differ.
        """
        lane: Lane = self._columns.lanes[h]
        decision = row_of(self._columns.results.decisions, TICKS * h + 1)
        now = show_api_time(int(self._fleet.ticks.now_ms[TICKS * h + 1]))
        theirs: dict[str, Condition] = {}
        for c in lane.status.conditions:
            theirs.setdefault(
                c.type, c if c.last_transition_time else replace(c, last_transition_time=now)
            )
        shown: list[Condition] = []
        for k in range(4):
            code = getattr(decision, f"condition_{k}")
            if code != codes.NO_CONDITION:
                shown.append(_condition(code, theirs.pop(_KINDS[code >> 4], None), now))
        return replace(lane.status, conditions=(*shown, *theirs.values()))


def _condition(code: int, theirs: Condition | None, now: str) -> Condition:
    """Return a condition of hpabatch: the cluster's own where both are the same."""
    words = codes.CONDITIONS.get(code)
    if words is None:  # the condition was there when the HPA was first seen
        status = "True" if code & 15 == codes.OTHER_TRUE else "False"
        return theirs or Condition(_KINDS[code >> 4], status, last_transition_time=now)
    if theirs is not None and condition_code(theirs) == code:
        return theirs
    since = theirs.last_transition_time if theirs and theirs.status == words.status else now
    return Condition(words.type, words.status, words.reason, condition_message(code), since)
