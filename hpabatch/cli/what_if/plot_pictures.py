"""Pictures of `hpabatch plot`: units, the marked setting, and the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.api.sweeps import open_sweep
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.advise.specs import Specs, settings_of
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError, HpabatchError, RefusedError, UsageError
from hpabatch.model.settings.setting import SettingError, parse_setting
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.times import parse_time_ms
from hpabatch.report.pictures import data
from hpabatch.report.pictures.data import (
    Marked,
    NothingToDrawError,
    members_of,
    only,
    profile_name,
    shown_unit,
)
from hpabatch.report.pictures.front import front_chart
from hpabatch.report.pictures.grid import parse_fields
from hpabatch.report.pictures.heatmap import heatmap_chart
from hpabatch.report.pictures.request import PlotRequest
from hpabatch.report.pictures.style import file_stem, require_altair, save_chart
from hpabatch.report.pictures.timeline import Shown, timeline_chart

MOST_UNITS: Final = 20
_RECOMMENDED: Final = "recommended"
_CHOSEN: Final = "chosen"


@dataclass(slots=True)
class Drawn:
    """The files that were written, what is to be told, and why some pictures were not drawn."""

    paths: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A unit to draw: the sweep's HPAs that are in it, its name, and how it is called."""

    result: SweepResult
    unit: str
    shown: str


def draw_pictures(request: PlotRequest, sweep: str, out: str) -> Drawn:
    """Draw what is asked for and write it; all options are checked before anything is drawn.

    Raises:
        UsageError: an option that cannot be, or altair is not installed.
        HistoryError: the sweep, or for timelines its history, cannot be read.
        RefusedError: there is nothing to draw at all.
    """
    require_altair()
    _check_folder(out)
    result = open_sweep(sweep)
    if result.settings.height < 2:
        raise RefusedError(
            f"{sweep} has today's setting only, so there is nothing to compare: sweep with --grid"
        )
    plot = _Plot(request, result, out)
    drawn = plot.draw()
    if not drawn.paths:
        raise RefusedError("; ".join(drawn.refused))
    return drawn


def _check_folder(out: str) -> None:
    """Refuse a place that is no folder."""
    if "://" in out or out in ("", "-"):
        raise UsageError(f"--out {out!r}: pictures go to a local folder; name one")
    if os.path.exists(out) and not os.path.isdir(out):
        raise UsageError(f"--out {out} is a file; name a folder")


