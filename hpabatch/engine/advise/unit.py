"""Blocks of a unit as arrays: the measures of each setting by HPA and block."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.advise.objective import MEASURES, MINUTES_AN_HOUR, SATURATED, UNIT_HOURS
from hpabatch.engine.columns.recorded import (
    ABOVE_MINUTES,
    RECORDED_MEASURES,
    recorded_name,
)
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Key = tuple[str, str, str]

KEY: Final = ("cluster", "namespace", "hpa")
TODAY_ID: Final = 0
AT_MAX: Final = "at_max_minutes"
AT_CEILING: Final = (SATURATED, *ABOVE_MINUTES)
KNOWN_CAUSE: Final = 0.5
"""Share of today's recorded time at a ceiling from which on the model, which says so much of it, is
taken to know its cause."""
MOST_AT_MAX: Final = 0.01
"""Share of time at maxReplicas, with metrics that ask for more, above which that binds."""
OUTSIDE_SHARE: Final = 0.1
"""Share of time outside of the recorded usage per pod from which on that is a doubt where a ceiling
is assumed."""
MOST_OUTSIDE: Final = 0.5
"""Share above which it is a doubt where ceilings are known, and where one is assumed no candidate.

Chosen on fleets whose plant is known, as `standing.MORE_THAN_TODAY` is.
"""
_HOUR_MS: Final = 3_600_000


def is_held(at_max_minutes: float | None, hours: float | None) -> bool:
    """Say whether maxReplicas held an HPA for long while its metrics asked for more."""
    return (at_max_minutes or 0.0) > MOST_AT_MAX * (hours or 0.0) * MINUTES_AN_HOUR > 0


def key_of(row: Mapping[str, Any]) -> Key:
    """Return the cluster, namespace and name of a row's HPA."""
    return row["cluster"], row["namespace"], row["hpa"]


