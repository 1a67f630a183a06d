"""Proposed map from a sample: time, names, level, usage; what its rows must tell comes later."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.importers.common.rows import CPU_COUNTER
from hpabatch.importers.table.map import Unpivot
from hpabatch.importers.table.propose.amounts import (
    Amount,
    TimeGuess,
    best,
    find_dates,
    find_relative,
    find_time,
    find_unread,
    percent_of,
    read_amount,
    read_amounts,
    stated_settings,
)
from hpabatch.importers.table.propose.names import (
    VALUE,
    Names,
    find_names,
    find_wide,
    long_metrics,
    name_entries,
    quoted_column,
    series_ids,
    with_labels,
)
from hpabatch.importers.table.propose.sample import (
    NUMBERS,
    Column,
    Kind,
    Sample,
    has_decimal_commas,
    profiles,
    words_of,
)
from hpabatch.importers.table.propose.text import Draft, Entry, flow, scalar
from hpabatch.inputs.cluster_objects import ClusterObjects
from hpabatch.inputs.documents import show

_CELLS: Final = 1 << 20
_SHOWN: Final = 12
_ASSUMED_SIZE: Final = {"cpu": "1", "memory": "1Gi"}
_OF_PERCENT: Final = {"cpu": ("1", "cores"), "memory": ("1073741824", "bytes")}
_RATIO: Final = 1.5


@dataclass(frozen=True, slots=True)
class Found:
    """A draft with what its settings are made from.

    `stated`: columns with an HPA's min, max and target (in percent). `failed`: the target of a
    metric of all rows without a value, "" without one.
    """

    draft: Draft
    names: Names
    amounts: list[Amount]
    metric: str
    stated: Mapping[str, Column]
    failed: str


def draft_map(
    sample: Sample, stem: str, objects: ClusterObjects | None = None, start: str = ""
) -> Found:
    """Return a draft without requests and HPAs; `stem` is the name of the file.

    Relative times begin at `start`. Names of `objects` tell what columns are where their own names
    do not.

    Raises:
        UsageError: no column holds times, or none holds usage.
    """
    draft = Draft()
    comma = has_decimal_commas(sample)
    columns = profiles(sample.frame, comma=comma)
    time = find_time(columns)
    if time is not None and start:
        raise UsageError(
            f"--start: expected relative times, got {time.shown()} in column {time.column.name}; "
            "leave --start out"
        )
    if time is None and start:
        time = find_relative(columns, start)
    if time is None:
        raise UsageError(_without_times(sample, columns))
    if comma:
        draft.top["format"] = Entry("{decimal: comma}", ("numbers such as 0,35",))
    wide = find_wide(time.column, columns)
    if wide is not None:
        columns = _turned(draft, sample, wide, comma=comma)
    rest = [column for column in columns if column.name != time.column.name]
    rest = _with_metrics(draft, rest, comma=comma)
    names = find_names(list(with_labels(rest)), objects)
    draft.level = names.level
    draft.columns["time"] = _time_entry(time)
    object_name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50].strip("-")
    draft.columns |= name_entries(names, object_name or "workload")
    container = names.get("container")
    if container is not None and not container.label and "POD" in container.distinct().to_list():
        # cAdvisor's rows of whole pods and of pause containers are left out.
        condition = f"{quoted_column(container.origin)} <> 'POD'"
        draft.top["where"] = Entry(scalar(condition), ("without the pods' pause containers",))
    stated = stated_settings(rest)
    amounts = _amounts(rest, names, words_of(stem))
    amounts += _utilization(rest, amounts, names, stated)
    chosen = _usage(draft, amounts, names, comma=comma)
    if (replicas := names.get("replicas")) is not None:
        draft.columns["replicas"] = Entry(scalar(replicas.name))
        if not replicas.whole():
            assumed = "the sizes are means over time, which are rounded"
            draft.top["rounding"] = Entry("{replicas: nearest}", assumed=assumed)
    metric = "" if chosen else _metric(draft, rest, names, sample)
    _limits(draft, amounts)
    taken = {*names.used(), *(a.column.name for a in chosen), *(c.name for c in stated.values())}
    _unused(draft, [column for column in rest if column.name not in taken], metric)
    failed = next((c for c in rest if c.key == "failed" and len(c.distinct()) == 1), None)
    goal = ""
    if failed is not None and not failed.values.null_count():
        goal = failed.examples(1)[0].removeprefix("<unknown>/")
    return Found(draft, names, amounts, metric, stated, goal)


def _without_times(sample: Sample, columns: Sequence[Column]) -> str:
    """Return what to do about a table of which no column can be read as times."""
    if differ := _different_times(sample):
        return differ
    path = sample.file.path
    if (relative := find_relative(columns, "")) is not None:
        name = relative.column.name
        return (
            f"{path}: expected a column of times from 2000 to 2100, got {name}, which counts from "
            f"0; state when {name} was 0, as in --start 2026-10-07T12:00:00Z"
        )
    if (dates := find_dates(columns)) is not None:
        return (
            f"{path}: expected times, got dates without a time of day in column {dates.name}, such "
            f"as {dates.examples(1)[0]}; export the time of each sample, in one column with its "
            "date: an HPA decides every 15 s, and a sample a day says nothing of it"
        )
    if (unread := find_unread(columns)) is not None:
        return (
            f"{path}: expected times in a known notation, got {show(unread.examples(1)[0])} in "
            f"column {unread.name}; export ISO 8601 or seconds since 1970, or write the map by "
            f"hand with columns.time: {{column: {scalar(unread.name)}, format: "
            "'%Y-%m-%d %H:%M:%S %Z', zone: Europe/Berlin} (%Z only where the name of a zone is "
            "behind them; docs/import.md)"
        )
    shown = ", ".join(column.name for column in columns[:_SHOWN])
    return (
        f"{path}: expected a column of times from 2000 to 2100, found none among {shown}; name it "
        "time, or write the map by hand (docs/import.md)"
    )


def _different_times(sample: Sample) -> str:
    """Return what to do where each file has times, in notations that differ; else ""."""
    found, begin = [], 0
    for path, rows in sample.parts:
        time = find_time(profiles(sample.frame.slice(begin, rows)))
        if time is None:
            return ""
        found.append((path.name, time))
        begin += rows
    name, first = found[0]
    for other, time in found[1:]:
        if (time.unit, time.format, time.zone) != (first.unit, first.format, first.zone):
            return (
                f"expected the same notation of time in all files, got {first.shown()} in {name} "
                f"and {time.shown()} in {other}; import the files of each notation by themselves, "
                "with a map of their own, into the same --out"
            )
    return ""


def _turned(draft: Draft, sample: Sample, wide: Unpivot, *, comma: bool) -> list[Column]:
    """Add `unpivot` and return the columns of the rows that it gives."""
    told = "a wide table: the columns beside these become rows"
    draft.top["unpivot"] = Entry(
        flow(
            keep=f"[{', '.join(map(scalar, wide.keep))}]",
            name=wide.name,
            value=wide.value,
            pattern=scalar(wide.pattern) if wide.pattern else "",
        ),
        (told,),
    )
    most = max(64, _CELLS // max(1, sample.frame.width))
    return profiles(wide.apply(sample.frame.head(most)), comma=comma)


def _with_metrics(draft: Draft, columns: list[Column], *, comma: bool) -> list[Column]:
    """Add `pivot` for a long table, a row per metric; return its columns and its metrics."""
    found = long_metrics(columns)
    if found is None:
        return columns
    pivot, metrics = found
    told = "a long table, a row per metric: the map names metrics as it names columns"
    draft.top["pivot"] = Entry(flow(name=scalar(pivot.name), value=scalar(pivot.value)), (told,))
    frame = pl.DataFrame([item.values.alias(item.name) for item in columns])
    rows = pivot.apply(frame, pivot.metrics(metrics, frame.columns))
    return profiles(rows.drop(pivot.name, pivot.value), comma=comma)


def _time_entry(time: TimeGuess) -> Entry:
    more = {"unit": time.unit, "zone": time.zone, "format": scalar(time.format),
            "start": scalar(time.start)}  # fmt: skip
    more = {key: value for key, value in more.items() if value not in ("", "''")}
    name = scalar(time.column.name)
    value = flow(column=name, **more) if more else name
    return Entry(value, (time.told,) if time.told else (), time.assumed)


def _amounts(columns: Sequence[Column], names: Names, hints: Sequence[str]) -> list[Amount]:
    """Return the amounts of the table; a column called value is read by its size.

    `hints` are words of the file's name; those of a wide table's first series count, too.
    """
    ids = series_ids(columns, len(columns[0].values) if columns else 0)
    left = [column for column in columns if column.name not in names.used()]
    found = read_amounts(left, ids)
    if any(amount.role == "usage" for amount in found):
        return found
    texts = [item for c in columns if c.kind is Kind.text for item in c.examples(1)]
    words = {*hints, *(word for item in texts for word in words_of(item.split("{")[0]))}
    for column in left:
        if column.words[:1] == (VALUE,) and column.kind in NUMBERS:
            resource = _resource(column, words)
            amount = read_amount(column, resource, ids) if resource else None
            if amount is not None and all(resource != item.resource for item in found):
                told = f"{resource}, {amount.assumed or amount.told}"
                found.append(replace(amount, told="", assumed=told))
    return found


def _utilization(
    columns: Sequence[Column],
    amounts: Sequence[Amount],
    names: Names,
    stated: Mapping[str, Column],
) -> list[Amount]:
    """Return the percentage of a workload that stands beside an HPA's target as usage of cpu."""
    if names.level != "workload" or best(amounts, "cpu") or "target" not in stated:
        return []
    used = {*names.used(), *(column.name for column in stated.values())}
    for column in columns:
        if column.name not in used and column.kind is Kind.number and percent_of(column):
            told = f"{column.name} is of cpu, as most targets are"
            return [Amount(column, "cpu", "usage", percent_of="request", assumed=told)]
    return []


