"""Plant score of one HPA: its plant, fitted on a first part, against the recording after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.fidelity.changes import (
    KINDS,
    LEFT_OUT,
    USED,
    Changes,
    expected_samples,
    judged_changes,
)
from hpabatch.engine.fidelity.parameters import FidelityParameters
from hpabatch.engine.fidelity.predict import predicted_milli, tells_apart, with_known_arrivals
from hpabatch.engine.fidelity.skill import skill_of
from hpabatch.engine.fit.measured import Measured, censored_at, measure
from hpabatch.engine.fit.overrides import signal_statement
from hpabatch.engine.fit.run import Fit
from hpabatch.engine.fit.series import cells_of, spacing_ms, window_ms
from hpabatch.engine.fit.stats import F64, Mask
from hpabatch.engine.fit.usage import SETTLE_MS, Usage
from hpabatch.inputs.plants import PlantOverride
from hpabatch.model.plant import AGE, PER_POD, TOTAL, Signal, signal_name

_TIME: Final = pl.Datetime("ms", "UTC")

SIGNAL_COLUMNS: Final[dict[str, Any]] = {
    "signal": pl.String, "kind": pl.String, "base": pl.Float64, "base_source": pl.String,
    "ceiling": pl.Float64, "unscored": pl.String, "split": _TIME,
    "skill": pl.Float64, "skill_low": pl.Float64, "skill_high": pl.Float64,
    "changes": pl.Int64, "used": pl.Int64, "median_error_pct": pl.Float64,
    "bias_pct": pl.Float64, "mean_error_pct": pl.Float64, "persistence_error_pct": pl.Float64,
    "same": pl.Int64, "same_used": pl.Int64, "same_median_error_pct": pl.Float64,
    "same_bias_pct": pl.Float64, **{f"{name}_changes": pl.Int64 for name in KINDS},
    **{f"left_out_{name}": pl.Int64 for name in LEFT_OUT}, "saturated_share": pl.Float64,
}  # fmt: skip
"""Columns of a signal's score. `same` are changes on which plant and persistence agree."""

CHANGE_COLUMNS: Final[dict[str, Any]] = {
    "signal": pl.String, "ts": _TIME, "kind": pl.String, "counts": pl.Boolean,
    "left_out": pl.String, "pods_before": pl.Int64, "pods_after": pl.Int64,
    "before_milli": pl.Float64, "predicted_milli": pl.Float64, "observed_milli": pl.Float64,
    "error": pl.Float64, "persistence_error": pl.Float64, "samples": pl.Int64,
}  # fmt: skip
"""Columns of the judged changes; `counts`: of those in the skill; errors are signed shares."""


@dataclass(frozen=True, slots=True)
class PlantScore:
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
        return _without(usage, _no_plant(fitted, split_ms), split_ms)
    cells = cells_of(usage)
    assert cells is not None  # its first part was fitted
    # The kinds that the first part has shown are judged, not those of the whole.
    statements = {
        name: replace(signal_statement(entries, name), kind=s.kind, rate_milli=s.rate_milli or None)
        for name, s in fitted.workload.plant.signals.items()
    }
    measured, _, _ = measure(usage, cells, statements)
    key = (usage.candidate.cluster, usage.candidate.namespace, usage.candidate.name)
    rows, changes = [], []
    for name, signal in fitted.workload.plant.signals.items():
        judged = _Judged(measured[name], signal, fitted, split_ms, parameters)
        rows.append(judged.row("\0".join((*key, name))))
        changes.append(judged.frame())
    empty = pl.DataFrame(schema=CHANGE_COLUMNS)
    return PlantScore(_signal_frame(rows), pl.concat([empty, *changes]))


def _no_plant(fitted: Fit, split_ms: int) -> str:
    """Return why there is no plant to judge."""
    if fitted.fact("resolution") is None:
        return (
            f"nothing was sampled before {_time_text(split_ms)}, so there is nothing to fit a "
            "plant on"
        )
    return fitted.problems[0]


def _without(usage: Usage, reason: str, split_ms: int) -> PlantScore:
    names = dict.fromkeys([*map(signal_name, usage.candidate.spec.metrics), *usage.signals])
    rows = [{"signal": name, "unscored": reason, "split": split_ms} for name in names]
    return PlantScore(_signal_frame(rows), pl.DataFrame(schema=CHANGE_COLUMNS))


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
        """Return why there is no skill, "" if there is."""
        kind, least = self.m.kind, self.parameters.fewest_changes
        found, used = int(counts.sum()), int(chosen.sum())
        if kind == TOTAL:
            return "a total: it does not hang on the pods, so no change can test it"
        if kind == PER_POD:
            return "per pod: as persistence it predicts no change, whatever the truth"
        if used >= least:
            return ""
        if found == 0:
            return f"the number of ready pods never changed after {_time_text(self.split_ms)}"
        too_short = self._too_short()
        if too_short:
            return too_short
        some = f"only {used}" if used else "none"
        told = self._left_out()
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

    def _left_out(self) -> str:
        codes = self.changes.left_out[self.counts]
        parts = [(int((codes == k).sum()), LEFT_OUT[n]) for k, n in enumerate(LEFT_OUT, 1)]
        return "; ".join(f"{count}: {text}" for count, text in parts if count)

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
