"""Plant score of one HPA: its plant, fitted on a first part, against the recording after it.

It is judged on changes of the pods. A change lies between two neighboring settled cells of a
signal's series. A cell is settled if no pod became ready, or ceased to be, in its samples' window
or shortly before it. Steps of a scale-up that follow each other closely are one change. The
measures are the mean usage over the settled cells just before the change, and over those of the
minutes after it, as long as the pods stay.

Predictions use what was known before a change. The demand after it is not used: in the recorded run
the number of pods cancels out (work × pods / pods), so any plant would be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.columns.column import KEY
from hpabatch.engine.columns.fidelity import CHANGES, SIGNALS
from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fit.measured import Measured, measure
from hpabatch.engine.fit.overrides import signal_statement
from hpabatch.engine.fit.run import Fit
from hpabatch.engine.fit.signals import censored_at
from hpabatch.engine.fit.stats import CONFIDENCE, F64, Mask, seed_of
from hpabatch.engine.fit.usage import SETTLE_MS, Lives, Usage, cells_of, spacing_ms, window_ms
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.inputs.plants import PlantOverride
from hpabatch.layout.records import I64
from hpabatch.model.plant import AGE, BACKLOG, DIVISIBLE, PER_POD, TOTAL, Signal, signal_name

RESAMPLES: Final = 2000
_AT_ONCE: Final = 1 << 20  # numbers


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill, 1 - error / error of persistence, and its interval; None where it is undefined.

    Errors are mean absolute ones, relative to what was observed.
    """

    skill: float | None
    low: float | None
    high: float | None
    error: float
    persistence_error: float


