"""Data of pictures: the measures of a unit's settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.advise.judge import front_of, standing
from hpabatch.engine.advise.objective import MEASURES, UNIT_HOURS, Goal, Slo, parse_goal
from hpabatch.engine.advise.specs import Specs, beyond_doubts, settings_of
from hpabatch.engine.advise.unit import KEY, Array, Key, Mask, UnitBlocks, key_of, unit_blocks
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import RefusedError, UsageError
from hpabatch.model.plant import CEILINGS_PCT
from hpabatch.model.printable import printable
from hpabatch.model.suggestions import did_you_mean
from hpabatch.report.base import label, many_clusters

HARMS: Final = (
    *("saturated_minutes", "above_100_minutes"),
    *("unserved", "waiting", "short_pod_hours", "rescales"),
)
"""Measures of harm; the first one that is known of a unit is drawn by itself."""

_LABELS: Final = {
    "replica_hours": "replica-hours",
    "pod_hours": "pod-hours",
    "core_hours": "requested core-hours",
    "gib_hours": "requested GiB-hours",
    **{
        name: f"minutes above {pct} % of the highest usage (ceiling assumed)"
        for pct, name in zip(CEILINGS_PCT, ABOVE_MINUTES, strict=True)
    },
    "unserved": "unserved work (units × s)",
    "waiting": "waiting work (units × s)",
    "short_pod_hours": "missing pod-hours",
    "rescales_up": "rescales up",
    "rescales_down": "rescales down",
    "under_minutes": "minutes with too few pods",
    "over_minutes": "minutes with too many pods",
    "at_max_minutes": "minutes at maxReplicas",
}
ROBUST: Final = "both"  # SLOs must hold on average and in the worst block
_MANY: Final = 10  # names in a message


class NothingToDrawError(RefusedError):
    """A unit of which nothing can be drawn, and why."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A setting to mark, and what it is: recommended, or chosen by hand."""

    setting_id: int
    word: str = "recommended"


@dataclass(frozen=True, slots=True)
class Axis:
    """A measure of S settings, for `per` a day or a week; sums over the unit's HPAs.

    `slo` is its limit in the same terms: of an HPA that limit, of a group that of all HPAs
    together, above which at least one of them breaks it.
    """

    measure: str
    title: str
    values: Array
    limit: float | None = None
    slo: Slo | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A unit's settings by objective (x) and harm (y); all arrays are (S,), today's first.

    `usable` False: the run of a member under that setting cannot be relied on. `holds`: whether
    the SLO holds for every member, on average and in the worst block; `pressure`: the largest
    value relative to its limit; both None: there is no SLO.
    """

    name: str
    unit: UnitBlocks
    names: tuple[str, ...]
    x: Axis
    y: Axis
    usable: Mask
    holds: Mask | None
    pressure: Array | None
    profile: str
    per: str
    specs: Specs

    def changes(self, place: int) -> str:
        """Return what a setting changes in the spec: `target 60 -> 70`; "today" for today's."""
        if not place:
            return self.names[place]
        return self.specs.told(self.unit.members, int(self.unit.settings[place]))

    @property
    def known(self) -> Mask:
        """Return which settings have both measures."""
        found: Mask = np.isfinite(self.x.values) & np.isfinite(self.y.values)
        return found

    def front(self) -> Mask:
        """Return which settings no other one beats in one measure without losing in the other.

        Runs that cannot be relied on are left out, unless all are such; today's counts anyway.
        """
        counted = self.known & (self.usable if (self.usable & self.known).any() else True)
        counted[0] = self.known[0]
        points = np.stack([self.x.values, self.y.values], axis=1)
        points[~counted] = np.nan
        return front_of(points)

    def facts(self) -> list[str]:
        """Return what a picture says below its title: over which time, by which rules."""
        parts = [period_text(self.unit), f"rules of Kubernetes {self.profile}", "simulated"]
        members = len(self.unit.members)
        return [f"sum of {members} HPAs", *parts] if members > 1 else parts


# ---- which unit ---------------------------------------------------------------------------------


def hpa_key(result: SweepResult, name: str, option: str = "") -> Key:
    """Return the key of an HPA that is named [[CLUSTER/]NAMESPACE/]NAME.

    Raises:
        UsageError: there is no such HPA in the sweep, or there are several.
    """
    keys = list(result.hpas.select(KEY).unique().sort(KEY).iter_rows())
    parts, given = tuple(name.split("/")), f"{option} {name}".strip()
    found = [key for key in keys if key[-len(parts) :] == parts]
    if len(found) == 1:
        return found[0]
    if found:
        clusters = " or ".join("/".join(key) for key in found)
        raise UsageError(f"{given}: there are several; name {clusters}")
    names = ["/".join(key[1:]) for key in keys]
    raise UsageError(
        f"{given}: the sweep has no such HPA (it has {listed(names)}){did_you_mean(name, names)}"
    )