def _resource(column: Column, hints: Collection[str]) -> str:
    if not {"cpu", "cores"}.isdisjoint(hints):
        return "cpu"
    if not {"mem", "memory", "rss"}.isdisjoint(hints) or column.quantile(0.5) >= 1e6:
        return "memory"
    is_small = column.quantile(0.99) < 1000 and not column.whole()
    return "cpu" if is_small or column.kind is Kind.quantity else ""


def _usage(draft: Draft, amounts: Sequence[Amount], names: Names, *, comma: bool) -> list[Amount]:
    """Add cpu and memory; return the amounts they are read from.

    The sum of counters is refused (UsageError): it falls when a pod goes, by what that one used.
    """
    cpu = best(amounts, "cpu")
    if names.level == "workload" and cpu is not None and cpu.unit == CPU_COUNTER:
        raise UsageError(
            f"column {show(cpu.column.name)}: expected usage, got a counter of all pods "
            "together, which falls when one of them goes; export its rate, as "
            "sum by (...) (rate(container_cpu_usage_seconds_total[1m])), or a row per pod"
        )
    chosen = [amount for amount in (cpu, best(amounts, "memory")) if amount is not None]
    for amount in chosen:
        draft.columns[amount.resource] = _usage_entry(amount, names.level, comma=comma)
    return chosen