class _Plot:
    """One run of the command: all options are checked before anything is drawn."""

    def __init__(self, request: PlotRequest, result: SweepResult, out: str) -> None:
        """Check everything that was asked.

        Raises:
            UsageError: what is wrong.
        """
        self.request, self.result, self.out = request, result, out
        self.drawn, self.taken = Drawn(), set[str]()
        self.fields = [parse_fields(result, text) for text in request.heatmap]
        self.measures = None if request.measure is None else data.parse_measures(request.measure)
        self.goal = parse_goal(request.slo, request.minimize, result.blocks)
        self.setting = None if request.setting is None else setting_id(result, request.setting)
        self.keys = [data.hpa_key(result, name, "--timeline") for name in request.timeline]
        self.from_ms = _begin_ms(result, request.begin)
        self._check_timelines()
        wanted = request.front or bool(request.heatmap)
        self.front = request.front or not (request.heatmap or request.timeline)
        self.subjects = list(self._subjects()) if wanted or self.front else []

    def _check_timelines(self) -> None:
        request = self.request
        if self.keys and self.setting is None and not request.slo:
            raise UsageError(
                "--timeline: which setting beside today's? Name one with --setting N|NAME, or give "
                "--slo for the one that is recommended"
            )
        given = [
            name
            for name, value in (
                ("--from", request.begin),
                ("--for", request.length_ms),
                ("--history", request.history),
            )
            if value is not None
        ]
        if given and not self.keys:
            raise UsageError(f"{given[0]} is for timelines: add --timeline NAMESPACE/HPA")

    def _subjects(self) -> Iterator[_Subject]:
        """Yield the units to draw: those named, else all, or those with most pods today."""
        result, request = self.result, self.request
        names = [data.unit_name(result, name) for name in request.unit]
        keys = [data.hpa_key(result, name) for name in request.names]
        if not names and not keys:
            names = self._largest()
        for name in dict.fromkeys(names):
            yield _Subject(only(result, members_of(result, name)), name, shown_unit(result, name))
        for key in dict.fromkeys(keys):
            unit = "/".join(key)
            own = only(result, [key], unit)
            if not (unit in names and len(members_of(result, unit)) == 1):
                yield _Subject(own, unit, shown_unit(own, unit))

    def _largest(self) -> list[str]:
        """Return the units that are drawn by themselves, in the order of their names."""
        units = self.result.hpas.select(*KEY, "unit")
        names = sorted(set(units["unit"].to_list()))
        if len(names) <= MOST_UNITS:
            return names
        today = self.result.blocks.filter(pl.col("setting_id") == TODAY_ID)
        sizes = (
            today.join(units, on=KEY)
            .group_by("unit")
            .agg(pl.col("pod_hours").sum())
            .sort(["pod_hours", "unit"], descending=[True, False], nulls_last=True)
        )
        self.drawn.notes.append(
            f"only the {MOST_UNITS} units with the most pod-hours of {len(names)} are drawn; name "
            "others, or units with --unit"
        )
        return sorted(sizes["unit"].head(MOST_UNITS).to_list())

    # ---- drawing --------------------------------------------------------------------------------

    def draw(self) -> Drawn:
        """Draw and write everything."""
        with progress_on_stderr("simulate_fleet" if self.keys else None) as progress:
            count = len(self.subjects) + 10 * len(self.keys)
            for k, subject in enumerate(self.subjects):
                progress("drawing", k / count)
                self._draw_unit(subject)
            for k, key in enumerate(self.keys):
                progress("simulating", (len(self.subjects) + 10 * k) / count)
                self._draw_timeline(key)
        return self.drawn

    def _draw_unit(self, subject: _Subject) -> None:
        marked = self._marked(subject)
        draw: Callable[[], Any]
        result, unit, goal, measures = subject.result, subject.unit, self.goal, self.measures
        if self.front:
            draw = partial(front_chart, result, unit, measures=measures, goal=goal, marked=marked)
            self._write("front", [subject.shown], draw)
        for fields in self.fields:
            draw = partial(
                heatmap_chart,
                result,
                unit,
                fields,
                measures=measures,
                goal=goal,
                marked=marked,
            )
            self._write("heatmap", [subject.shown, *fields], draw)

    def _write(self, kind: str, parts: Sequence[str], draw: Callable[[], Any]) -> None:
        try:
            chart = draw()
        except NothingToDrawError as error:
            if str(error) not in self.drawn.refused:
                self.drawn.refused.append(str(error))
            return
        name = file_stem(kind, parts, self.taken)
        path = Path(self.out) / f"{name}.{self.request.format}"
        save_chart(chart, path)
        self.drawn.paths.append(path)

    def _marked(self, subject: _Subject) -> Marked | None:
        """Return the setting to mark in a unit's pictures, and tell why there is none."""
        if self.setting is not None:
            return Marked(self.setting, _CHOSEN)
        found, told = self._advice(subject.result)
        if told:
            self._note(f"{subject.shown}: {told}")
        return None if found is None else Marked(found, _RECOMMENDED)

    def _note(self, text: str) -> None:
        if text not in self.drawn.notes:
            self.drawn.notes.append(text)

    def _advice(self, result: SweepResult) -> tuple[int | None, str]:
        """Return what is recommended for the only unit of a result, None: nothing; and why."""
        if not self.goal.slos:
            return None, ""
        options = RecommendOptions(goal=self.goal)
        advice = recommend(result, options, settings_of(result))
        items = advice.items
        # Some members may give no advice by themselves: the unit's is that of the others.
        item = next((i for i in items if i.answer == CHANGE), None) or next(
            (i for i in items if i.answer == KEEP), items[0]
        )
        told = "; ".join(item.reasons)
        if item.answer != NONE:
            return item.setting_id, "" if item.answer == CHANGE else f"{KEEP}: {told}"
        return None, f"no setting is recommended: {told}"

    # ---- timelines ------------------------------------------------------------------------------

    def _draw_timeline(self, key: Key) -> None:
        name = "/".join(key[1:]) if self.result.hpas["cluster"].n_unique() == 1 else "/".join(key)
        chosen, word = self.setting, _CHOSEN
        if chosen is None:
            unit = only(self.result, [key]).hpas["unit"][0]
            found, told = self._advice(only(self.result, members_of(self.result, unit)))
            if told:
                self._note(f"{name}: {told}")
            if found is None:
                self.drawn.refused.append(
                    f"{name}: no setting is recommended; name one with --setting N|NAME"
                )
                return
            chosen, word = found, _RECOMMENDED
        self._write("timeline", [name], partial(self._timeline, key, name, chosen, word))

    def _timeline(self, key: Key, name: str, chosen: int, word: str) -> Any:
        """Run today's setting and the chosen one again, and draw both."""
        ids = [TODAY_ID] if chosen == TODAY_ID else [TODAY_ID, chosen]
        points = self._trajectories(key, ids)
        names = dict(self.result.settings.select("setting_id", "setting").iter_rows())
        if points.is_empty() or points["setting"].n_unique() < len(ids):
            raise NothingToDrawError(
                f"{name}: {names[chosen]} cannot be simulated for it: the setting does not fit"
            )
        shown = [
            Shown(names[k], AS_TODAY if k == TODAY_ID else word, self._max_replicas(key, k))
            for k in ids
        ]
        return timeline_chart(
            points,
            name,
            shown,
            profile=profile_name(self.result),
            from_ms=self.from_ms,
            length_ms=self.request.length_ms,
        )

    def _trajectories(self, key: Key, ids: Sequence[int]) -> pl.DataFrame:
        from hpabatch.history.reader import open_history
        from hpabatch.jobs.sweep import trajectories

        given = self.request.history
        if "request" not in self.result.parameters:
            raise HistoryError(
                "the sweep does not say how it was made, so nothing of it can be "
                "simulated again: sweep again"
            )
        try:
            history = None if given is None else open_history(given, "replay")
            return trajectories(self.result, key, ids, history)
        except HistoryError as error:
            if given is not None:
                raise
            raise HistoryError(f"{error} (--history says where the history is now)") from error

    def _max_replicas(self, key: Key, chosen: int) -> int | None:
        try:
            specs = Specs(self.result, settings_of(self.result))
            return specs.under(key, chosen).max_replicas
        except HpabatchError:  # the limit is only one more line
            return None


