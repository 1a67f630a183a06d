"""Pictures of `hpabatch plot`: units, the marked setting, and the files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.api.replays import replay
from hpabatch.api.sweeps import open_sweep
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.advise.specs import Specs, sets_of, settings_of
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key
from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError, HpabatchError, RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.jobs.advise import INDEX
from hpabatch.jobs.sweep_files import ABOUT
from hpabatch.model.options import flag
from hpabatch.model.settings.setting import SettingError, parse_setting
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.times import parse_time_ms
from hpabatch.report.base import label, many_clusters
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
from hpabatch.report.pictures.recorded import recorded_chart
from hpabatch.report.pictures.request import PlotRequest
from hpabatch.report.pictures.style import file_stem, require_altair, save_chart
from hpabatch.report.pictures.timeline import Shown, timeline_chart

MOST_UNITS: Final = 20
_OF_SWEEPS: Final = tuple(
    name for name in PlotRequest.options() if name not in ("names", "begin", "length_ms", "format")
)
_RECOMMENDED: Final = "recommended"
_CHOSEN: Final = "chosen"


@dataclass(slots=True)
class Drawn:
    """The files that were written, what is to be told, and why some pictures were not drawn."""

    folder: Path
    form: str
    paths: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def add(self, kind: str, parts: Sequence[str], draw: Callable[[], Any]) -> None:
        """Write a picture, or note why there is none."""
        try:
            chart = draw()
        except NothingToDrawError as error:
            if str(error) not in self.refused:
                self.refused.append(str(error))
            return
        path = self.folder / f"{file_stem(kind, parts, self.taken)}.{self.form}"
        save_chart(chart, path)
        self.paths.append(path)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A unit to draw: the sweep's HPAs that are in it, its name, and how it is called."""

    result: SweepResult
    unit: str
    shown: str


def draw_pictures(request: PlotRequest, place: str, out: str) -> Drawn:
    """Draw what is asked for and write it; options are checked before anything is drawn.

    Raises:
        UsageError: an option that cannot be, or altair is not installed.
        HistoryError: the sweep, or a history, cannot be read.
        RefusedError: there is nothing to draw at all.
    """
    require_altair()
    _check_folder(out)
    drawn = Drawn(Path(out), request.format)
    if _is_history(place):
        _draw_history(request, place, drawn)
    else:
        result = open_sweep(place)
        if result.settings.height < 2:
            raise RefusedError(
                f"{place} has today's setting only, so there is nothing to compare: sweep with "
                "--grid"
            )
        _Plot(request, result, drawn).draw()
    if not drawn.paths:
        raise RefusedError("; ".join(drawn.refused))
    return drawn


def _is_history(place: str) -> bool:
    known = (ABOUT, INDEX)
    is_sweep = any(os.path.exists(os.path.join(place, name)) for name in known)
    return not is_sweep and ("://" in place or os.path.isdir(place))


def _draw_history(request: PlotRequest, place: str, drawn: Drawn) -> None:
    options = request.options()
    for name in _OF_SWEEPS:
        if getattr(request, name) != options[name].default:
            raise UsageError(f"{flag(name, options[name])} is for sweeps, and {place} is none")
    if not request.names:
        raise UsageError(
            f"which HPAs? Name them after {place}; `hpabatch replay {shlex.quote(place)}` tells "
            "those most worth a look"
        )
    _begin_ms(request.begin, 0)  # (what is wrong is told before anything is decided)
    with progress_on_stderr("replay_observations") as progress:
        progress("deciding", 0.0)
        try:
            history = open_history(place, "replay")
        except HistoryError as error:
            raise HistoryError(f"{error}; nor is it the folder of a sweep") from None
        replayed = replay(history, ReplayRequest(names=request.names))
        count, keys = replayed.summary.height, [replayed.summary, replayed.skipped]
        many = many_clusters(pl.concat(frame.select(KEY) for frame in keys))
        drawn.notes += replayed.warnings
        for k, hpa in enumerate(replayed.summary.iter_rows(named=True)):
            progress("drawing", k / count)
            key = tuple(hpa[name] for name in KEY)
            own = replayed.decisions.filter(
                *(pl.col(n) == v for n, v in zip(KEY, key, strict=True))
            )
            end_ms = round(hpa["last_ts"].timestamp() * 1000)
            draw = partial(
                recorded_chart,
                own,
                label(*key, with_cluster=many),
                profile=replayed.evidence["k8s"],
                from_ms=_begin_ms(request.begin, end_ms),
                length_ms=request.length_ms,
            )
            drawn.add("timeline", [label(*key, with_cluster=many)], draw)
        for hpa in replayed.skipped.iter_rows(named=True):
            name = label(*(hpa[part] for part in KEY), with_cluster=many)
            drawn.refused.append(f"{name}: {hpa['reason']}")


