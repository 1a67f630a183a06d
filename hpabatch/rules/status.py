"""An HPA's status after a tick: its changed parts and their times.

`rules.tick` decides and sets condition codes; here they get their times, and the parts of the
status that no decision reads (current metrics, last scale time) are followed. Sentences are made of
it elsewhere (`engine.explain.status`), for those ticks that somebody asks for.
Source: horizontal.go, setStatus, setCondition, updateStatusIfNeeded.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import rule
from hpabatch.layout.codes import (
    ABLE_TO_SCALE,
    AMBIGUOUS_SELECTOR,
    BOUND_BY_INVALID_METRIC,
    BOUND_BY_NO_SCALE,
    BOUND_BY_SCALE_READ,
    BOUND_BY_SCALE_WRITE,
    BOUND_BY_SELECTOR,
    BOUND_BY_ZERO,
    EXTERNAL_AVERAGE,
    FAILED_GET_SCALE,
    FAILED_UPDATE_SCALE,
    INVALID_SELECTOR,
    IS_SCALED_TO_ZERO,
    METRIC_CONTAINER_LACKS,
    METRIC_FETCH_FAILED,
    METRIC_NO_REQUEST,
    METRIC_NOT_COMPUTED,
    METRIC_OK,
    NO_CONDITION,
    OBJECT_AVERAGE,
    OTHER_TRUE,
    SCALE_DOWN_LIMIT,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_DISABLED,
    SELECTOR_GONE,
    SUCCEEDED_GET_SCALE,
    SUCCEEDED_RESCALE,
    TOO_FEW_REPLICAS,
    VALID_METRIC_FOUND,
)
from hpabatch.layout.records import (
    I64,
    Fleet,
    Record,
)
from hpabatch.layout.results import (
    NO_GENERATION,
    NO_METRICS,
    NO_TIME_MS,
    STATUS_CODES,
    STATUS_CURRENT,
    STATUS_DESIRED,
    STATUS_LAST_SCALE,
    STATUS_METRICS_TICK,
    STATUS_OBSERVED,
    STATUS_SETS,
    STATUS_SHOWN,
    STATUS_TIMES,
    STATUS_WORDS,
    Results,
    Statuses,
    StatusMemory,
)
from hpabatch.layout.switches import FAILURE_SHOWS_METRICS, GENERATION_OBSERVED, STATUS_ROUND_TRIPS

NO_ENTRY = -1
_TEXTS = 2**32  # a message's number: the words of its metric, then the text of an error


@rule
def is_true(code: int) -> bool:
    """Say whether a condition's status is True."""
    if code & 15 == OTHER_TRUE:
        return True
    if code >> 4 == ABLE_TO_SCALE:
        return SUCCEEDED_GET_SCALE <= code <= SUCCEEDED_RESCALE
    if code >> 4 == SCALED_TO_ZERO:
        return code == IS_SCALED_TO_ZERO
    return code == VALID_METRIC_FOUND or TOO_FEW_REPLICAS <= code <= SCALE_DOWN_LIMIT


@rule
def is_set_now(kind: int, decision: Record, tick: Record) -> bool:
    """Say whether a tick set the condition of a type, with the same words or others."""
    if kind == ABLE_TO_SCALE:
        return True
    if kind == SCALED_TO_ZERO:
        return bool(decision.rescaled != 0)
    by_metrics = decision.metric >= 0
    if kind == SCALING_ACTIVE:
        binding = decision.binding
        no_answer = binding == BOUND_BY_INVALID_METRIC
        no_answer = no_answer or (binding == BOUND_BY_SELECTOR and tick.selector != SELECTOR_GONE)
        return bool(by_metrics or no_answer or binding == BOUND_BY_ZERO)
    return bool(by_metrics)


@rule
def first_failed(fleet: Fleet, results: Results, spec: Record, t: int) -> int:
    """Return the row of the first metric of a spec that failed at tick t."""
    m = spec.first_metric
    while results.metrics[answer_row(fleet, m, t)].code == METRIC_OK:
        m += 1
    return int(m)


@rule
def answer_row(fleet: Fleet, m: int, t: int) -> int:
    """Return where the answer of metric row m at tick t is."""
    return int(t + fleet.streams[np.uint64(fleet.metrics[np.uint64(m)].stream)].answer_offset)


@rule
def names_text(why: int) -> bool:
    """Say whether the message of a failed metric holds the text that came with its answer.

    Others may have one too, of a pod whose request nobody came to ask for.
    """
    return why == METRIC_FETCH_FAILED or why == METRIC_CONTAINER_LACKS or why == METRIC_NO_REQUEST