def _begin_ms(result: SweepResult, begin: str | None) -> int | None:
    """Return the start of timelines; times before the end are before that of the last block."""
    if begin is None:
        return None
    end = (pl.col("start") + pl.duration(hours="hours")).max().dt.timestamp("ms")
    try:
        return parse_time_ms(begin, int(result.blocks.select(end).item() or 0))
    except ValueError as error:
        raise UsageError(f"--from: {error}") from None


def setting_id(result: SweepResult, text: str) -> int:
    """Return the number of a setting that is given by its number or its name.

    Raises:
        UsageError: the sweep has no such setting.
    """
    last = result.settings.height - 1
    if text.strip().isdecimal():
        if int(text) not in result.settings["setting_id"]:
            raise UsageError(f"--setting {text}: the sweep has settings 0 to {last}")
        return int(text)
    names = {name: k for k, name in result.settings.select("setting_id", "setting").iter_rows()}
    wanted = " ".join(text.split())
    if wanted not in names:
        try:
            wanted = parse_setting(wanted, _set_names(result)).name
        except SettingError as error:
            raise UsageError(f"--setting {text}: {error}") from error
    if wanted not in names:
        raise UsageError(
            f"--setting {text}: the sweep has no such setting{did_you_mean(wanted, names)} (its "
            f"{last + 1} settings are in settings.parquet)"
        )
    return int(names[wanted])


def _set_names(result: SweepResult) -> list[str]:
    from hpabatch.engine.advise.specs import sets_of

    return list(sets_of(result))