def _check_folder(out: str) -> None:
    """Refuse a place that is no folder."""
    if "://" in out or out in ("", "-"):
        raise UsageError(f"--out {out!r}: pictures go to a local folder; name one")
    if os.path.exists(out) and not os.path.isdir(out):
        raise UsageError(f"--out {out} is a file; name a folder")
    if out.lower().endswith((".svg", ".png")):
        raise UsageError(
            f"--out {out}: expected a folder, got a file's name (--format names a form)"
        )


class _Plot:
    """One run of the command: all options are checked before anything is drawn."""

    def __init__(self, request: PlotRequest, result: SweepResult, drawn: Drawn) -> None:
        """Check everything that was asked.

        Raises:
            UsageError: what is wrong.
        """
        self.request, self.result, self.drawn = request, result, drawn
        self.fields = [parse_fields(result, text) for text in request.heatmap]
        self.measures = None if request.measure is None else data.parse_measures(request.measure)
        self.goal = parse_goal(request.slo, request.minimize, result.blocks)
        self.setting = None if request.setting is None else setting_id(result, request.setting)
        self.keys = [data.hpa_key(result, name, "--timeline") for name in request.timeline]
        end = (pl.col("start") + pl.duration(hours="hours")).max().dt.timestamp("ms")
        self.from_ms = _begin_ms(request.begin, int(result.blocks.select(end).item() or 0))
        self._check_timelines()
        self.specs = Specs(result, settings_of(result))
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
        options = {"--from": request.begin, "--for": request.length_ms}
        options |= {"--history": request.history}
        given = [name for name, value in options.items() if value is not None]
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

    def draw(self) -> None:
        """Draw and write everything."""
        with progress_on_stderr("simulate_fleet" if self.keys else None) as progress:
            count = len(self.subjects) + 10 * len(self.keys)
            for k, subject in enumerate(self.subjects):
                progress("drawing", k / count)
                self._draw_unit(subject)
            for k, key in enumerate(self.keys):
                progress("simulating", (len(self.subjects) + 10 * k) / count)
                self._draw_timeline(key)

    def _draw_unit(self, subject: _Subject) -> None:
        marked = self._marked(subject)
        draw: Callable[[], Any]
        result, unit, goal, measures = subject.result, subject.unit, self.goal, self.measures
        if self.front:
            draw = partial(front_chart, result, unit, measures=measures, goal=goal, marked=marked)
            self.drawn.add("front", [subject.shown], draw)
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
            self.drawn.add("heatmap", [subject.shown, *fields], draw)

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
        self.drawn.add("timeline", [name], partial(self._timeline, key, name, chosen, word))

    def _timeline(self, key: Key, name: str, chosen: int, word: str) -> Any:
        """Run today's setting and the chosen one again, and draw both."""
        ids = [TODAY_ID] if chosen == TODAY_ID else [TODAY_ID, chosen]
        points = self._trajectories(key, ids)
        names = dict(self.result.settings.select("setting_id", "setting").iter_rows())
        if points.is_empty() or points["setting"].n_unique() < len(ids):
            raise NothingToDrawError(
                f"{name}: {names[chosen]} cannot be simulated for it: the setting does not fit"
            )
        shown = []
        for k in ids:
            most = None
            with suppress(HpabatchError):  # the limit is only one more line
                most = self.specs.under(key, k).max_replicas
            told = self.specs.told([key], k) if k else ""
            shown.append(Shown(names[k], AS_TODAY if k == TODAY_ID else word, most, told))
        return timeline_chart(
            points,
            name,
            shown,
            profile=profile_name(self.result),
            from_ms=self.from_ms,
            length_ms=self.request.length_ms,
        )

    def _trajectories(self, key: Key, ids: Sequence[int]) -> pl.DataFrame:
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


def _begin_ms(begin: str | None, end_ms: int) -> int | None:
    """Return the start of timelines; relative times are before an end (in ms)."""
    try:
        return None if begin is None else parse_time_ms(begin, end_ms)
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
            wanted = parse_setting(wanted, list(sets_of(result))).name
        except SettingError as error:
            raise UsageError(f"--setting {text}: {error}") from error
    if wanted not in names:
        raise UsageError(
            f"--setting {text}: the sweep has no such setting{did_you_mean(wanted, names)} (its "
            f"{last + 1} settings are in settings.parquet)"
        )
    return int(names[wanted])