@rule
def words_of(fleet: Fleet, results: Results, code: int, t: int) -> int:
    """Return a number for the message of a condition set at tick t: equal for equal messages."""
    tick, decision = fleet.ticks[np.uint64(t)], results.decisions[np.uint64(t)]
    if code == SUCCEEDED_RESCALE:
        return int(decision.desired)
    if code == FAILED_GET_SCALE or code == FAILED_UPDATE_SCALE:
        return int(tick.scale_text)
    if code == INVALID_SELECTOR or code == AMBIGUOUS_SELECTOR:
        return int(tick.selector_text)
    spec = fleet.specs[np.uint64(tick.spec)]
    if code == VALID_METRIC_FOUND:
        return int(fleet.metric_words[np.uint64(spec.first_metric + decision.metric), METRIC_OK])
    if code >> 4 == SCALING_ACTIVE and code != SCALING_DISABLED:
        m = first_failed(fleet, results, spec, t)
        row = answer_row(fleet, m, t)
        why = results.metrics[row].code
        said = fleet.metric_words[np.uint64(m), why] * _TEXTS
        return int(said + results.details[row].text) if names_text(why) else int(said)
    return 0


@rule
def note_condition(fleet: Fleet, results: Results, head: I64, k: int, code: int, t: int) -> bool:
    """Take over the condition of slot k from tick t; say whether it changed.

    A condition keeps its order, except that one that was before it may be gone.
    """
    old = k
    while old < 4 and head[STATUS_CODES + old] >> 4 != code >> 4:
        old += 1
    is_new = old == 4
    before, words = NO_CONDITION, 0
    if not is_new:
        before, words = head[STATUS_CODES + old], head[STATUS_WORDS + old]
        head[STATUS_TIMES + k] = head[STATUS_TIMES + old]
        head[STATUS_SETS + k] = head[STATUS_SETS + old]
        head[STATUS_WORDS + k] = words
    head[STATUS_CODES + k] = code
    if not is_set_now(code >> 4, results.decisions[np.uint64(t)], fleet.ticks[np.uint64(t)]):
        return False
    # A failed write comes after a successful read, so the status goes True and False again.
    turned = is_new or is_true(before) != is_true(code) or code == FAILED_UPDATE_SCALE
    if turned:
        head[STATUS_TIMES + k] = fleet.ticks[np.uint64(t)].now_ms
    head[STATUS_SETS + k] = t
    head[STATUS_WORDS + k] = words_of(fleet, results, code, t)
    return bool(turned or code != before or head[STATUS_WORDS + k] != words)


@rule
def note_conditions(fleet: Fleet, results: Results, head: I64, t: int) -> bool:
    """Take over the conditions of tick t; say whether any changed."""
    decision = results.decisions[np.uint64(t)]
    changed = False
    for k in range(4):
        code: int = decision.condition_0
        if k == 1:
            code = decision.condition_1
        elif k == 2:
            code = decision.condition_2
        elif k == 3:
            code = decision.condition_3
        if code != NO_CONDITION:
            changed |= note_condition(fleet, results, head, k, code, t)
        else:
            changed |= head[STATUS_CODES + k] != NO_CONDITION
            head[STATUS_CODES + k] = NO_CONDITION
    return bool(changed)


@rule
def show_metric(
    shown: Record, stream: int, kind: int, utilization: int, average: int, value: int
) -> bool:
    """Put an entry of `currentMetrics`; say whether another was there."""
    same = shown.stream == stream and shown.kind == kind and shown.utilization_pct == utilization
    same = same and shown.average_milli == average and shown.value_milli == value
    shown.stream, shown.kind, shown.utilization_pct = stream, kind, utilization
    shown.average_milli, shown.value_milli = average, value
    return bool(not same)