def _usage_entry(amount: Amount, level: str, *, comma: bool) -> Entry:
    of, assumed = "", [amount.assumed] if amount.assumed else []
    if level == "workload":
        of = amount.statistic or "sum"
        if amount.percent_of and of == "sum":
            of = "mean"  # (a share of what the pods request is theirs on average)
        elif not amount.statistic:
            assumed.append("the sum over the pods of a workload; else of: mean (per pod)")
    number = quoted_column(amount.column.name)
    if comma:
        number = f"REPLACE({number}, ',', '.')"
    signs = amount.column.percent_signs()
    if signs:
        number = f"TRIM(REPLACE({number}, '%', ''))"
    unit, sql = amount.unit, f"TRY_CAST({number} AS DOUBLE)"
    if amount.percent_of:
        size, unit = _OF_PERCENT[amount.resource]
        hundred = "" if amount.column.quantile(0.99) <= _RATIO and not signs else " / 100"
        base = "limit" if amount.percent_of == "unknown" else amount.percent_of
        sql = f"{sql}{hundred} * {size}"
        assumed.append(
            f"a percentage of a {base} of {_ASSUMED_SIZE[amount.resource]}; write the right number "
            f"of {unit} here and the same {base} below"
        )
    elif amount.per_second > 1:
        sql = f"{sql} / {amount.per_second:.0f}"
    else:
        column = scalar(amount.column.name)
        value = flow(column=column, unit=unit, of=of)
        return Entry(value, amount.notes, "; ".join(assumed))
    return Entry(flow(sql=scalar(sql), unit=unit, of=of), amount.notes, "; ".join(assumed))


