"""Proposed map from a sample: time, names, level, usage; what its rows must tell comes later."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.importers.common.units import CPU_COUNTER
from hpabatch.importers.table.propose.columns import (
    Column,
    Kind,
    has_decimal_commas,
    profiles,
    words_of,
)
from hpabatch.importers.table.propose.names import (
    Names,
    find_names,
    name_entries,
    quoted_column,
)
from hpabatch.importers.table.propose.sample import Sample
from hpabatch.importers.table.propose.text import Draft, Entry, flow, scalar
from hpabatch.importers.table.propose.times import (
    TimeGuess,
    find_dates,
    find_relative,
    find_time,
    find_unread,
)
from hpabatch.importers.table.propose.usage import (
    Amount,
    best,
    percent_of,
    read_amount,
    read_amounts,
    stated_settings,
)
from hpabatch.importers.table.propose.wide import (
    VALUE,
    candidates,
    find_wide,
    long_metrics,
    series_ids,
)
from hpabatch.importers.table.unpivot import Unpivot
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
    unpivot: Unpivot | None
    time: str
    stated: Mapping[str, Column]
    failed: str = ""


def draft_map(
    sample: Sample, stem: str, objects: ClusterObjects | None = None, start: str = ""
) -> Found:
    """Return a draft without requests and HPAs; `stem` is the name of the file.

    Relative times begin at `start`.

    Names of `objects` tell what columns are where their own names do not.

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
    names = find_names(candidates(rest), rest, objects)
    draft.level = names.level
    draft.columns["time"] = _time_entry(time)
    draft.columns |= name_entries(names, _object_name(stem))
    _skip_pauses(draft, names)
    ids = series_ids(rest, len(rest[0].values) if rest else 0)
    hints = (*words_of(stem), *_header_words(rest))
    amounts = _amounts(rest, ids, names, hints)
    stated = stated_settings(rest)
    amounts += _utilization(rest, amounts, names, stated)
    chosen = _usage(draft, amounts, names, comma=comma)
    if names.replicas is not None:
        draft.columns["replicas"] = Entry(scalar(names.replicas.name))
        if not names.replicas.whole():
            assumed = "the sizes are means over time, which are rounded"
            draft.top["rounding"] = Entry("{replicas: nearest}", assumed=assumed)
    named = ""
    if not chosen:
        named = _metric(draft, rest, names, sample)
    _limits(draft, amounts, names)
    taken = [*(amount.column for amount in chosen), *stated.values()]
    _unused(draft, rest, names, [column.name for column in taken], named)
    failed = next((c for c in rest if c.key == "failed" and c.distinct() == 1), None)
    goal = ""
    if failed is not None and not failed.values.null_count():
        goal = failed.examples(1)[0].removeprefix("<unknown>/")
    return Found(draft, names, amounts, named, wide, time.column.name, stated, goal)


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
            "'%Y-%m-%d %H:%M:%S', zone: Europe/Berlin} (docs/import.md)"
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
        found.append((path, time))
        begin += rows
    (path, first) = found[0]
    for other, time in found[1:]:
        if (time.unit, time.format, time.zone) != (first.unit, first.format, first.zone):
            return (
                f"expected the same notation of time in all files, got {first.shown()} in "
                f"{path.name} and {time.shown()} in {other.name}; import the files of each "
                "notation by themselves, with a map of their own, into the same --out"
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


def _skip_pauses(draft: Draft, names: Names) -> None:
    """Leave out cadvisor's rows of whole pods and of pause containers."""
    container = names.container
    if container is None or container.label or "where" in draft.top:
        return
    if "POD" in container.column.values.drop_nulls().unique().to_list():
        condition = f"{quoted_column(container.origin)} <> 'POD'"
        draft.top["where"] = Entry(scalar(condition), ("without the pods' pause containers",))


def _object_name(stem: str) -> str:
    """Return a file's name as an object's."""
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    return name[:50].strip("-") or "workload"


def _header_words(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the words of the first series of a wide table or of labels."""
    texts = [column.examples(1) for column in columns if column.kind is Kind.text]
    return tuple(word for text in texts for item in text for word in words_of(item.split("{")[0]))


def _amounts(
    columns: Sequence[Column], ids: pl.Series, names: Names, hints: Sequence[str]
) -> list[Amount]:
    """Return the amounts of the table; a column called value is read by its size."""
    used = names.used()
    left = [column for column in columns if column.name not in used]
    found = read_amounts(left, ids)
    if any(amount.role == "usage" for amount in found):
        return found
    for column in left:
        if column.words[:1] == (VALUE,) and column.kind in (Kind.number, Kind.quantity):
            resource = _resource(column, hints)
            amount = read_amount(column, resource, ids) if resource else None
            if amount is not None and all(resource != item.resource for item in found):
                sure = {"cpu": "cpu", "memory": "memory"}[resource]
                told = f"{sure}, {amount.assumed or amount.told}"
                found.append(replace(amount, told="", assumed=told))
    return found


def _utilization(
    columns: Sequence[Column],
    amounts: Sequence[Amount],
    names: Names,
    stated: Mapping[str, Column],
) -> list[Amount]:
    """Return the percentage of a workload that stands beside an HPA's target as usage of cpu."""
    if names.level != "workload" or best(amounts, "cpu", ("usage",)) or "target" not in stated:
        return []
    used = {*names.used(), *(column.name for column in stated.values())}
    for column in columns:
        if column.name not in used and column.kind is Kind.number and percent_of(column):
            told = f"{column.name} is of cpu, as most targets are"
            return [Amount(column, "cpu", "usage", percent_of="request", assumed=told)]
    return []


def _resource(column: Column, hints: Sequence[str]) -> str:
    if {"cpu", "cores"} & set(hints):
        return "cpu"
    if {"mem", "memory", "rss"} & set(hints):
        return "memory"
    if column.quantile(0.5) >= 1e6:
        return "memory"
    is_small = column.quantile(0.99) < 1000 and not column.whole()
    return "cpu" if is_small or column.kind is Kind.quantity else ""


def _usage(draft: Draft, amounts: Sequence[Amount], names: Names, *, comma: bool) -> list[Amount]:
    """Add cpu and memory; return the amounts they are read from."""
    chosen = []
    if names.level == "workload":
        _refuse_counter(best(amounts, "cpu", ("usage",)))
    for resource in ("cpu", "memory"):
        amount = best(amounts, resource, ("usage",))
        if amount is not None:
            draft.columns[resource] = _usage_entry(amount, names, comma=comma)
            chosen.append(amount)
    return chosen


def _refuse_counter(amount: Amount | None) -> None:
    """Refuse the sum of counters: it falls when a pod goes, by what that one had used."""
    if amount is not None and amount.unit == CPU_COUNTER:
        raise UsageError(
            f"column {show(amount.column.name)}: expected usage, got a counter of all pods "
            "together, which falls when one of them goes; export its rate, as "
            "sum by (...) (rate(container_cpu_usage_seconds_total[1m])), or a row per pod"
        )


def _usage_entry(amount: Amount, names: Names, *, comma: bool) -> Entry:
    of, assumed = "", [amount.assumed] if amount.assumed else []
    if names.level == "workload":
        of = amount.statistic or "sum"
        if amount.percent_of and of == "sum":
            of = "mean"  # (a share of what the pods request is theirs on average)
        elif not amount.statistic:
            other = "sum" if of == "mean" else "mean (per pod)"
            assumed.append(f"the {of} over the pods of a workload; else of: {other}")
    name = scalar(amount.column.name)
    told = (amount.told,) if amount.told else ()
    number = quoted_column(amount.column.name)
    if comma:
        number = f"REPLACE({number}, ',', '.')"
    signs = amount.column.percent_signs()
    if signs:
        number = f"TRIM(REPLACE({number}, '%', ''))"
    number = f"TRY_CAST({number} AS DOUBLE)"
    if amount.percent_of:
        size, unit = _OF_PERCENT[amount.resource]
        hundred = "" if amount.column.quantile(0.99) <= _RATIO and not signs else " / 100"
        base = "limit" if amount.percent_of == "unknown" else amount.percent_of
        sql = f"{number}{hundred} * {size}"
        assumed.append(
            f"a percentage of a {base} of {_ASSUMED_SIZE[amount.resource]}; write the right number "
            f"of {unit} here and the same {base} below"
        )
        return Entry(flow(sql=scalar(sql), unit=unit, of=of), told, "; ".join(assumed))
    if amount.per_second > 1:
        sql = f"{number} / {amount.per_second:.0f}"
        return Entry(flow(sql=scalar(sql), unit=amount.unit, of=of), told, "; ".join(assumed))
    return Entry(flow(column=name, unit=amount.unit, of=of), told, "; ".join(assumed))


def _metric(draft: Draft, columns: Sequence[Column], names: Names, sample: Sample) -> str:
    """Add a Pods metric where there is no cpu or memory; return its name.

    Raises:
        UsageError: there is no number either.
    """
    used = names.used()
    numbers = [c for c in columns if c.kind is Kind.number and c.name not in used]
    several = [c for c in numbers if c.distinct() > 1]
    if not several:
        raise UsageError(
            f"{sample.file.path}: expected a column of usage (cpu, memory or a metric), found "
            "none; name it cpu, or write the map by hand (docs/import.md)"
        )
    column = min(several, key=lambda c: c.key != VALUE)
    of = ""
    if names.level == "workload":
        of = _of_pods(column)
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


def _limits(draft: Draft, amounts: Sequence[Amount], names: Names) -> None:
    """Add limits and requests that the table has."""
    for resource in ("cpu", "memory"):
        for role, entries in (("limit", draft.limits), ("request", draft.requests)):
            amount = best(amounts, resource, (role,))
            if amount is not None:
                entries[resource] = Entry(
                    flow(column=scalar(amount.column.name), unit=amount.unit),
                    (amount.told,) if amount.told else (),
                    amount.assumed,
                )
        usage = best(amounts, resource, ("usage",))
        if usage is not None and usage.percent_of and resource in draft.columns:
            size = _ASSUMED_SIZE[resource]
            entries = draft.requests if usage.percent_of == "request" else draft.limits
            entries[resource] = Entry(size, assumed=f"the same as in columns.{resource}")


def _unused(
    draft: Draft, columns: Sequence[Column], names: Names, chosen: Sequence[str], metric: str
) -> None:
    """Tell which columns nothing is read from, and how numbers become Pods metrics."""
    text = " ".join(entry.value for part in (draft.columns, draft.limits, draft.requests, draft.top)
                    for entry in part.values())  # fmt: skip
    used = {*names.used(), *chosen}
    left = [c for c in columns if c.name not in used and scalar(c.name) not in text]
    if not left:
        return
    shown = ", ".join(column.name for column in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    draft.unused.append(f"not used: {shown}{more}")
    numbers = [c for c in left if c.kind is Kind.number and not c.has("cpu", "mem", "memory")]
    if numbers and not metric:
        of = f", of: {_of_pods(numbers[0])}" if draft.level == "workload" else ""
        name = numbers[0].name
        draft.unused.append(
            "a number may be a Pods metric of an HPA: "
            f"metrics: {{{scalar(name)}: {{column: {scalar(name)}, unit: one{of}}}}}"
        )