@rule
def note_metrics(
    fleet: Fleet, results: Results, memory: StatusMemory, head: I64, h: int, t: int
) -> bool:
    """Take over `currentMetrics` of tick t, null if none was computed; say whether it changed."""
    spec = fleet.specs[np.uint64(fleet.ticks[np.uint64(t)].spec)]
    switches = fleet.lanes[np.uint64(h)].switches
    binding = results.decisions[np.uint64(t)].binding
    failed = binding == BOUND_BY_INVALID_METRIC or binding == BOUND_BY_SELECTOR
    failed = failed or binding == BOUND_BY_SCALE_WRITE
    if failed and switches & FAILURE_SHOWS_METRICS == 0:
        return False
    first, count = spec.first_metric, spec.last_metric - spec.first_metric
    if count == 0 or results.metrics[answer_row(fleet, first, t)].code == METRIC_NOT_COMPUTED:
        had = head[STATUS_SHOWN] > 0
        head[STATUS_SHOWN], head[STATUS_METRICS_TICK] = 0, NO_METRICS
        return bool(had)
    changed = head[STATUS_SHOWN] != count
    for k in range(count):
        said = results.metrics[np.uint64(answer_row(fleet, first + k, t))]
        shown = memory.shown[np.uint64(fleet.lanes[np.uint64(h)].first_stream + k)]
        metric = fleet.metrics[np.uint64(first + k)]
        if said.code == METRIC_OK:
            averages = metric.kind == OBJECT_AVERAGE or metric.kind == EXTERNAL_AVERAGE
            changed |= averages and switches & STATUS_ROUND_TRIPS == 0
            changed |= show_metric(
                shown,
                metric.subject,
                metric.kind,
                said.utilization_pct,
                said.average_milli,
                said.value_milli,
            )
        else:
            changed |= show_metric(shown, NO_ENTRY, NO_ENTRY, 0, 0, 0)
    head[STATUS_SHOWN], head[STATUS_METRICS_TICK] = count, t
    return bool(changed)


@rule
def note_generation(fleet: Fleet, memory: StatusMemory, head: I64, h: int, t: int) -> bool:
    """Take over the generation of the spec of tick t; say whether it is another.

    Without the feature the status has none, and loses the one that it had.
    """
    before, observed = head[STATUS_OBSERVED], NO_GENERATION
    if fleet.lanes[np.uint64(h)].switches & GENERATION_OBSERVED != 0:
        observed = fleet.ticks[np.uint64(t)].spec
    head[STATUS_OBSERVED] = observed
    if before < 0 or observed < 0:
        return bool(before != observed)
    generations = memory.generations
    return bool(generations[np.uint64(before)] != generations[np.uint64(observed)])


@rule
def write_status(head: I64, written: bool, out: Record) -> None:
    """Write one tick's STATUS record."""
    out.transition_0_ms, out.set_0 = head[STATUS_TIMES], head[STATUS_SETS]
    out.transition_1_ms, out.set_1 = head[STATUS_TIMES + 1], head[STATUS_SETS + 1]
    out.transition_2_ms, out.set_2 = head[STATUS_TIMES + 2], head[STATUS_SETS + 2]
    out.transition_3_ms, out.set_3 = head[STATUS_TIMES + 3], head[STATUS_SETS + 3]
    out.last_scale_ms = head[STATUS_LAST_SCALE]
    out.metrics_tick = head[STATUS_METRICS_TICK]
    out.observed = head[STATUS_OBSERVED]
    out.written = 1 if written else 0


@rule
def clear_status(head: I64) -> None:
    """Begin with no status: the HPA is another object, of the same name."""
    head[STATUS_CURRENT] = head[STATUS_DESIRED] = head[STATUS_SHOWN] = 0
    head[STATUS_LAST_SCALE], head[STATUS_METRICS_TICK] = NO_TIME_MS, NO_METRICS
    head[STATUS_OBSERVED] = NO_GENERATION
    for k in range(4):
        head[STATUS_CODES + k] = NO_CONDITION


@rule
def note_status(
    fleet: Fleet, results: Results, memory: StatusMemory, h: int, t: int, out: Statuses
) -> None:
    """Write the STATUS of lane h after tick t, whose decision is made, and remember it."""
    head, decision = memory.head[np.uint64(h)], results.decisions[np.uint64(t)]
    if fleet.ticks[np.uint64(t)].recreated != 0:
        clear_status(head)
    changed = False
    if decision.binding != BOUND_BY_NO_SCALE:
        changed = note_conditions(fleet, results, head, t)
        if decision.binding != BOUND_BY_SCALE_READ:
            changed |= note_metrics(fleet, results, memory, head, h, t)
            changed |= note_generation(fleet, memory, head, h, t)
    changed |= head[STATUS_CURRENT] != decision.current
    changed |= head[STATUS_DESIRED] != decision.desired
    if decision.rescaled != 0:
        head[STATUS_LAST_SCALE] = fleet.ticks[np.uint64(t)].now_ms
        changed = True
    head[STATUS_CURRENT], head[STATUS_DESIRED] = decision.current, decision.desired
    write_status(head, changed, out[np.uint64(t)])
