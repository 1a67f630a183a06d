"""All metrics of one HPA in one tick, and how their proposals combine.

Source: horizontal.go, computeReplicasForMetrics and computeReplicasForMetric; the order of the
checks per metric is that of the calculator's functions and of metrics/client.go.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpabatch._jit import rare, rule
from hpabatch.layout.codes import (
    EXTERNAL_AVERAGE,
    EXTERNAL_VALUE,
    INVALID_METRIC_SOURCE_TYPE,
    METRIC_NO_PODS,
    METRIC_OK,
    METRIC_UNUSABLE,
    NO_CONDITION,
    OBJECT_VALUE,
    PODS_AVERAGE,
    RESOURCE_AVERAGE,
    RESOURCE_UTILIZATION,
    STEP_NONE,
)
from hpabatch.layout.records import Fleet, Record
from hpabatch.layout.results import MetricDecisions, Results
from hpabatch.layout.switches import (
    AVERAGES_CLAMPED,
    COMBINE_MEAN,
    COMBINE_MIN,
    MISSING_CHARGED_BY_TARGET,
    PARTIAL_FAILURE_GUARD,
    TOLERANCE_BY_BOUNDS,
    TOTALS_CLAMPED,
)
from hpabatch.rules.controller import Controller, has_switch
from hpabatch.rules.numbers import div64
from hpabatch.rules.replicas import (
    Proposal,
    Tolerance,
    failed_metric,
    propose_by_pod_average,
    propose_by_total_average,
    propose_by_utilization,
    propose_by_value,
    sum_for_average,
    sum_for_value,
)
from hpabatch.rules.statistics import PodStatistics, count_pods, statistics_of


class Combined(NamedTuple):
    """The metrics' answer: the largest valid proposal and the metric that gave it.

    `usable` is False when nothing may be done; `condition` is the ScalingActive condition of the
    first failed metric, NO_CONDITION if none failed; `metric` the position of the winner or -1.
    """

    usable: bool
    replicas: int
    metric: int
    step: int
    invalid: int
    condition: int


@rule
def propose_from_pods(
    fleet: Fleet,
    controller: Controller,
    t: int,
    m: int,
    row: int,
    current: int,
    tolerance: Tolerance,
    results: Results,
) -> Proposal:
    """Return the proposal of a Resource, ContainerResource or Pods metric at tick t."""
    metric = fleet.metrics[np.uint64(m)]
    by_utilization = metric.kind == RESOURCE_UTILIZATION
    charged_pct = metric.target_pct
    if not has_switch(controller, MISSING_CHARGED_BY_TARGET):
        charged_pct = 100
    pods = statistics_of(
        fleet, t, metric.stream, metric.is_cpu != 0, charged_pct, controller, results.statistics
    )
    if results.details.size > 0:
        write_groups(fleet, t, metric.stream, pods, results.details[np.uint64(row)])
    if pods.ready + pods.unready + pods.missing + pods.ignored == 0:
        return failed_metric(METRIC_NO_PODS)
    if by_utilization:
        return propose_by_utilization(
            pods, metric.target_pct, current, tolerance, controller.switches
        )
    return propose_by_pod_average(
        pods, metric.target_milli, current, tolerance, controller.switches
    )


@rule
def propose_from_total(
    fleet: Fleet,
    controller: Controller,
    t: int,
    m: int,
    row: int,
    current: int,
    tolerance: Tolerance,
) -> Proposal:
    """Return the proposal of an Object or External metric at tick t; `row` is its answer."""
    metric, answer = fleet.metrics[np.uint64(m)], fleet.answers[np.uint64(row)]
    kind, target = metric.kind, metric.target_milli
    values, usage = fleet.values_milli, fleet.values_milli[answer.first_value]
    first, last = answer.first_value, answer.last_value
    if kind == OBJECT_VALUE or kind == EXTERNAL_VALUE:
        clamped = has_switch(controller, TOTALS_CLAMPED)
        if kind == EXTERNAL_VALUE:
            usage = sum_for_value(values, first, last, clamped)
        known, ready = count_pods(fleet, t)
        return propose_by_value(usage, target, current, known, ready, tolerance, clamped)
    external = kind == EXTERNAL_AVERAGE
    if external:
        usage = sum_for_average(values, first, last, has_switch(controller, AVERAGES_CLAMPED))
    replicas = fleet.ticks[t].status_replicas
    return propose_by_total_average(
        usage, target, replicas, external, tolerance, controller.switches
    )


@rule
def clear_detail(detail: Record) -> None:
    """Write a detail of a metric that no pod belongs to."""
    detail.ready = detail.unready = detail.missing = detail.ignored = detail.stray = 0
    detail.text = 0


@rare
def write_groups(fleet: Fleet, t: int, stream: int, pods: PodStatistics, detail: Record) -> None:
    """Write how many pods are in each group, and which pod's request is not known."""
    detail.ready, detail.unready = pods.ready, pods.unready
    detail.missing, detail.ignored = pods.missing, pods.ignored
    detail.stray = pods.stray
    if pods.without_request > 0:
        detail.text = first_request_text(fleet, t, stream)