def skill_of(error: F64, persistence: F64, name: str) -> Skill:
    """Return the skill of at least one prediction, and its bootstrap interval.

    1 is perfect, 0 no better than persistence, negative worse; None where persistence makes no
    error. The interval is the 95 % between the quantiles of RESAMPLES samples of changes, drawn
    with replacement (Efron 1979) from a generator that `name` seeds, so that no HPA's interval
    depends on another's.

    Args:
        error: absolute relative error of each prediction, shape (n,).
        persistence: that of persistence, shape (n,).
        name: of what is judged.
    """
    own, other = float(error.mean()), float(persistence.mean())
    if other == 0:
        return Skill(None, None, None, own, other)
    drawn = _resampled(error, persistence, name)
    low, high = (float(np.quantile(drawn, q)) for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Skill(1 - own / other, low, high, own, other)


def _resampled(error: F64, persistence: F64, name: str) -> F64:
    """Return the skills of samples of the changes; those without an error to beat are left out."""
    generator = np.random.Generator(np.random.PCG64(seed_of(name)))
    n = error.size
    found = []
    rows = max(_AT_ONCE // n, 1)
    for first in range(0, RESAMPLES, rows):
        chosen = generator.integers(n, size=(min(rows, RESAMPLES - first), n))
        own, other = error[chosen].sum(axis=1), persistence[chosen].sum(axis=1)
        found.append(1 - own[other > 0] / other[other > 0])
    return np.concatenate(found)


SIZE, ROLLOUT, REPLACED, SPEC = range(4)
KINDS: Final = {
    "size": "the number of ready pods changed",
    "rollout": "as many pods are ready, all of them others",
    "replaced": "as many pods are ready, some of them others or restarted",
    "spec": "the HPA's spec or the pods' requests changed, and no pod",
}

USED, FAR, MOVED, END, GAP, SATURATED, IDLE = range(7)
LEFT_OUT: Final = {
    "far": "settled samples before and after are too far apart",
    "moved": "the pods changed again in the minutes after",
    "end": "the history ends in the minutes after",
    "gap": "too few samples in the minutes after",
    "saturated": "usage was at the ceiling before or after, so what the work was is not known",
    "idle": "nothing was used before or after",
}
"""Reasons to leave a change out, in order: the first that holds counts. Codes begin with 1."""


LONGEST_SPACINGS: Final = 3
"""Coarse samples may be so many of their own spacings apart around a change."""


class Transitions(NamedTuple):
    """Changes between settled cells, shape (n,).

    `before` and `after` are the cells. In between, things changed from `first_ms` to `last_ms`;
    the pods had changed at `prior_ms` before and do again at `next_ms`. `kind` as in KINDS.
    """

    before: I64
    after: I64
    first_ms: I64
    last_ms: I64
    prior_ms: I64
    next_ms: I64
    kind: I64


class Changes(NamedTuple):
    """Judged changes, shape (n,).

    `at_ms` is when the last pod changed; `pods_before`, `pods_after` the ready pods. `level_milli`
    is the mean usage before (of a total the newest value), `observed_milli` the one after over
    `samples` cells. `from_cell` to `before` are the cells before, `after` to `to_cell` those after,
    both ends included. `left_out` is USED or one of the codes after it.
    """

    at_ms: I64
    kind: I64
    pods_before: I64
    pods_after: I64
    level_milli: F64
    observed_milli: F64
    samples: I64
    from_cell: I64
    before: I64
    after: I64
    to_cell: I64
    left_out: I64


def judged_changes(
    m: Measured, censored: Mask, from_ms: int, parameters: FidelityParameters
) -> Changes:
    """Return the changes from an instant on, used ones and those left out, in order of time.

    Args:
        m: the signal over the whole history.
        censored: cells in which usage was at the ceiling, shape (cells,).
        from_ms: where the part that is judged begins.
        parameters: lengths of the windows.
    """
    moves = transitions_of(m, spec_changes_ms(m))
    moves = Transitions(*(values[moves.first_ms >= from_ms] for values in moves))
    cells, usage = m.cells, m.series.usage
    known = settled_cells(m)
    middle = m.cells.middles_ms
    level = cells.per(parameters.level_ms)
    longest_ms = max(parameters.longest_ms, LONGEST_SPACINGS * spacing_ms(m.signal))
    from_cell = np.maximum(
        moves.before - level + 1, np.searchsorted(middle, moves.prior_ms, side="right")
    )
    horizon_ms = moves.last_ms + parameters.horizon_ms
    # The last cell whose samples' windows end within the minutes after.
    to_cell = np.searchsorted(middle, horizon_ms - window_ms(m.signal) / 2, side="right") - 1
    samples = _sums(known, moves.after, to_cell).astype(np.int64)
    values = np.where(known, usage, 0.0)
    before = _sums(values, from_cell, moves.before)
    before = before / np.maximum(_sums(known, from_cell, moves.before), 1)
    if m.signal.is_total:
        before = usage[moves.before]
    observed = _sums(values, moves.after, to_cell) / np.maximum(samples, 1)
    at_ceiling = _sums(censored, from_cell, moves.before) + _sums(censored, moves.after, to_cell)
    tests = (
        middle[moves.after] - middle[moves.before] > longest_ms,
        moves.next_ms <= horizon_ms,
        horizon_ms > cells.start_ms + cells.count * cells.resolution_ms,
        2 * samples < max(expected_samples(m, parameters.horizon_ms), 1),
        at_ceiling > 0,
        # An error has nothing to be relative to.
        (observed <= 0) & ((before <= 0) | (not m.signal.is_total)),
    )
    return Changes(
        at_ms=moves.last_ms,
        kind=moves.kind,
        pods_before=np.rint(m.series.ready[moves.before]).astype(np.int64),
        pods_after=np.rint(m.series.ready[moves.after]).astype(np.int64),
        level_milli=before,
        observed_milli=observed,
        samples=samples,
        from_cell=from_cell,
        before=moves.before,
        after=moves.after,
        to_cell=to_cell,
        left_out=np.select(tests, range(1, len(tests) + 1), USED).astype(np.int64),
    )


def settled_cells(m: Measured) -> Mask:
    """Return the cells whose samples are of settled pods only, shape (cells,)."""
    return np.asarray(m.series.still & (m.series.ready > 0.5) & np.isfinite(m.series.usage))


def expected_samples(m: Measured, horizon_ms: int) -> int:
    """Return how many settled samples the minutes after a change are sure to have, without gaps."""
    step = max(spacing_ms(m.signal), m.cells.resolution_ms)
    return (horizon_ms - SETTLE_MS - window_ms(m.signal)) // step


def transitions_of(m: Measured, spec_ms: I64) -> Transitions:
    """Return what changed between neighboring settled cells; `spec_ms` are changes of no pod."""
    settled = np.flatnonzero(settled_cells(m))
    before, after = settled[:-1], settled[1:]
    middle = m.cells.middles_ms
    steps = m.usage.lives.step_ms
    low, high = (np.searchsorted(steps, middle[c], side="right") for c in (before, after))
    said, until = (np.searchsorted(spec_ms, middle[c], side="right") for c in (before, after))
    kept = np.flatnonzero((high > low) | (until > said))
    before, after, low, high = before[kept], after[kept], low[kept], high[kept]
    moved = high > low
    # Guards, so that the side that is not chosen can be looked up.
    first = np.append(steps, NEVER_MS)
    told = np.append(spec_ms, NEVER_MS)
    ready = np.rint(m.series.ready)
    kind = np.where(ready[before] != ready[after], SIZE, np.where(moved, REPLACED, SPEC))
    for k in np.flatnonzero(kind == REPLACED).tolist():
        at_ms = middle[[before[k], after[k]]].tolist()
        there, now = (ready_pods(m.usage.lives, ms) for ms in at_ms)
        if not (there & now).any():
            kind[k] = ROLLOUT
    return Transitions(
        before=before,
        after=after,
        first_ms=np.where(moved, first[low], told[said[kept]]),
        last_ms=np.where(moved, first[high - 1], told[until[kept] - 1]),
        prior_ms=np.append(ALWAYS_MS, steps)[low],
        next_ms=first[high],
        kind=kind.astype(np.int64),
    )


def ready_pods(lives: Lives, at_ms: int) -> Mask:
    """Return which pods were ready at an instant, shape (P,)."""
    ended = np.minimum(lives.deleted_ms, lives.gone_ms)
    ready = (lives.ready_ms <= at_ms) & (at_ms < ended)
    lost = (lives.lost_ms <= at_ms) & (at_ms < lives.again_ms)
    ready[lives.lost_pod[lost]] = False
    return np.asarray(ready)


def spec_changes_ms(m: Measured) -> I64:
    """Return when the HPA's spec or the request per pod changed, ascending."""
    now_ms, period = m.usage.now_ms, m.usage.period
    edited = np.flatnonzero((period[1:] != period[:-1]) & (period[1:] >= 0) & (period[:-1] >= 0))
    found = now_ms[edited + 1]
    requested = np.flatnonzero(m.signal.requested > 0)
    each = m.signal.request_milli[requested] / m.signal.requested[requested]
    resized = requested[1:][each[1:] != each[:-1]]
    return np.unique(np.concatenate([found, now_ms[m.signal.tick[resized]]]))


def _sums(values: F64 | Mask, first: I64, last: I64) -> F64:
    """Return sums over cells from `first` to `last`, both included; 0 where that is none."""
    total = np.append(0.0, np.cumsum(values, dtype=np.float64))
    last = np.minimum(last + 1, values.size)
    return np.where(last > first, total[last] - total[np.minimum(first, last)], 0.0)


_HOUR_MS = 3_600_000


def tells_apart(signal: Signal, changes: Changes) -> Mask:
    """Return which changes tell a plant from persistence: on the others both agree by definition.

    Work is shared among other pods only if their number changes; memory also if younger ones come;
    no change tests a signal that does not depend on the pods.
    """
    if signal.kind in (DIVISIBLE, BACKLOG):
        return np.asarray(changes.kind == SIZE)
    if signal.kind == AGE:
        return np.asarray(changes.kind != SPEC)
    return np.zeros(changes.kind.size, bool)


def predicted_milli(m: Measured, signal: Signal, changes: Changes) -> F64:
    """Return the usage per pod (of a total: the value) after each change, milli, shape (n,).

    Divisible: base + (level - base) × pods before / pods after. Per pod and total: the level. Age:
    base + growth × age, the mean over the pods there, each up to the ceiling. Backlog: the queue,
    as arrivals of the time before and the pods there let it grow or shrink. Up to the ceiling.
    """
    level = changes.level_milli
    if signal.kind == DIVISIBLE:
        work = np.maximum(level - signal.base_milli, 0.0) * changes.pods_before
        found = signal.base_milli + work / np.maximum(changes.pods_after, 1)
    elif signal.kind == AGE:
        found = _grown_milli(m, signal, changes)
    elif signal.kind == BACKLOG:
        found = _queues(m, signal, changes)
    else:
        found = level
    return found if signal.ceiling_milli is None else np.minimum(found, signal.ceiling_milli)


def with_known_arrivals(m: Measured, signal: Signal, changes: Changes) -> Changes:
    """Return changes without those of a backlog that was empty before: arrivals are not known."""
    if signal.kind != BACKLOG:
        return changes
    empty = np.append(0, np.cumsum(m.series.usage <= 0))
    seen = empty[changes.before + 1] - empty[changes.from_cell] > 0
    left_out = np.where((changes.left_out == USED) & seen, IDLE, changes.left_out)
    return changes._replace(left_out=left_out)


def _grown_milli(m: Measured, signal: Signal, changes: Changes) -> F64:
    """Return the mean usage of the ready pods in the middle of the samples after each change."""
    most = np.inf if signal.ceiling_milli is None else signal.ceiling_milli
    lives, cells = m.usage.lives, m.cells
    found = np.full(changes.at_ms.size, np.nan)
    for k in np.flatnonzero(changes.left_out == USED).tolist():
        both = int(changes.after[k] + changes.to_cell[k] + 1)
        at_ms = cells.start_ms + both * cells.resolution_ms // 2
        there = ready_pods(lives, at_ms) & (lives.started_ms < NEVER_MS)
        if there.any():
            age_h = (at_ms - lives.started_ms[there]) / _HOUR_MS
            grown = signal.base_milli + signal.growth_milli_per_hour * age_h
            found[k] = float(np.mean(np.minimum(grown, most)))
    return found


def _queues(m: Measured, signal: Signal, changes: Changes) -> F64:
    """Return the mean queue over the samples after each change."""
    queue, step_s = m.series.usage, m.cells.resolution_ms / 1000
    # What the pods could do between the middle of a cell and that of the one before it.
    pods_s = np.diff(m.usage.lives.ready_ms_until(m.cells.middles_ms), prepend=0) / 1000
    known = settled_cells(m)
    settled = np.flatnonzero(known)
    begin = settled[np.searchsorted(settled, changes.from_cell)]
    found = np.full(changes.at_ms.size, np.nan)
    for k in np.flatnonzero(changes.left_out == USED).tolist():
        first, last = int(begin[k]), int(changes.before[k])
        grown = (queue[last] - queue[first]) / max((last - first) * step_s, step_s)
        arriving = max(grown + float(changes.pods_before[k]) * signal.rate_milli, 0.0) * step_s
        total, count, now = 0.0, 0, float(queue[last])
        for cell in range(last + 1, int(changes.to_cell[k]) + 1):
            now = max(now + arriving - float(pods_s[cell]) * signal.rate_milli, 0.0)
            if cell >= changes.after[k] and known[cell]:
                total, count = total + now, count + 1
        found[k] = total / count if count else np.nan
    return found


_TIME: Final = pl.Datetime("ms", "UTC")

SIGNAL_COLUMNS: Final[dict[str, Any]] = {
    c.name: SIGNALS.schema[c.name] for c in SIGNALS if c not in KEY
}
"""Columns of a signal's score. `same` are changes on which plant and persistence agree."""

CHANGE_COLUMNS: Final[dict[str, Any]] = {
    c.name: CHANGES.schema[c.name] for c in CHANGES if c not in KEY
}
"""Columns of the judged changes; `counts`: of those in the skill; errors are signed shares."""


class PlantScore(NamedTuple):
    """One row per signal of an HPA (SIGNAL_COLUMNS), one per judged change (CHANGE_COLUMNS)."""

    signals: pl.DataFrame
    changes: pl.DataFrame


def score_plant(
    usage: Usage,
    fitted: Fit,
    entries: Sequence[PlantOverride],
    split_ms: int,
    parameters: FidelityParameters,
) -> PlantScore:
    """Return how well a plant predicts usage after the changes from an instant on.

    Args:
        usage: what was observed over the whole history.
        fitted: the fit of what was observed before `split_ms`.
        entries: what is stated of this HPA, as for the fit.
        split_ms: where the part that is judged begins.
        parameters: the choices of the score.
    """
    if fitted.workload is None:
        reason = fitted.problems[0]
        if fitted.fact("resolution") is None:
            when = _time_text(split_ms)
            reason = f"nothing was sampled before {when}, so there is nothing to fit a plant on"
        names = dict.fromkeys([*map(signal_name, usage.candidate.spec.metrics), *usage.signals])
        without = [{"signal": name, "unscored": reason, "split": split_ms} for name in names]
        return PlantScore(_signal_frame(without), pl.DataFrame(schema=CHANGE_COLUMNS))
    cells = cells_of(usage)
    assert cells is not None  # its first part was fitted
    # The kinds that the first part has shown are judged, not those of the whole.
    statements = {
        name: replace(signal_statement(entries, name), kind=s.kind, rate_milli=s.rate_milli or None)
        for name, s in fitted.workload.plant.signals.items()
    }
    measured, _, _ = measure(usage, cells, statements)
    key = usage.candidate.key
    rows, changes = [], []
    for name, signal in fitted.workload.plant.signals.items():
        judged = _Judged(measured[name], signal, fitted, split_ms, parameters)
        rows.append(judged.row("\0".join((*key, name))))
        changes.append(judged.frame())
    empty = pl.DataFrame(schema=CHANGE_COLUMNS)
    return PlantScore(_signal_frame(rows), pl.concat([empty, *changes]))


def _signal_frame(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Return rows as a frame; what a row does not have is null."""
    whole = [{name: row.get(name) for name in SIGNAL_COLUMNS} for row in rows]
    schema = {**SIGNAL_COLUMNS, "split": pl.Int64}  # a time is given in ms
    return pl.DataFrame(whole, schema=schema, orient="row").cast({"split": _TIME})


class _Judged:
    """One signal, its changes after the split and what the plant predicted of them."""

    def __init__(
        self,
        m: Measured,
        signal: Signal,
        fitted: Fit,
        split_ms: int,
        parameters: FidelityParameters,
    ) -> None:
        self.m, self.signal, self.parameters, self.split_ms = m, signal, parameters, split_ms
        self.base = fitted.fact(f"signals.{m.name}.base")
        censored = censored_at(m, signal.ceiling_milli)
        if m.kind == AGE:
            censored = np.zeros(m.cells.count, bool)
        later = m.cells.starts_ms >= split_ms
        self.saturated = float(censored[later].mean()) if later.any() else 0.0
        changes = judged_changes(m, censored, split_ms, parameters)
        self.changes: Changes = with_known_arrivals(m, signal, changes)
        self.counts = tells_apart(signal, self.changes)
        self.predicted = predicted_milli(m, signal, self.changes)
        self.used = (self.changes.left_out == USED) & np.isfinite(self.predicted)
        self.error, self.persistence = (
            self._relative(v) for v in (self.predicted, self.changes.level_milli)
        )

    def _relative(self, predicted: F64) -> F64:
        """Return signed errors relative to what was observed, NaN for changes that are left out.

        A queue may become empty: its errors are relative to the larger of before and after.
        """
        observed, level = self.changes.observed_milli, self.changes.level_milli
        scale = np.maximum(observed, level) if self.m.signal.is_total else observed
        found = np.full(observed.size, np.nan)
        return np.asarray(np.divide(predicted - observed, scale, out=found, where=self.used))

    def row(self, name: str) -> dict[str, object]:
        """Return the signal's score; `name` seeds its interval."""
        changes, counts = self.changes, self.counts
        chosen, same = self.used & counts, self.used & ~counts
        reason, ceiling_milli = self._unscored(counts, chosen), self.signal.ceiling_milli
        row: dict[str, object] = {
            "signal": self.m.name,
            "kind": self.m.kind,
            "base": self.signal.base_milli / 1000 if self.base is not None else None,
            "base_source": self.base.source if self.base is not None else None,
            "ceiling": None if ceiling_milli is None else ceiling_milli / 1000,
            "split": self.split_ms,
            "changes": int(counts.sum()),
            "used": int(chosen.sum()),
            "same": int((~counts).sum()),
            "same_used": int(same.sum()),
            "saturated_share": self.saturated,
            **{f"{n}_changes": int((changes.kind == k).sum()) for k, n in enumerate(KINDS)},
        }
        for code, word in enumerate(LEFT_OUT, 1):
            row[f"left_out_{word}"] = int((counts & (changes.left_out == code)).sum())
        if chosen.any():
            row |= {"median_error_pct": _median(self.error[chosen]),
                    "bias_pct": 100 * float(self.error[chosen].mean())}  # fmt: skip
            found = skill_of(np.abs(self.error[chosen]), np.abs(self.persistence[chosen]), name)
            row |= {"mean_error_pct": 100 * found.error,
                    "persistence_error_pct": 100 * found.persistence_error}  # fmt: skip
            if not reason and found.skill is None:
                reason = "usage after every change was exactly what it had been before"
            elif not reason:
                row |= {"skill": found.skill, "skill_low": found.low, "skill_high": found.high}
        if same.any():
            row |= {"same_median_error_pct": _median(self.error[same]),
                    "same_bias_pct": 100 * float(self.error[same].mean())}  # fmt: skip
        return row | {"unscored": reason or None}

    def _unscored(self, counts: Mask, chosen: Mask) -> str:
        kind, least = self.m.kind, self.parameters.fewest_changes
        found, used = int(counts.sum()), int(chosen.sum())
        if kind == TOTAL:
            return "a total: it does not hang on the pods, so no change can test it"
        if kind == PER_POD:
            return "per pod: as persistence it predicts no change, whatever the truth"
        if used >= least:
            return ""
        if found == 0:
            earlier = transitions_of(self.m, spec_changes_ms(self.m)).first_ms.size
            after = f" after {_time_text(self.split_ms)}" if earlier else ""
            return f"the number of ready pods never changed{after}"
        too_short = self._too_short()
        if too_short:
            return too_short
        some = f"only {used}" if used else "none"
        codes = self.changes.left_out[self.counts]
        parts = [(int((codes == k).sum()), text) for k, text in enumerate(LEFT_OUT.values(), 1)]
        told = "; ".join(f"{count}: {text}" for count, text in parts if count)
        return (
            f"{some} of {found} change{'s' * (found > 1)} after {_time_text(self.split_ms)} can be "
            f"used, at least {least} are needed" + (f" ({told})" if told else "")
        )

    def _too_short(self) -> str:
        """Return what to do where no sample can fall into the minutes after a change."""
        horizon_ms = self.parameters.horizon_ms
        if expected_samples(self.m, horizon_ms) >= 1:
            return ""
        step = max(spacing_ms(self.m.signal), self.m.cells.resolution_ms)
        least = -(-(step + SETTLE_MS + window_ms(self.m.signal)) // 60_000)
        return (
            f"samples are {step / 1000:g} s apart, too far for the {horizon_ms / 60_000:g} minutes "
            f"after a change: judge at least --horizon {least}m"
        )

    def frame(self) -> pl.DataFrame:
        """Return the judged changes, those left out included."""
        c = self.changes
        words = ["", *LEFT_OUT]
        columns = {
            "signal": pl.repeat(self.m.name, c.at_ms.size, eager=True),
            "ts": pl.Series(c.at_ms, dtype=pl.Int64),
            "kind": pl.Series([[*KINDS][k] for k in c.kind.tolist()], dtype=pl.String),
            "counts": pl.Series(self.counts, dtype=pl.Boolean),
            "left_out": pl.Series([words[k] or None for k in c.left_out.tolist()], dtype=pl.String),
            "pods_before": c.pods_before,
            "pods_after": c.pods_after,
            "before_milli": c.level_milli,
            "predicted_milli": _known(self.predicted),
            "observed_milli": _known(np.where(c.samples > 0, c.observed_milli, np.nan)),
            "error": _known(self.error),
            "persistence_error": _known(self.persistence),
            "samples": c.samples,
        }
        return pl.DataFrame(columns).cast({"ts": _TIME})


def _median(error: F64) -> float:
    return 100 * float(np.median(np.abs(error)))


def _known(values: F64) -> pl.Series:
    return pl.Series(values, dtype=pl.Float64).fill_nan(None)


def _time_text(ms: int) -> str:
    text: str = pl.Series([ms]).cast(_TIME).dt.strftime("%Y-%m-%dT%H:%MZ")[0]
    return text
