"""Proposal of a map for a table: read a sample, decide, and hold the map against the sample.

Requests and HPAs are guesses from the rows' usage, marked as assumed.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.files import atomic_path
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import find_files
from hpabatch.importers.table.map import Level
from hpabatch.importers.table.objects import Beside, metrics_of
from hpabatch.importers.table.pods import without_duplicates
from hpabatch.importers.table.propose.draft import Found, draft_map
from hpabatch.importers.table.propose.sample import Sample, read_sample
from hpabatch.importers.table.propose.text import Entry, scalar
from hpabatch.importers.table.rows import (
    KEY,
    METRIC,
    POD_KEY,
    UNKNOWN_POD,
    WORKLOAD_KEY,
    Tally,
    clean_rows,
    dropped_lines,
    key_rank,
)
from hpabatch.importers.table.values import SHARED
from hpabatch.inputs.cluster_objects import ClusterObjects, read_objects
from hpabatch.model.printable import counted

_CONTAINER: Final = ("namespace", "target", "container")
_MOST_LISTED: Final = 100
_LEAST_MAX: Final = 10
_HEADROOM: Final = 2.0
_TARGET: Final = "60%"
_MINUTE_MS: Final = 60_000
_STATE = (
    "state the right ones here, or repeat --init with --objects FILE (kubectl get deploy,sts,rs,ds,"
    "hpa,pods,pdb -A -o yaml)"
)
_CHECKED_ROWS: Final = 1 << 19


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed map.

    Attributes:
        assumed: what it assumes, the same as in the text.
        notes: what was read, and what the rows of the sample lack.
    """

    text: str
    assumed: tuple[str, ...]
    notes: tuple[str, ...]


def propose(
    inputs: Sequence[str],
    place: str | None,
    objects: Sequence[str] = (),
    start: str | None = None,
) -> Proposal:
    """Return a proposed map; with a place, write it to that file, which must not exist yet.

    Raises:
        UsageError: the file exists or cannot be written; and as `propose_map`.
    """
    if place is not None and os.path.lexists(place):
        raise UsageError(
            f"{place} exists, and --init replaces no map: name a new file with --map, or compare "
            "with what --init prints without --map"
        )
    found = propose_map(inputs, objects, start)
    if place is not None:
        with atomic_path(place) as temporary:
            temporary.write_text(found.text)
    return found


def propose_map(
    inputs: Sequence[str], objects: Sequence[str] = (), start: str | None = None
) -> Proposal:
    """Return a map for files, folders and patterns; what files of objects say it leaves out.

    Relative times begin at `start`.

    Raises:
        UsageError, HistoryError: a file cannot be read or has no times or no usage.
        RefusedError: no row of the sample is left.
    """
    beside = Beside(read_objects(objects)) if objects else None
    paths = find_files(inputs)
    sample = read_sample(paths)
    asked = {} if beside is None else _asked(beside)
    found = draft_map(sample, paths[0].name.split(".")[0], start or "", asked)
    draft = found.draft
    part = "all" if sample.whole else f"{sample.frame.height:,} of about"
    told = f"{part} {counted(sample.rows, 'row')} of {paths[0].name}"
    if len(paths) > 1:
        told += f" and {counted(len(paths) - 1, 'more file')}"
    draft.title = [
        f"Proposed by hpabatch import table --init from {told}.",
        "It imports as it stands; check the lines marked `assumed`. All keys: docs/import.md.",
    ]
    if beside is not None:
        _leave_to_objects(found, beside.objects)
    else:
        rows, _ = _checked(found, sample, None)
        _add_requests(found, rows)
        _add_hpas(found, rows)
    rows, tally = _checked(found, sample, beside)
    usable = tally.read - tally.excluded - sum(tally.dropped.values())
    # (of a long table several rows make one sample)
    made = "" if rows.height == usable else f", which make {counted(rows.height, 'sample')}"
    notes = [f"read {told}: {usable:,} of {counted(tally.read, 'checked row')} usable{made}"]
    if tally.excluded:
        notes.append(f"not wanted (`where`): {counted(tally.excluded, 'row')}")
    # Rows of a part of the table have other numbers.
    places = tally.places() if sample.whole and sample.files == 1 else {}
    notes += [f"left out: {text}" for text in dropped_lines(tally.dropped, places)]
    return Proposal(draft.text(), tuple(draft.assumptions()), tuple(notes))


def _asked(beside: Beside) -> dict[str, dict[str, str]]:
    """Return the keys of the metrics that HPAs ask for, by name; not where those differ."""
    found: dict[str, set[tuple[str, str, str, str]]] = {}
    for hpa in beside.objects.hpas.values():
        for metric in metrics_of(hpa):
            found.setdefault(metric[1], set()).add(metric)
    keys = {}
    for name, ways in found.items():
        (kind, _, described, selector), *others = ways
        if not others and kind in (*SHARED, "Pods"):
            texts = {"object": described, "selector": selector}
            keys[name] = {} if kind == "Pods" else {"type": kind} | {
                key: scalar(text) for key, text in texts.items() if text
            }  # fmt: skip
    return keys