def unit_name(result: SweepResult, name: str, option: str = "--unit") -> str:
    """Return the unit of that name; an HPA by itself is one, also without its cluster.

    Raises:
        UsageError: there is no such unit, or several.
    """
    units = sorted(set(result.hpas["unit"].to_list()))
    if name in units:
        return name
    alone = [str(unit) for unit in units if unit.count("/") == 2 and unit.split("/", 1)[1] == name]
    if len(alone) == 1:
        return alone[0]
    if alone:
        raise UsageError(f"{option} {name}: there are several; name {' or '.join(alone)}")
    shown = [shown_unit(result, unit) for unit in units]
    raise UsageError(
        f"{option} {name}: the sweep has no such unit (it has {listed(shown)})"
        f"{did_you_mean(name, shown)}"
    )


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def shown_unit(result: SweepResult, unit: str) -> str:
    """Return how a unit is called: an HPA by itself without its cluster, if there is only one."""
    if many_clusters(result.hpas):
        return unit
    own = result.hpas.filter(pl.col("unit") == unit)
    if own.height == 1 and unit == "/".join(own.select(KEY).row(0)):
        return label(*own.select(KEY).row(0))
    return unit


def only(result: SweepResult, keys: Collection[Key], unit: str | None = None) -> SweepResult:
    """Return some HPAs of a sweep; `unit` makes one unit of them, whatever they were in."""
    chosen = pl.DataFrame(list(keys), schema=dict.fromkeys(KEY, pl.String), orient="row")
    hpas, results, blocks = (
        frame.join(chosen, on=KEY, how="semi", maintain_order="left")
        for frame in (result.hpas, result.results, result.blocks)
    )
    if unit is not None:
        hpas, results = (frame.with_columns(unit=pl.lit(unit)) for frame in (hpas, results))
    return replace(result, hpas=hpas, results=results, blocks=blocks)


def members_of(result: SweepResult, unit: str) -> list[Key]:
    """Return the HPAs of a unit."""
    found: list[Key] = result.hpas.filter(pl.col("unit") == unit).select(KEY).rows()
    return found


# ---- what it came to ----------------------------------------------------------------------------


def compare_settings(
    result: SweepResult,
    unit: str,
    measures: tuple[str, str] | None = None,
    goal: Goal | None = None,
) -> Compared:
    """Return the settings of a unit by two measures; None: the goal's and its first limit's.

    Raises:
        UsageError: there is no such unit, or no such measure.
        NothingToDrawError: there is one setting only, or a measure is known of none.
    """
    unit = unit_name(result, unit, "unit")
    own = only(result, members_of(result, unit))
    shown = shown_unit(result, unit)
    found = dict(unit_blocks(own)).get(unit)
    if found is None:
        raise NothingToDrawError(f"{shown}: the sweep has nothing of its HPAs")
    if found.settings.size < 2:
        raise NothingToDrawError(
            f"{shown}: the sweep has no other setting than today's that fits, so there is nothing "
            "to compare; sweep it with --grid"
        )
    goal = goal or parse_goal((), None, own.blocks)
    x, y = measures or (goal.minimize, _harm(found, goal, shown))
    per = str(result.parameters["block"]["unit"])
    stands = standing(found, goal, slice(None), per) if goal.slos else None
    names = dict(result.settings.select("setting_id", "setting").iter_rows())
    return Compared(
        name=shown,
        unit=found,
        names=tuple(names[k] for k in found.settings.tolist()),
        x=_axis(own, found, x, goal),
        y=_axis(own, found, y, goal),
        usable=_usable(own, found),
        holds=None if stands is None else stands.holds(ROBUST),
        pressure=None if stands is None else stands.pressure(ROBUST),
        profile=profile_name(result),
        per=per,
        specs=Specs(own, settings_of(own)),
    )


def parse_measures(text: str) -> tuple[str, str]:
    """Return the two measures of a text such as `pod_hours,saturated_minutes`.

    Raises:
        UsageError: they are not two, or no measures.
    """
    names = [part.strip() for part in text.split(",")]
    wrong = [name for name in names if name not in MEASURES]
    if wrong:
        raise UsageError(
            f"--measure {text}: {wrong[0] or 'nothing'} is no measure (there are "
            f"{', '.join(MEASURES)}){did_you_mean(wrong[0], MEASURES)}"
        )
    if len(names) != 2 or names[0] == names[1]:
        raise UsageError(
            f"--measure {text}: give two, what it costs and what harm it does, such as "
            "pod_hours,saturated_minutes"
        )
    return names[0], names[1]


