"""Proposed map from a sample: time, names, level, usage; what its rows must tell comes later."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.importers.common.rows import CPU_COUNTER
from hpabatch.importers.table.propose.amounts import (
    Amount,
    best,
    find_relative,
    find_time,
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
from hpabatch.importers.table.propose.text import Draft, flow, quoted_column, scalar
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
    usage: Mapping[str, Amount]
    metric: str
    stated: Mapping[str, Column]
    failed: str


def draft_map(
    sample: Sample,
    stem: str,
    start: str = "",
    asked: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Found:
    """Return a draft without requests and HPAs; `stem` is the name of the file.

    Relative times begin at `start`. `asked` has the keys of metrics that HPAs ask for, by name.

    Raises:
        UsageError: no column holds times, or none holds usage.
    """
    draft, comma = Draft(), has_decimal_commas(sample)
    columns = profiles(sample.frame, comma=comma)
    time = find_time(columns)
    if time is not None and start:
        example = show(time[0].examples(1)[0])
        raise UsageError(
            f"--start: expected relative times, got {example} in column {time[0].name}; "
            "leave --start out"
        )
    time = find_relative(columns, start) if start else time
    if time is None:
        raise UsageError(_without_times(sample, columns))
    if comma:
        draft.add("", "format", "{decimal: comma}", "numbers such as 0,35")
    if (wide := find_wide(time[0], columns)) is not None:
        told = "a wide table: the columns beside these become rows"
        keep = f"[{', '.join(map(scalar, wide.keep))}]"
        pattern = scalar(wide.pattern) if wide.pattern else ""
        value = flow(keep=keep, name=wide.name, value=wide.value, pattern=pattern)
        draft.add("", "unpivot", value, told)
        most = max(64, _CELLS // max(1, sample.frame.width))
        columns = profiles(wide.apply(sample.frame.head(most)), comma=comma)
    rest = [column for column in columns if column.name != time[0].name]
    if (long := long_metrics(rest)) is not None:
        pivot, metrics = long
        told = "a long table, a row per metric: the map names metrics as it names columns"
        value = flow(name=scalar(pivot.name), value=scalar(pivot.value))
        draft.add("", "pivot", value, told)
        frame = pl.DataFrame([item.values.alias(item.name) for item in rest])
        rows = pivot.apply(frame, pivot.metrics(metrics, frame.columns))
        rest = profiles(rows.drop(pivot.name, pivot.value), comma=comma)
    names = find_names(list(with_labels(rest)))
    draft.level = names.level
    object_name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50].strip("-")
    draft.sections["columns"] = {"time": time[1], **name_entries(names, object_name or "workload")}
    container = names.get("container")
    if container is not None and not container.label and "POD" in container.distinct().to_list():
        # cAdvisor's rows of whole pods and of pause containers are left out.
        condition = scalar(f"{quoted_column(container.origin)} <> 'POD'")
        draft.add("", "where", condition, "without the pods' pause containers")
    stated = stated_settings(rest)
    amounts = _amounts(rest, names, words_of(stem), stated)
    usage = {r: a for r in ("cpu", "memory") if (a := best(amounts, r)) is not None}
    for amount in usage.values():
        _add_usage(draft, amount, names.level, comma=comma)
    if (replicas := names.get("replicas")) is not None:
        draft.add("columns", "replicas", scalar(replicas.name))
        if not replicas.whole():
            assumed = "the sizes are means over time, which are rounded"
            draft.add("", "rounding", "{replicas: nearest}", assumed=assumed)
    found = [c for c in rest if c.name in asked and c.kind is Kind.number]
    if found:
        sources = {
            c.name: flow(
                column=scalar(c.name),
                unit="one",
                of="" if asked[c.name] else _of_pods(c, names.level),
                **asked[c.name],
            )
            for c in found
        }
        told = "metrics of these names that HPAs of --objects ask for, in whole units"
        value = ", ".join(f"{scalar(name)}: {source}" for name, source in sources.items())
        draft.add("columns", "metrics", f"{{{value}}}", told)
    metric = "" if usage or found else _add_metric(draft, rest, names, sample)
    _add_sizes(draft, amounts)
    taken = {*names.used(), *(a.column.name for a in usage.values())}
    taken |= {column.name for column in (*stated.values(), *found)}
    _tell_unused(draft, [column for column in rest if column.name not in taken])
    failed = next((c for c in rest if c.key == "failed" and len(c.distinct()) == 1), None)
    goal = ""
    if failed is not None and not failed.values.null_count():
        goal = failed.examples(1)[0].removeprefix("<unknown>/")
    return Found(draft, names, usage, metric, stated, goal)


def _without_times(sample: Sample, columns: Sequence[Column]) -> str:
    """Return what to do about a table of which no column can be read as times."""
    path = sample.file.path
    if (relative := find_relative(columns, "")) is not None:
        name = relative[0].name
        return (
            f"{path}: expected a column of times from 2000 to 2100, got {name}, which counts from "
            f"0; state when {name} was 0, as in --start 2026-10-07T12:00:00Z"
        )
    shown = ", ".join(column.name for column in columns[:_SHOWN])
    return (
        f"{path}: expected a column of times from 2000 to 2100 in a known notation, found none "
        f"among {shown}; export ISO 8601 or seconds since 1970, or write the map by hand with "
        "columns.time: {column: NAME, format: '%d.%m.%Y %H:%M:%S', zone: Europe/Berlin} "
        "(docs/import.md)"
    )


def _amounts(
    columns: Sequence[Column], names: Names, hints: Sequence[str], stated: Mapping[str, Column]
) -> list[Amount]:
    """Return the amounts of the table.

    A column called value is cpu or memory by `hints`, the words of the file's name, by those of a
    wide table's first series, or by its size. A percentage of a workload beside an HPA's target is
    of cpu.
    """
    left = [column for column in columns if column.name not in names.used()]
    found = read_amounts(left)
    texts = [item for c in columns if c.kind is Kind.text for item in c.examples(1)]
    words = {*hints, *(word for item in texts for word in words_of(item.split("{")[0]))}
    for column in left if all(amount.role != "usage" for amount in found) else ():
        if column.words[:1] != (VALUE,) or column.kind not in NUMBERS:
            continue
        resource, is_small = "", column.quantile(0.99) < 1000 and not column.whole()
        if words & {"cpu", "cores"}:
            resource = "cpu"
        elif words & {"mem", "memory", "rss"} or column.quantile(0.5) >= 1e6:
            resource = "memory"
        elif is_small or column.kind is Kind.quantity:
            resource = "cpu"
        amount = read_amount(column, resource, words) if resource else None
        if amount is not None and all(resource != item.resource for item in found):
            told = f"{resource}, {amount.assumed or amount.told}"
            found.append(replace(amount, told="", assumed=told))
    if names.level == "workload" and "target" in stated and best(found, "cpu") is None:
        used = [column.name for column in stated.values()]
        shares = (c for c in left if c.name not in used and c.kind is Kind.number and percent_of(c))
        for column in shares:
            told = f"{column.name} is of cpu, as most targets are"
            return [*found, Amount(column, "cpu", "usage", percent_of="request", assumed=told)]
    return found


def _add_usage(draft: Draft, amount: Amount, level: str, *, comma: bool) -> None:
    """Add cpu or memory.

    The sum of counters is refused (UsageError): it falls when a pod goes, by what that one used.
    """
    column, of, assumed = amount.column, "", [amount.assumed] if amount.assumed else []
    if level == "workload":
        if amount.unit == CPU_COUNTER:
            raise UsageError(
                f"column {show(column.name)}: expected usage, got a counter of all pods "
                "together, which falls when one of them goes; export its rate, as "
                "sum by (...) (rate(container_cpu_usage_seconds_total[1m])), or a row per pod"
            )
        of = amount.statistic or "sum"
        if amount.percent_of and of == "sum":
            of = "mean"  # (a share of what the pods request is theirs on average)
        elif not amount.statistic:
            assumed.append("the sum over the pods of a workload; else of: mean (per pod)")
    source, unit = {"column": scalar(column.name)}, amount.unit
    if amount.percent_of or amount.per_second > 1:
        number, signs = quoted_column(column.name), column.percent_signs()
        number = f"REPLACE({number}, ',', '.')" if comma else number
        number = f"TRIM(REPLACE({number}, '%', ''))" if signs else number
        sql = f"TRY_CAST({number} AS DOUBLE)"
        if amount.percent_of:
            size, unit = _OF_PERCENT[amount.resource]
            hundred = "" if column.quantile(0.99) <= _RATIO and not signs else " / 100"
            base = "limit" if amount.percent_of == "unknown" else amount.percent_of
            sql = f"{sql}{hundred} * {size}"
            assumed.append(
                f"a percentage of a {base} of {_ASSUMED_SIZE[amount.resource]}; write the right "
                f"number of {unit} here and the same {base} below"
            )
        else:
            sql = f"{sql} / {amount.per_second:.0f}"
        source = {"sql": scalar(sql)}
    value = flow(**source, unit=unit, of=of)
    draft.add("columns", amount.resource, value, amount.told, "; ".join(assumed))


def _add_metric(draft: Draft, columns: Sequence[Column], names: Names, sample: Sample) -> str:
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
    name = re.sub(r"[^a-z0-9]+", "_", column.name.lower()).strip("_") or "metric"
    source = flow(column=scalar(column.name), unit="one", of=_of_pods(column, names.level))
    assumed = f"{column.name} is a metric of the pods, in whole units; no column is cpu or memory"
    draft.add("columns", "metrics", f"{{{scalar(name)}: {source}}}", assumed=assumed)
    return name


def _of_pods(column: Column, level: str) -> str:
    """Return what a number of a workload is over its pods, by its name; "" at pod level."""
    if level == "pod":
        return ""
    if percent_of(column):
        return "mean"
    return next((word for word in ("mean", "max") if column.has(word)), "sum")


def _add_sizes(draft: Draft, amounts: Sequence[Amount]) -> None:
    """Add limits and requests that columns have, or of which usage is a percentage."""
    for resource in ("cpu", "memory"):
        for role in ("limit", "request"):
            if (amount := best(amounts, resource, role)) is not None:
                value = flow(column=scalar(amount.column.name), unit=amount.unit)
                draft.add(f"{role}s", resource, value, amount.told, amount.assumed)
        usage = best(amounts, resource)
        if usage is not None and usage.percent_of:
            section = "requests" if usage.percent_of == "request" else "limits"
            told = f"the same as in columns.{resource}"
            draft.add(section, resource, _ASSUMED_SIZE[resource], assumed=told)


def _tell_unused(draft: Draft, columns: Sequence[Column]) -> None:
    """Tell which columns nothing is read from."""
    text = " ".join(e.value for part in draft.sections.values() for e in part.values())
    left = [column for column in columns if scalar(column.name) not in text]
    if not left:
        return
    shown = ", ".join(column.name for column in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    draft.unused.append(f"not used: {shown}{more}")