def _checked(found: Found, sample: Sample, beside: Beside | None) -> tuple[pl.DataFrame, Tally]:
    """Return the clean rows that a draft's map gives of the sample.

    Raises:
        RefusedError: there are none.
    """
    with tempfile.TemporaryDirectory(prefix="hpabatch-init-") as folder:
        place = Path(folder, "map.yaml")
        place.write_text(found.draft.text())
        table = read_map(place, beside)
    raw = sample.frame
    if table.unpivot is None:
        raw = raw.select(table.read_columns(raw.columns)).head(_CHECKED_ROWS)
    else:
        most = max(64, _CHECKED_ROWS // max(1, raw.width))
        raw = table.unpivot.apply(raw.head(most)).select(table.used_columns())
    rows, tally = clean_rows(raw, 0, sample.file, table)
    if rows.is_empty():
        reasons = "; ".join(dropped_lines(tally.dropped, {}))
        fix = "write the map by hand (docs/import.md)"
        if beside is not None and tally.dropped[UNKNOWN_POD]:
            fix = "give the objects of the cluster that the table is of, or state columns.namespace"
        raise RefusedError(
            f"{sample.file.path}: no row of the sample has a time, a name and usage"
            + (f" ({reasons}); {fix}" if reasons else f"; {fix}")
        )
    if table.pivot is not None:
        names = (POD_KEY if table.level is Level.pod else WORKLOAD_KEY)[:-1]
        keyed = rows.with_columns(key_rank(rows, names).alias(KEY)).sort(KEY, "ts", "seq")
        rows, _ = without_duplicates(keyed, table)
    return rows, tally


def _leave_to_objects(found: Found, objects: ClusterObjects) -> None:
    """Take out of a draft what objects say: the owners of pods, and the namespace where none is."""
    draft, names = found.draft, found.names
    told = "Requests, limits, owners and HPAs are those of --objects."
    if not (objects.workloads or objects.pods):
        told = "HPAs are those of --objects, which has neither workloads nor pods: state the "
        told += "requests, as in `requests: {cpu: 250m}`."
    draft.title.append(told)
    pod, workload = names.get("pod"), names.get("workload")
    if workload is None and pod is not None:
        draft.sections["columns"].pop("workload", None)
        draft.sections["columns"].pop("kind", None)
    if (item := pod or workload) is not None and names.get("namespace") is None:
        there = set(item.distinct().cast(pl.String))
        among = objects.workloads if pod is None else objects.pods
        for namespace, count in Counter(k[0] for k in among if k[-1] in there).most_common(1):
            told = f"the namespace in which the objects have {count:,} of these names"
            draft.add("columns", "namespace", f"{{value: {scalar(namespace)}}}", told)


def _add_requests(found: Found, rows: pl.DataFrame) -> None:
    """Add requests of twice the median usage of a container, by workload (and container)."""
    draft = found.draft
    resource = next(iter(found.usage), "")
    if not resource or resource in draft.sections["requests"]:
        return
    draft.guessed.append("requests")
    if resource in draft.sections["limits"]:
        told = f"requests equal the limits, as where a manifest has no requests; {_STATE}"
        draft.add("requests", resource, "{of_limit: 1}", assumed=told)
        return
    usage = _usage_per_pod(found, rows, resource)
    # Under an assumed namespace the keys must not name it: it is the first thing to be edited.
    is_named = "namespace" in found.names.columns and found.names.level == "pod"
    several = is_named and usage["container"].n_unique() > 1
    name = pl.concat_str(*_CONTAINER, separator="/") if several else pl.col("target")
    by = usage.group_by(name.alias("name")).agg(pl.col("usage").median()).drop_nulls().sort("name")
    default = _quantity(_median(usage["usage"]), resource)
    why = f"twice the median usage, so that a pod is at half of its request; {_STATE}"
    if by.height < 2 or by.height > _MOST_LISTED:
        draft.add("requests", resource, default, assumed=why)
        return
    listed = [f"  {scalar(name)}: {_quantity(value, resource)}" for name, value in by.rows()]
    lines = (f"default: {default}", "workloads:", *listed)
    draft.sections["requests"][resource] = Entry("", assumed=why, rows=lines)


def _usage_per_pod(found: Found, rows: pl.DataFrame, resource: str) -> pl.DataFrame:
    usage, entry = pl.col(resource), found.draft.sections["columns"][resource]
    if found.usage[resource].per_second:
        series = ["cluster", "namespace", "target", "pod", "container"]
        rows = rows.sort(*series, "ts")
        usage = usage.diff().over(series) * 1e3 / pl.col("ts").diff().over(series)
    elif found.names.level == "workload" and "of: sum" in entry.value:
        usage = usage / pl.col("replicas").replace(0, None)
    names = [name for name in _CONTAINER if name in rows.columns]
    frame = rows.select(*names, usage.alias("usage"))
    return frame.filter(pl.col("usage") > 0, pl.col("usage").is_finite())


def _median(values: pl.Series) -> float:
    return float(values.median() or 0.0)  # type: ignore[arg-type]


def _quantity(usage: float, resource: str) -> str:
    """Return twice a usage (millicores or bytes) with two digits, as a quantity."""
    wanted = max(usage, 0.0) * _HEADROOM / (2**20 if resource == "memory" else 1)
    number = max(1, math.ceil(wanted))
    unit = int(10 ** max(0, len(str(number)) - 2))
    return f"{-(-number // unit) * unit}{'Mi' if resource == 'memory' else 'm'}"


def _add_hpas(found: Found, rows: pl.DataFrame) -> None:
    """Add a template: what columns say of all HPAs, and of each where they differ."""
    draft, resource = found.draft, next(iter(found.usage), "")
    same = {k: c for k, c in found.stated.items() if len(c.distinct()) == 1 and c.whole()}
    stated = {key: int(column.numbers.drop_nulls()[0]) for key, column in same.items()}
    least, most = _sizes(found, rows)
    least, most = stated.get("min", least), stated.get("max", max(most, _LEAST_MAX))
    target = f"{stated['target']}%" if "target" in stated else _TARGET
    keys, goal = [f"min: {least}", f"max: {most}"], f"by {found.metric}"
    if resource:
        keys.append(f"{resource}: {target}")
        goal = f"at {target} of the {resource} request"
        if found.failed:
            # A metric that never has a value, whatever its type was.
            amount = "1" if found.failed.endswith("%") else found.failed
            keys.append(f"metrics: [{_pods_metric('unknown', amount)}]")
    else:
        values = rows[METRIC + found.metric]
        if found.names.level == "workload":
            values = values / rows["replicas"].replace(0, None)
        milli = max(1, round(_median(values.filter(values > 0))))
        keys.append(f"metrics: [{_pods_metric(scalar(found.metric), f'{milli}m')}]")
    own = _stated_by_workload(found) if len(stated) < len(found.stated) else {}
    if len(stated) < len(("min", "max", "target")) and not own:
        draft.guessed.append("hpas")
    names = [found.stated[key].name for key in (found.stated if own else stated)]
    told = f"every workload has an HPA, from {least} to {most} replicas {goal}"
    draft.add(
        "hpas",
        "template",
        f"{{{', '.join(keys)}}}",
        f"as in {', '.join(names)}" if names else "",
        f"{told}; --objects answers this, too",
    )
    if own:
        draft.sections["hpas"]["workloads"] = Entry("", rows=tuple(own))


def _pods_metric(name: str, amount: str) -> str:
    target = f"target: {{type: AverageValue, averageValue: {amount}}}"
    return f"{{type: Pods, pods: {{metric: {{name: {name}}}, {target}}}}}"


def _sizes(found: Found, rows: pl.DataFrame) -> tuple[int, int]:
    """Return the smallest and largest number of pods of a workload in the sample."""
    if found.names.level == "workload":
        sizes = rows["replicas"].drop_nulls()
        sizes = sizes.filter(sizes > 0)
    else:
        minute = rows.group_by("cluster", "namespace", "target", pl.col("ts") // _MINUTE_MS)
        sizes = minute.agg(pl.col("pod").n_unique())["pod"]
    least, most = sizes.min(), sizes.max()
    if not isinstance(least, int) or not isinstance(most, int):
        return 1, 1
    # A pod-level minute may have pods that come and go: only a recorded size says a minimum.
    return (least if found.names.level == "workload" else 1), most


def _stated_by_workload(found: Found) -> list[str]:
    """Return what columns say of each HPA last, by workload; nothing where one is unknown."""
    workload = found.names.get("workload")
    if workload is None or len(found.stated) < 3 or found.names.level != "workload":
        return []
    columns = {key: column.numbers.cast(pl.Int64) for key, column in found.stated.items()}
    rows = pl.DataFrame({"name": workload.values.cast(pl.String), **columns}).drop_nulls()
    rows = rows.unique("name", keep="last", maintain_order=True).sort("name")
    if rows.height > _MOST_LISTED:
        return []
    return [
        f"{scalar(name)}: {{min: {least}, max: {most}, cpu: {target}%}}"
        for name, least, most, target in rows.select("name", "min", "max", "target").rows()
    ]