@dataclass(frozen=True, slots=True)
class UnitBlocks:
    """Measures of the settings of one unit: M members, S settings, B blocks of time.

    `settings` (S,) are setting ids, today's first; `hours` (M, B), 0 where a member has no such
    block; `values` by measure (M, S, B), NaN where it is not known. `starts` are the blocks'.
    `recorded` are, by measure (M, B), what was recorded of today's setting, NaN where not known.
    `lifts` (M, S) says which settings lift whose maxReplicas and leave no pod less.
    """

    name: str
    members: tuple[Key, ...]
    settings: NDArray[np.int64]
    starts: tuple[datetime, ...]
    hours: Array
    values: Mapping[str, Array]
    recorded: Mapping[str, Array] = field(default_factory=dict)
    lifts: Mask | None = None

    @property
    def is_open(self) -> Mask:
        """Return (M,) whose ceilings are assumed."""
        if ABOVE_MINUTES[0] not in self.values:
            return np.zeros(len(self.members), dtype=bool)
        assumed = np.isfinite(self.values[ABOVE_MINUTES[0]][:, 0]) | (self.hours <= 0)
        return np.asarray(np.all(assumed, axis=1), dtype=bool)

    def modelled_of(self, measure: str, settings: slice | list[int], blocks: slice) -> Array:
        """Return a measure (M, S, B) by the model, NaN where it is not known."""
        values: Array = self.values[measure][:, settings][:, :, blocks]
        return values

    def beyond_model(self, measure: str, settings: slice | list[int], blocks: slice) -> Array:
        """Return (M, S or 1, B) how much more was recorded of today's setting than the model says.

        Below 0 where it is less, 0 where the recording says nothing. Time at a ceiling goes in the
        share in which what is modelled goes, where the model says most of what was recorded: it
        knows the cause. What fits into today's minutes at maxReplicas arose there: where a setting
        lifts that, it goes in the share in which that block's goes, if this is more.
        """
        recorded = self.recorded.get(measure)
        if recorded is None:
            return np.zeros_like(self.hours[:, None, blocks])
        seen = recorded[:, None, blocks]
        modelled = self.values[measure][:, :, blocks]
        more: Array = np.nan_to_num(seen - modelled[:, :1])
        if measure not in AT_CEILING:
            return more
        sums = np.where(np.isfinite(seen), modelled, 0.0).sum(axis=2, keepdims=True)
        knows = sums[:, :1] >= KNOWN_CAUSE * np.nan_to_num(seen).sum(axis=2, keepdims=True)
        stays = np.where(knows, _share_left(sums, settings, of_none=1.0), 1.0)
        if self.lifts is None or AT_MAX not in self.values:
            return more * stays
        at_max = np.clip(more, 0.0, self.values[AT_MAX][:, :1, blocks])
        lifted = np.minimum(_share_left(modelled, settings, of_none=0.0), stays)
        of_max = np.where(self.lifts[:, settings, None], lifted, stays)
        found: Array = (more - at_max) * stays + at_max * of_max
        return found

    @property
    def held_at_max(self) -> Mask:
        """Return (M,) whom today's maxReplicas held while the metrics asked for more.

        All where that is not known.
        """
        minutes = self.values.get(AT_MAX)
        if minutes is None:
            return np.ones(len(self.members), dtype=bool)
        longest = MOST_AT_MAX * MINUTES_AN_HOUR * self.hours.sum(axis=1)
        return np.asarray(minutes[:, 0].sum(axis=1) > longest)

    def recorded_of(self, measure: str, blocks: slice) -> Array:
        """Return (M, 1, B) what was recorded of today's setting, NaN where it is not known.

        0 where a member has no such block.
        """
        nothing = np.full(self.hours.shape, np.nan)
        known = np.where(self.hours > 0, self.recorded.get(measure, nothing), 0.0)
        return known[:, None, blocks]

    @property
    def blocks(self) -> int:
        """Return the number of blocks."""
        return len(self.starts)

    def total(self, measure: str, blocks: slice) -> Array:
        """Return the sum over members and blocks, (S,); NaN where one of them is not known."""
        total: Array = self.values[measure][:, :, blocks].sum(axis=(0, 2))
        return total

    def outside_share(self, blocks: slice) -> Array:
        """Return (S,) the largest share of a member's time outside of the recorded usage per pod.

        Unknown time counts as inside.
        """
        minutes = self.values.get("outside_minutes")
        if minutes is None:
            return np.zeros(self.settings.size)
        hours = np.maximum(self.hours[:, blocks].sum(axis=1), 1e-9)[:, None]
        share = np.nan_to_num(minutes[:, :, blocks]).sum(axis=2) / (hours * MINUTES_AN_HOUR)
        most: Array = share.max(axis=0)
        return most

    @property
    def most_outside(self) -> float:
        """The share of time that a candidate may be outside of the recorded usage per pod.

        Up to a ceiling that is known, what pods do is said by the model; beyond the recorded usage
        of pods without one nothing is.
        """
        return MOST_OUTSIDE if self.is_open.any() else 1.0

    def place(self, setting_id: int) -> int | None:
        """Return where a setting stands in `settings`; None: it does not fit all members."""
        found = np.flatnonzero(self.settings == setting_id)
        return int(found[0]) if found.size else None