@rule
def first_request_text(fleet: Fleet, t: int, stream: int) -> int:
    """Return the text of the first pod, in the order of the rows, whose request is not known.

    There is one: the caller has counted them.
    """
    offset, row = fleet.streams[stream].request_offset, fleet.ticks[t].first_row
    while fleet.row_state[row] < 0 or fleet.requests[fleet.row_state[row] + offset].known != 0:
        row += 1
    return int(fleet.requests[fleet.row_state[row] + offset].milli)


@rule
def propose(
    fleet: Fleet,
    controller: Controller,
    t: int,
    m: int,
    current: int,
    tolerance: Tolerance,
    results: Results,
) -> Proposal:
    """Return one metric's proposal at tick t, whatever its kind; not clamped, not stabilized.

    What it was made of goes to the results' details, where there are any.
    """
    details = results.details
    metric = fleet.metrics[np.uint64(m)]
    kind = metric.kind
    row = t + fleet.streams[np.uint64(metric.stream)].answer_offset
    if details.size > 0:
        clear_detail(details[np.uint64(row)])
    if kind == METRIC_UNUSABLE:
        return failed_metric(metric.error)
    answer = fleet.answers[np.uint64(row)]
    if answer.code != METRIC_OK:
        if details.size > 0:
            details[np.uint64(row)].text = answer.text
        return failed_metric(answer.code)
    if kind == RESOURCE_UTILIZATION or kind == RESOURCE_AVERAGE or kind == PODS_AVERAGE:
        return propose_from_pods(fleet, controller, t, m, row, current, tolerance, results)
    return propose_from_total(fleet, controller, t, m, row, current, tolerance)


@rule
def write_proposal(out: MetricDecisions, row: int, proposal: Proposal) -> None:
    """Write what one metric said to its answer row of METRIC_DECISION records."""
    record = out[np.uint64(row)]
    record.code = proposal.code
    record.step = proposal.step
    record.proposal = proposal.replicas
    record.ratio = proposal.ratio
    record.utilization_pct = proposal.utilization_pct
    record.average_milli = proposal.average_milli
    record.value_milli = proposal.value_milli


@rule
def tolerance_of(controller: Controller, spec: Record) -> Tolerance:
    """Return the tolerances of a spec, and how this version tests them."""
    by_bounds = has_switch(controller, TOLERANCE_BY_BOUNDS)
    return Tolerance(spec.down_tolerance, spec.up_tolerance, by_bounds)


@rule
def is_preferred(controller: Controller, replicas: int, best: int, winner: int) -> bool:
    """Say whether a valid proposal takes the place of the best one so far.

    The larger one does, and 0 gives way to whatever comes next; in a what-if the smaller one.
    """
    if has_switch(controller, COMBINE_MIN):
        return winner < 0 or replicas < best
    return best == 0 or replicas > best


@rule
def combine_metrics(
    fleet: Fleet, controller: Controller, spec: Record, t: int, current: int, results: Results
) -> Combined:
    """Return the metrics' combined answer at tick t; each metric's own goes to `results`.

    The largest valid proposal wins and ties keep the earlier metric, except that 0 gives way to
    whatever comes next. With a failed metric nothing may shrink (old versions: it may). In a
    what-if that no version has, the smallest wins, or the mean of the valid ones, rounded up.
    """
    first, last = spec.first_metric, spec.last_metric
    tolerance = tolerance_of(controller, spec)
    best, winner, step, total = 0, -1, STEP_NONE, 0
    invalid, condition = 0, NO_CONDITION
    for m in range(first, last):
        metric = fleet.metrics[np.uint64(m)]
        stream = fleet.streams[np.uint64(metric.stream)]
        proposal = propose(fleet, controller, t, m, current, tolerance, results)
        write_proposal(results.metrics, t + stream.answer_offset, proposal)
        if proposal.code != METRIC_OK:
            if invalid == 0:
                condition = INVALID_METRIC_SOURCE_TYPE + metric.source
            invalid += 1
            continue
        total += proposal.replicas
        if is_preferred(controller, proposal.replicas, best, winner):
            best, winner, step = proposal.replicas, m - first, proposal.step
    valid = last - first - invalid
    if valid > 1 and has_switch(controller, COMBINE_MEAN):
        best = div64(max(total, 0) + valid - 1, valid)  # (a negative proposal counts as none)
    shrinks = invalid > 0 and best < current and has_switch(controller, PARTIAL_FAILURE_GUARD)
    usable = valid > 0 and not shrinks
    return Combined(usable, best, winner, step, invalid, condition)
