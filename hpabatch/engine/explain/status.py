"""Status, events and errors of an HPA after a tick, in the controller's words.

The numbers come from the kernels (`rules.tick`, `rules.status`), the sentences from
`model.messages`; they are joined here, for the ticks that are asked for.
Source: horizontal.go, reconcileAutoscaler and the functions it calls.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from hpabatch.layout import codes
from hpabatch.layout.records import Fleet, Records
from hpabatch.layout.results import FROM_BEFORE, NO_METRICS, NO_TIME_MS, Results
from hpabatch.model import messages
from hpabatch.model.messages import NORMAL, WARNING, Event
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.hpa import (
    Condition,
    CrossVersionObjectReference,
    HPASpec,
    HPAStatus,
    MetricSpec,
    MetricStatus,
    MetricValueStatus,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.times import show_api_time
from hpabatch.model.versions import Profile
from hpabatch.packing.texts import Texts

_WITH_VALUE = (codes.OBJECT_VALUE, codes.EXTERNAL_VALUE)
_NO_ANSWER = (codes.BOUND_BY_SELECTOR, codes.BOUND_BY_INVALID_METRIC)


@dataclass(frozen=True, slots=True)
class LaneWords:
    """Words about one HPA that its sentences need besides the numbers.

    `before` is its status before the first tick, `name` its own; `generations` by row of
    `Fleet.specs`, where known.
    """

    namespace: str
    before: HPAStatus = field(default_factory=HPAStatus)
    name: str = ""
    generations: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusReader:
    """Reads statuses and events out of a replay's arrays.

    `specs` by row of `fleet.specs`; `results` with details, `statuses` as `kernels.status` wrote
    them, `texts` the table of the texts that came with the observations.
    """

    fleet: Fleet
    results: Results
    statuses: Records
    specs: Sequence[HPASpec]
    texts: Texts
    profile: Profile

    # ---- the status

    def status(self, lane: LaneWords, t: int) -> HPAStatus:
        """Return the status of a lane after tick t (a number over all ticks)."""
        decision, row = row_of(self.results.decisions, t), row_of(self.statuses, t)
        last_scale_ms = row.last_scale_ms
        generation = lane.generations.get(row.observed)
        if row.observed == FROM_BEFORE:
            generation = lane.before.observed_generation
        return HPAStatus(
            current_replicas=decision.current,
            desired_replicas=decision.desired,
            last_scale_time=None if last_scale_ms == NO_TIME_MS else show_api_time(last_scale_ms),
            observed_generation=generation,
            conditions=self.conditions(lane, t),
            current_metrics=self.current_metrics(lane, t),
        )

    def conditions(self, lane: LaneWords, t: int) -> tuple[Condition, ...]:
        """Return the conditions after tick t, in the status' order."""
        decision, row = row_of(self.results.decisions, t), row_of(self.statuses, t)
        found = []
        for k in range(4):
            code, set_at = getattr(decision, f"condition_{k}"), getattr(row, f"set_{k}")
            if code == codes.NO_CONDITION:
                continue
            if set_at == FROM_BEFORE:
                kinds = {kind: name for name, kind in codes.CONDITION_TYPES.items()}
                found.append(next(c for c in lane.before.conditions if c.type == kinds[code >> 4]))
                continue
            words = codes.CONDITIONS[code]
            found.append(
                Condition(
                    type=words.type,
                    status=words.status,
                    reason=words.reason,
                    message=self._message(lane, code, set_at),
                    last_transition_time=show_api_time(getattr(row, f"transition_{k}_ms")),
                )
            )
        return tuple(found)

    def current_metrics(self, lane: LaneWords, t: int) -> tuple[MetricStatus, ...] | None:
        """Return `currentMetrics` after tick t; None: null."""
        at = row_of(self.statuses, t).metrics_tick
        if at == FROM_BEFORE:
            return lane.before.current_metrics
        if at == NO_METRICS:
            return None
        return tuple(self._metric_status(metric, m, at) for m, metric in self.metrics(at))

    # ---- events and errors

    def events(self, lane: LaneWords, t: int, unwritten: str = "") -> list[Event]:
        """Return the events of tick t in their order.

        `unwritten` is the API server's error where the status could not be written.
        """
        decision, tick = row_of(self.results.decisions, t), row_of(self.fleet.ticks, t)
        if decision.binding == codes.BOUND_BY_NO_SCALE:
            return []
        status = []
        if unwritten and row_of(self.statuses, t).written:
            status = [self._event(t, WARNING, "FailedUpdateStatus", unwritten)]
        scale_error = self.texts[tick.scale_text]
        if decision.binding == codes.BOUND_BY_SCALE_READ:
            return [self._event(t, WARNING, "FailedGetScale", scale_error), *status]
        found = self._metric_events(lane, t)
        if decision.binding in _NO_ANSWER:
            error = self._compute_error(lane, t)
            failed = self._event(t, WARNING, "FailedComputeMetricsReplicas", error)
            return [*found, *status, failed]
        size, reason = decision.limited, self.reason(t)
        if decision.binding == codes.BOUND_BY_SCALE_WRITE:
            text = messages.failed_new_size(size, reason, scale_error)
            found.append(self._event(t, WARNING, "FailedRescale", text))
        elif decision.rescaled:
            text = messages.new_size(size, reason)
            found.append(self._event(t, NORMAL, "SuccessfulRescale", text))
        return [*found, *status]

    def _metric_events(self, lane: LaneWords, t: int) -> list[Event]:
        """Return the events of a selector that cannot be used, and of failed metrics."""
        if row_of(self.results.decisions, t).binding == codes.BOUND_BY_SELECTOR:
            reason, text = self._selector_event(t)
            return [self._event(t, WARNING, reason, text)] if reason else []
        found = []
        for m, _ in self._failed(t):
            reason = codes.CONDITIONS[self.failed_condition(m)].reason
            found.append(self._event(t, WARNING, reason, self.failure(lane, m, t).event))
        return found

    def reason(self, t: int) -> str:
        """Return the reason that a rescale's event of tick t gives."""
        decision = row_of(self.results.decisions, t)
        name = self._driving(t) if decision.metric >= 0 else ""
        return codes.REASONS[decision.reason].replace("{metric}", name)

    def error(self, lane: LaneWords, t: int, unwritten: str = "") -> str | None:
        """Return the error that the sync of tick t returned.

        `unwritten` as for `events`; where the sync had failed already it is only logged.
        """
        decision, tick = row_of(self.results.decisions, t), row_of(self.fleet.ticks, t)
        ref = self.specs[tick.spec].scale_target_ref
        target = f"{ref.kind}/{lane.namespace}/{ref.name}"
        if decision.binding == codes.BOUND_BY_SCALE_READ:
            return messages.scale_error(tick.scale, target, self.texts[tick.scale_text])
        if decision.binding in _NO_ANSWER:
            return messages.compute_error(target, self._compute_error(lane, t))
        if decision.binding == codes.BOUND_BY_SCALE_WRITE:
            return messages.rescale_error(target, self.texts[tick.scale_text])
        if unwritten and row_of(self.statuses, t).written:
            return messages.status_update_error(lane.name, unwritten)
        if decision.invalid_metrics and self.profile.partial_failure_returned:
            return self._compute_error(lane, t)
        return None

    def error_label(self, t: int, unwritten: str = "") -> str:
        """Return the label of that error in the controller's own metrics, "none" without one."""
        decision = row_of(self.results.decisions, t)
        if decision.binding == codes.BOUND_BY_SCALE_READ:
            is_spec = row_of(self.fleet.ticks, t).scale == codes.SCALE_BAD_VERSION
            return "spec" if is_spec else "internal"
        if decision.binding in _NO_ANSWER:
            return self._metrics_label(t)
        if decision.binding == codes.BOUND_BY_SCALE_WRITE:
            return "internal"
        if unwritten and row_of(self.statuses, t).written:
            return "internal"
        if decision.invalid_metrics and self.profile.partial_failure_returned:
            return self._metrics_label(t)
        return "none"

    def _metrics_label(self, t: int) -> str:
        failed = self._failed(t)
        code = self._said(failed[0][0], t)[0].code if failed else codes.METRIC_OK
        is_spec = code == codes.METRIC_UNKNOWN_TYPE and self.profile.unknown_type_is_spec_error
        return "spec" if is_spec else "internal"

    # ---- parts

    def _event(self, t: int, kind: str, reason: str, message: str) -> Event:
        now_ms = row_of(self.fleet.ticks, t).now_ms
        return Event(kind, reason, message, now_ms, now_ms)

    def metrics(self, t: int) -> list[tuple[int, MetricSpec]]:
        """Return (row of `fleet.metrics`, metric) of the spec in force at tick t."""
        number = row_of(self.fleet.ticks, t).spec
        first = row_of(self.fleet.specs, number).first_metric
        return list(enumerate(self.specs[number].metrics, first))

    def _said(self, m: int, t: int) -> tuple[Any, Any]:
        """Return the METRIC_DECISION and DETAIL of metric row m at tick t."""
        row = t + row_of(self.fleet.streams, row_of(self.fleet.metrics, m).stream).answer_offset
        return row_of(self.results.metrics, row), row_of(self.results.details, row)

    def _failed(self, t: int) -> list[tuple[int, MetricSpec]]:
        """Return the metrics that were computed at tick t and failed."""
        fine = (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED)
        return [(m, s) for m, s in self.metrics(t) if self._said(m, t)[0].code not in fine]

    def failed_condition(self, m: int) -> int:
        """Return the code of the condition of a failed metric row m."""
        return int(codes.INVALID_METRIC_SOURCE_TYPE + row_of(self.fleet.metrics, m).source)

    def failure(self, lane: LaneWords, m: int, t: int) -> messages.MetricFailure:
        """Return what upstream says of metric row m, which failed at tick t."""
        said, detail = self._said(m, t)
        number = row_of(self.fleet.ticks, t).spec
        metric = self.specs[number].metrics[m - row_of(self.fleet.specs, number).first_metric]
        return messages.metric_failure(
            metric,
            row_of(self.fleet.metrics, m).kind,
            said.code,
            self.texts[detail.text],
            lane.namespace,
            self.profile,
        )

    def _compute_error(self, lane: LaneWords, t: int) -> str:
        if row_of(self.results.decisions, t).binding == codes.BOUND_BY_SELECTOR:
            return self._printed(self._selector_event(t)[1])
        failed = self._failed(t)
        first = self.failure(lane, failed[0][0], t).error if failed else "%!v(<nil>)"
        return messages.invalid_metrics(len(failed), len(self.metrics(t)), first)

    def _selector_event(self, t: int) -> tuple[str, str]:
        """Return reason and message of the event of a selector that cannot be used.

        Of an HPA that is gone there is no event (no reason), but the same error.
        """
        tick = row_of(self.fleet.ticks, t)
        if tick.selector == codes.SELECTOR_MISSING:
            return messages.NO_SELECTOR_EVENT
        text = self.texts[tick.selector_text]
        if tick.selector == codes.SELECTOR_AMBIGUOUS:
            return "AmbiguousSelector", text
        if tick.selector == codes.SELECTOR_GONE:
            return "", text
        return "InvalidSelector", messages.invalid_selector(text)

    def _driving(self, t: int) -> str:
        """Return the name of the metric that gave the proposal of tick t."""
        number = row_of(self.results.decisions, t).metric
        m, metric = self.metrics(t)[number]
        kind = row_of(self.fleet.metrics, m).kind
        return metric_name(metric, kind, self.profile.container_metric_named)

    def _message(self, lane: LaneWords, code: int, t: int) -> str:
        """Return the message of a condition that tick t set."""
        decision, tick = row_of(self.results.decisions, t), row_of(self.fleet.ticks, t)
        detail = ""
        if code == codes.SUCCEEDED_RESCALE:
            detail = str(decision.desired)
        elif code in (codes.FAILED_GET_SCALE, codes.FAILED_UPDATE_SCALE):
            detail = self.texts[tick.scale_text]
        elif code == codes.VALID_METRIC_FOUND:
            detail = self._driving(t)
        elif code in (codes.INVALID_SELECTOR, codes.AMBIGUOUS_SELECTOR):
            detail = self._selector_event(t)[1]
            if tick.selector == codes.SELECTOR_MISSING:
                detail = messages.NO_SELECTOR_CONDITION
            return self._printed(detail)
        elif code >> 4 == codes.SCALING_ACTIVE and code != codes.SCALING_DISABLED:
            failed = self._failed(t)
            detail = self.failure(lane, failed[0][0], t).event if failed else ""
            return self._printed(messages.condition_message(code, detail))
        return messages.condition_message(code, detail)

    def _printed(self, text: str) -> str:
        """Return a text that old versions take for a format."""
        return messages.printed(text, self.profile)

    def _metric_status(self, metric: MetricSpec, m: int, t: int) -> MetricStatus:
        said, kind = self._said(m, t)[0], row_of(self.fleet.metrics, m).kind
        if said.code != codes.METRIC_OK:
            return MetricStatus()
        member = metric.resource or metric.container_resource
        is_memory = member is not None and member.name == "memory"
        binary = is_memory and self.profile.binary_memory
        if kind in _WITH_VALUE:
            current = MetricValueStatus(value=Quantity.from_milli(said.value_milli))
        else:
            current = MetricValueStatus(
                average_value=Quantity.from_milli(said.average_milli, binary=binary),
                average_utilization=said.utilization_pct
                if kind == codes.RESOURCE_UTILIZATION
                else None,
            )
        total = kind in (codes.OBJECT_AVERAGE, codes.EXTERNAL_AVERAGE)
        if total and not self.profile.status_round_trips:
            current = replace(current, value=Quantity.from_milli(0))
        identity = _identity(metric)
        if kind == codes.OBJECT_AVERAGE and not self.profile.object_average_described:
            identity = replace(identity, described_object=CrossVersionObjectReference())
        return replace(identity, current=current)


@cache
def _row_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)


def row_of(table: Records, at: int) -> Any:
    """Return a record as a tuple of plain numbers with names.

    numpy's own records take a microsecond for each attribute, and so do their arrays.
    """
    names = np.ndarray.dtype.__get__(table).names
    return _row_type(names)._make(np.ndarray.item(table, at))


def _identity(metric: MetricSpec) -> MetricStatus:
    """Return a metric's status without its value."""
    if metric.type == "ContainerResource" and metric.container_resource:
        own = metric.container_resource
        return MetricStatus(metric.type, name=own.name, container=own.container)
    if metric.type == "Resource" and metric.resource:
        return MetricStatus(metric.type, name=metric.resource.name)
    if metric.type == "Object" and metric.object:
        of = metric.object
        return MetricStatus(metric.type, metric=of.metric, described_object=of.described_object)
    member = metric.pods if metric.type == "Pods" else metric.external
    return MetricStatus(metric.type, metric=member.metric if member else None)