def _share_left(values: Array, settings: slice | list[int], of_none: float) -> Array:
    """Return what share of today's values (M, S, B) settings leave, at most 1.

    `of_none` where today's is 0; 1 where a value is not known.
    """
    today = values[:, :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(today > 0, np.minimum(values[:, settings] / today, 1.0), of_none)
    return np.where(np.isnan(values[:, settings]) | np.isnan(today), 1.0, left)


def unit_blocks(
    result: SweepResult, left_out: Collection[Key] = ()
) -> Iterator[tuple[str, UnitBlocks]]:
    """Yield the units of a sweep by name, without the HPAs that are left out.

    A unit without any member left is not yielded. Of a group only those settings count that fit
    every member; its blocks are matched by their time.

    Raises:
        HistoryError: the blocks of an HPA are not the same under every setting.
    """
    block_ms = int(_HOUR_MS * UNIT_HOURS[result.parameters["block"]["unit"]])
    frames = {
        (str(c), str(n), str(h)): frame
        for (c, n, h), frame in result.blocks.partition_by(
            *KEY, as_dict=True, maintain_order=False
        ).items()
    }
    units: dict[str, list[Key]] = {}
    for cluster, namespace, hpa, unit in result.hpas.sort(*KEY).select(*KEY, "unit").iter_rows():
        key = (cluster, namespace, hpa)
        if key in frames and key not in left_out:
            units.setdefault(unit, []).append(key)
    for name in sorted(units):
        yield name, _unit(name, units[name], [frames[key] for key in units[name]], block_ms)


def _unit(name: str, keys: list[Key], frames: list[pl.DataFrame], block_ms: int) -> UnitBlocks:
    """Join the blocks of the members, those of one time in one column."""
    common = set(frames[0]["setting_id"].unique().to_list())
    for frame in frames[1:]:
        common &= set(frame["setting_id"].unique().to_list())
    if TODAY_ID not in common:
        raise HistoryError(
            f"the sweep has no blocks of today's setting ({TODAY_ID}) for every HPA of {name}: run "
            "it again"
        )
    settings = np.array(sorted(common), np.int64)
    parts = [_member(key, frame, settings) for key, frame in zip(keys, frames, strict=True)]
    first = min(starts[0] for starts, _, _ in parts)
    cells = [
        [round((start - first).total_seconds() * 1000 / block_ms) for start in starts]
        for starts, _, _ in parts
    ]
    found = sorted({cell for theirs in cells for cell in theirs})
    column = {cell: k for k, cell in enumerate(found)}
    times: dict[int, datetime] = {}
    hours = np.zeros((len(keys), len(found)))
    names = [measure for measure in MEASURES if measure in frames[0].columns]
    values = {measure: np.zeros((len(keys), settings.size, len(found))) for measure in names}
    recorded = {
        measure: np.full((len(keys), len(found)), np.nan)
        for measure in RECORDED_MEASURES
        if recorded_name(measure) in frames[0].columns
    }
    for m, (starts, of_hours, of_values) in enumerate(parts):
        places = [column[cell] for cell in cells[m]]
        for place, start in zip(places, starts, strict=True):
            times[place] = min(start, times.get(place, start))
        hours[m, places] = of_hours
        for measure in names:
            values[measure][m][:, places] = of_values[measure]
        today = frames[m].filter(pl.col("setting_id") == TODAY_ID).sort("block")
        for measure, known in recorded.items():
            told = today[recorded_name(measure)].cast(pl.Float64()).fill_null(float("nan"))
            known[m, places] = told.to_numpy()
    ordered = tuple(times[k] for k in range(len(found)))
    return UnitBlocks(name, tuple(keys), settings, ordered, hours, values, recorded)


def _member(
    key: Key, frame: pl.DataFrame, settings: NDArray[np.int64]
) -> tuple[list[datetime], Array, dict[str, Array]]:
    """Return an HPA's block starts, hours (B,) and measures (S, B)."""
    rows = frame.filter(pl.col("setting_id").is_in(settings.tolist())).sort("setting_id", "block")
    count = rows.height // settings.size
    blocks = (
        rows["block"].to_numpy().reshape(-1, count)
        if rows.height == count * settings.size
        else None
    )
    if blocks is None or (blocks != blocks[0]).any():
        raise HistoryError(
            f"the sweep's blocks of {'/'.join(key)} are not the same under every setting: run the "
            "sweep again"
        )
    values = {
        measure: rows[measure]
        .cast(pl.Float64())
        .fill_null(float("nan"))
        .to_numpy()
        .reshape(-1, count)
        for measure in MEASURES
        if measure in rows.columns
    }
    first = rows.head(count)
    return first["start"].to_list(), first["hours"].to_numpy(), values