def _metric(draft: Draft, columns: Sequence[Column], names: Names, sample: Sample) -> str:
    """Add a Pods metric where there is no cpu or memory; return its name.

    Raises:
        UsageError: there is no number either.
    """
    numbers = [c for c in columns if c.kind is Kind.number and c.name not in names.used()]
    several = [c for c in numbers if len(c.distinct()) > 1]
    if not several:
        raise UsageError(
            f"{sample.file.path}: expected a column of usage (cpu, memory or a metric), found "
            "none; name it cpu, or write the map by hand (docs/import.md)"
        )
    column = min(several, key=lambda c: c.key != VALUE)
    of = _of_pods(column) if names.level == "workload" else ""
    name = re.sub(r"[^a-z0-9]+", "_", column.name.lower()).strip("_") or "metric"
    value = f"{{{scalar(name)}: {flow(column=scalar(column.name), unit='one', of=of)}}}"
    assumed = f"{column.name} is a metric of the pods, in whole units; no column is cpu or memory"
    draft.columns["metrics"] = Entry(value, assumed=assumed)
    return name


def _of_pods(column: Column) -> str:
    """Return what a number of a workload is over its pods, by its name."""
    if percent_of(column):
        return "mean"
    return next((word for word in ("mean", "max") if column.has(word)), "sum")


def _limits(draft: Draft, amounts: Sequence[Amount]) -> None:
    for resource in ("cpu", "memory"):
        for role, entries in (("limit", draft.limits), ("request", draft.requests)):
            if (amount := best(amounts, resource, role)) is not None:
                value = flow(column=scalar(amount.column.name), unit=amount.unit)
                entries[resource] = Entry(value, amount.notes, amount.assumed)
        usage = best(amounts, resource)
        if usage is not None and usage.percent_of:
            entries = draft.requests if usage.percent_of == "request" else draft.limits
            told = f"the same as in columns.{resource}"
            entries[resource] = Entry(_ASSUMED_SIZE[resource], assumed=told)


def _unused(draft: Draft, columns: Sequence[Column], metric: str) -> None:
    """Tell which columns nothing is read from, and how numbers become Pods metrics."""
    text = " ".join(entry.value for part in (draft.columns, draft.limits, draft.requests, draft.top)
                    for entry in part.values())  # fmt: skip
    left = [column for column in columns if scalar(column.name) not in text]
    if not left:
        return
    shown = ", ".join(column.name for column in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    draft.unused.append(f"not used: {shown}{more}")
    numbers = [c for c in left if c.kind is Kind.number and not c.has("cpu", "mem", "memory")]
    if numbers and not metric:
        of = f", of: {_of_pods(numbers[0])}" if draft.level == "workload" else ""
        name = scalar(numbers[0].name)
        draft.unused.append(
            "a number may be a Pods metric of an HPA: "
            f"metrics: {{{name}: {{column: {name}, unit: one{of}}}}}"
        )