def profile_name(result: SweepResult) -> str:
    """Return the name of the rules that a sweep was simulated by."""
    return str(result.parameters.get("profile") or result.evidence.get("k8s", "unknown"))


def period_text(unit: UnitBlocks) -> str:
    """Return over which time a unit was simulated."""
    hours = float(unit.hours.max(axis=0).sum())
    return f"{length_text(hours)} from {day_text(unit.starts[0])}"


def length_text(hours: float) -> str:
    """Return a length in days, below two days in hours."""
    if hours >= 47.9:
        days = hours / 24
        return f"{days:.0f} days" if abs(days - round(days)) < 0.05 else f"{days:.1f} days"
    return f"{hours:.0f} hours" if hours >= 9.5 else f"{hours:.1f} hours"


def day_text(instant: datetime) -> str:
    """Return an instant as its day, with the time where it is not midnight."""
    midnight = (instant.hour, instant.minute) == (0, 0)
    return f"{instant:%Y-%m-%d}" if midnight else f"{instant:%Y-%m-%d %H:%M} UTC"


def _harm(unit: UnitBlocks, goal: Goal, shown: str) -> str:
    """Return what the first limit is about, else the first harm that is known."""
    for name in (*(slo.measure for slo in goal.slos), *HARMS):
        values = unit.values.get(name)
        if name != goal.minimize and values is not None and not np.isnan(values).all():
            return name
    raise NothingToDrawError(
        f"{shown}: none of {', '.join(HARMS)} is known of it, so there is no harm to draw; its "
        "plant could not be fitted, or name others with --measure"
    )


def measure_title(measure: str, currency: str | None = None) -> str:
    """Return what a measure is called, with its unit."""
    if measure == "cost":
        return f"cost ({currency})" if currency else "cost"
    return _LABELS.get(measure, measure.replace("_", " "))


def _axis(own: SweepResult, unit: UnitBlocks, measure: str, goal: Goal) -> Axis:
    """Return a measure: each member's rate, summed, so that a shorter history counts the same."""
    if measure not in MEASURES:
        raise UsageError(f"{measure} is no measure{did_you_mean(measure, MEASURES)}")
    per = str(own.parameters["block"]["unit"])
    values = unit.values.get(measure)
    hours = unit.hours.sum(axis=1)[:, None]
    rates = np.full(unit.settings.size, np.nan)
    if values is not None:
        rates = (values.sum(axis=2) / hours * UNIT_HOURS[per]).sum(axis=0)
    if np.isnan(rates).all():
        known = [name for name, v in unit.values.items() if not np.isnan(v.sum(axis=2)).any()]
        lacking = "it takes prices and recorded requests; " if measure == "cost" else ""
        raise NothingToDrawError(
            f"{shown_unit(own, unit.name)}: {measure} is not known of it under any setting; "
            f"{lacking}known are {', '.join(known)} (--measure)"
        )
    slo = next((slo for slo in goal.slos if slo.measure == measure), None)
    limit = None
    if slo is not None:
        limit = slo.limit / slo.unit_hours * UNIT_HOURS[per] * len(unit.members)
    currency = None
    if measure == "cost" and "currency" in own.results.columns:
        currency = next(iter(own.results["currency"].drop_nulls().head(1)), None)
    title = f"{printable(measure_title(measure, currency))} per {per}"
    return Axis(measure, title, rates, limit, slo)


def _usable(own: SweepResult, unit: UnitBlocks) -> Mask:
    """Return which settings have runs that count; an HPA's own doubts are told by its advice."""
    problems = {key_of(row): row["problems"] or "" for row in own.hpas.iter_rows(named=True)}
    refused = {
        row["setting_id"]
        for row in own.results.filter(~pl.col("usable")).iter_rows(named=True)
        if beyond_doubts(row["why_not"], problems[key_of(row)])
    }
    return np.array([k not in refused for k in unit.settings.tolist()], dtype=bool)


def place_of(compared: Compared, marked: Marked | None) -> int | None:
    """Return where a marked setting stands, None without one.

    Raises:
        NothingToDrawError: it does not fit every HPA of the unit.
    """
    if marked is None:
        return None
    place = compared.unit.place(marked.setting_id)
    if place is None:
        raise NothingToDrawError(
            f"{compared.name}: setting {marked.setting_id} was not simulated for every HPA of it: "
            "it does not fit them"
        )
    return place
