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
from hpabatch.importers.table.objects import Beside
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
from hpabatch.inputs.cluster_objects import ClusterObjects, read_objects
from hpabatch.model.printable import counted
from hpabatch.model.suggestions import near_path

_CONTAINER: Final = ("namespace", "target", "container")
_MOST_LISTED: Final = 100
_SHOWN: Final = 4
_LEAST_MAX: Final = 10
_HEADROOM: Final = 2.0
_TARGET: Final = "60%"
_MINUTE_MS: Final = 60_000
_STATE = (
    "state the right ones here, or repeat --init with --objects FILE (kubectl get deploy,sts,rs,ds,"
    "hpa,pods,pdb -A -o yaml)"
)


def add_settings(found: Found, rows: pl.DataFrame) -> None:
    """Add requests and HPAs to a draft; `rows` are its clean rows of the sample."""
    draft = found.draft
    resource = next((name for name in ("cpu", "memory") if name in draft.columns), "")
    if resource and resource not in draft.limits and resource not in draft.requests:
        draft.requests[resource] = _request(found, rows, resource)
        draft.guessed.append("requests")
    elif resource and resource not in draft.requests:
        told = f"requests equal the limits, as where a manifest has no requests; {_STATE}"
        draft.requests[resource] = Entry("{of_limit: 1}", assumed=told)
        draft.guessed.append("requests")
    # What columns say of the HPAs, as far as they say the same of all rows.
    constant = {k: c for k, c in found.stated.items() if len(c.distinct()) == 1 and c.whole()}
    stated = {key: int(column.numbers.drop_nulls()[0]) for key, column in constant.items()}
    least, most = _sizes(found, rows)
    least = stated.get("min", least)
    most = stated.get("max", max(most, _LEAST_MAX))
    target = f"{stated['target']}%" if "target" in stated else _TARGET
    keys = [f"min: {least}", f"max: {most}"]
    if resource:
        keys.append(f"{resource}: {target}")
    else:
        keys.append(f"metrics: [{_pods_metric(found, rows)}]")
    if resource and found.failed:
        # A metric that never has a value, whatever its type was.
        amount = "1" if found.failed.endswith("%") else found.failed
        goal = f"target: {{type: AverageValue, averageValue: {amount}}}"
        keys.append(f"metrics: [{{type: Pods, pods: {{metric: {{name: unknown}}, {goal}}}}}]")
    goal = f"at {target} of the {resource} request" if resource else f"by {found.metric}"
    told = f"every workload has an HPA, from {least} to {most} replicas {goal}"
    own = _stated_by_workload(found) if len(stated) < len(found.stated) else {}
    if len(stated) < 3 and not own:
        draft.guessed.append("hpas")
    names = [found.stated[key].name for key in (found.stated if own else stated)]
    draft.hpas["template"] = Entry(
        f"{{{', '.join(keys)}}}",
        (f"as in {', '.join(names)}",) if names else (),
        f"{told}; --objects answers this, too",
    )
    if own:
        draft.hpas["workloads"] = Entry("", rows=tuple(f"{k}: {v}" for k, v in own.items()))


def _stated_by_workload(found: Found) -> dict[str, str]:
    """Return what columns say of each HPA last, by workload; none where one is unknown."""
    workload = found.names.get("workload")
    if workload is None or len(found.stated) < 3 or found.names.level != "workload":
        return {}
    columns = {key: column.numbers.cast(pl.Int64) for key, column in found.stated.items()}
    rows = pl.DataFrame({"name": workload.values.cast(pl.String), **columns}).drop_nulls()
    rows = rows.unique("name", keep="last", maintain_order=True).sort("name")
    if rows.height > _MOST_LISTED:
        return {}
    keys = {"min": "min: {}", "max": "max: {}", "target": "cpu: {}%"}
    return {
        scalar(row["name"]): f"{{{', '.join(form.format(row[k]) for k, form in keys.items())}}}"
        for row in rows.iter_rows(named=True)
    }


def leave_to_objects(found: Found, objects: ClusterObjects) -> None:
    """Take out of a draft what objects say: the owners of pods, and the namespace where none is."""
    names, columns = found.names, found.draft.columns
    told = "Requests, limits, owners and HPAs are those of --objects."
    if not (objects.workloads or objects.pods):
        told = "HPAs are those of --objects, which has neither workloads nor pods: state the "
        told += "requests, as in `requests: {cpu: 250m}`."
    found.draft.title.append(told)
    pod, workload = names.get("pod"), names.get("workload")
    if workload is None and pod is not None:
        columns.pop("workload", None)
        columns.pop("kind", None)
    known: Counter[str] = Counter()
    if (item := pod or workload) is not None and names.get("namespace") is None:
        there = set(item.distinct().cast(pl.String))
        among = objects.workloads if pod is None else objects.pods
        known.update(key[0] for key in among if key[-1] in there)
    if known:
        namespace, count = known.most_common(1)[0]
        told = f"the namespace in which the objects have {count:,} of these names"
        columns["namespace"] = Entry(f"{{value: {scalar(namespace)}}}", (told,))


def told_unknown(found: Found, objects: ClusterObjects) -> str:
    """Return which workloads (of pods) table and objects have, where they have none in common."""
    names = found.names
    item = names.get("pod") or names.get("workload")
    if item is None:
        return ""
    pods = item.values.cast(pl.String)
    if "pod" in names.columns and names.pod_names is not None:
        pods = pods.str.extract(names.pod_names.pattern, 1)
    known = sorted({key[2] for key in objects.workloads})
    if (space := names.get("namespace")) is not None:
        pods = space.values.cast(pl.String) + "/" + pods
        known = sorted({f"{key[0]}/{key[2]}" for key in objects.workloads})
    there = pods.drop_nulls().unique().sort()
    hints = ((name, near_path(name, known)) for name in there.head(_MOST_LISTED))
    near = next((f" ({name}{hint})" for name, hint in hints if hint), "")
    return (
        f"the table has {_few(there.to_list())}, the objects have {_few(known)}{near}; give the "
        "objects of the cluster that the table is of, or state columns.namespace"
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no workload"


def _request(found: Found, rows: pl.DataFrame, resource: str) -> Entry:
    """Return requests of twice the median usage of a container, by workload (and container)."""
    usage = _usage_per_pod(found, rows, resource)
    # Under an assumed namespace the keys must not name it: it is the first thing to be edited.
    is_named = "namespace" in found.names.columns and found.names.level == "pod"
    several = is_named and usage["container"].n_unique() > 1
    name = pl.concat_str(*_CONTAINER, separator="/") if several else pl.col("target")
    usage = usage.with_columns(name.alias("name"))
    by = usage.group_by("name").agg(pl.col("usage").median()).drop_nulls().sort("name")
    default = _quantity(_median(usage["usage"]), resource)
    why = f"twice the median usage, so that a pod is at half of its request; {_STATE}"
    if by.height < 2 or by.height > _MOST_LISTED:
        return Entry(default, assumed=why)
    listed = {name: _quantity(value, resource) for name, value in by.rows()}
    lines = [f"  {scalar(name)}: {amount}" for name, amount in listed.items()]
    return Entry("", assumed=why, rows=(f"default: {default}", "workloads:", *lines))


def _usage_per_pod(found: Found, rows: pl.DataFrame, resource: str) -> pl.DataFrame:
    usage = pl.col(resource)
    amount = next(a for a in found.amounts if a.resource == resource and a.role == "usage")
    if amount.per_second:
        series = ["cluster", "namespace", "target", "pod", "container"]
        rows = rows.sort(*series, "ts")
        usage = pl.col(resource).diff().over(series) * 1e3 / pl.col("ts").diff().over(series)
    elif found.names.level == "workload" and "of: sum" in found.draft.columns[resource].value:
        usage = usage / pl.col("replicas").replace(0, None)
    names = [name for name in _CONTAINER if name in rows.columns]
    frame = rows.select(*names, usage.alias("usage"))
    return frame.filter(pl.col("usage") > 0, pl.col("usage").is_finite())


def _median(values: pl.Series) -> float:
    return float(values.median() or 0.0)  # type: ignore[arg-type]


def _quantity(usage: float, resource: str) -> str:
    """Return twice a usage (millicores or bytes) with two digits, as a quantity."""
    wanted = max(usage, 0.0) * _HEADROOM
    if resource == "memory":
        wanted /= 2**20
    number = max(1, math.ceil(wanted))
    unit = int(10 ** max(0, len(str(number)) - 2))
    return f"{-(-number // unit) * unit}{'Mi' if resource == 'memory' else 'm'}"


def _sizes(found: Found, rows: pl.DataFrame) -> tuple[int, int]:
    """Return the smallest and largest number of pods of a workload in the sample."""
    if found.names.level == "workload":
        sizes = rows["replicas"].drop_nulls()
        sizes = sizes.filter(sizes > 0)
    else:
        minute = rows.with_columns(pl.col("ts") // _MINUTE_MS)
        sizes = minute.group_by("cluster", "namespace", "target", "ts").agg(
            pl.col("pod").n_unique()
        )["pod"]
    least, most = sizes.min(), sizes.max()
    if not isinstance(least, int) or not isinstance(most, int):
        return 1, 1
    # A pod-level minute may have pods that come and go: only a recorded size says a minimum.
    return (least if found.names.level == "workload" else 1), most


def _pods_metric(found: Found, rows: pl.DataFrame) -> str:
    values = rows[METRIC + found.metric]
    if found.names.level == "workload":
        values = values / rows["replicas"].replace(0, None)
    milli = max(1, round(_median(values.filter(values > 0))))
    target = f"target: {{type: AverageValue, averageValue: {milli}m}}"
    return f"{{type: Pods, pods: {{metric: {{name: {scalar(found.metric)}}}, {target}}}}}"


_CHECKED_ROWS: Final = 1 << 19
_NEW: Final = "map.yaml"


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
    stem = paths[0].name.split(".")[0]
    found = draft_map(sample, stem, None if beside is None else beside.objects, start or "")
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
        leave_to_objects(found, beside.objects)
    rows, _ = _checked(found, sample, beside)
    if beside is None:
        add_settings(found, rows)
    rows, tally = _checked(found, sample, beside)
    text = draft.text()
    usable = tally.read - tally.excluded - sum(tally.dropped.values())
    # (of a long table several rows make one sample)
    made = "" if rows.height == usable else f", which make {counted(rows.height, 'sample')}"
    notes = [f"read {told}: {usable:,} of {counted(tally.read, 'checked row')} usable{made}"]
    if tally.excluded:
        notes.append(f"not wanted (`where`): {counted(tally.excluded, 'row')}")
    # Rows of a part of the table have other numbers.
    places = tally.places() if sample.whole and sample.files == 1 else {}
    notes += [f"left out: {text}" for text in dropped_lines(tally.dropped, places)]
    return Proposal(text, tuple(draft.assumptions()), tuple(notes))


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


def _checked(found: Found, sample: Sample, beside: Beside | None) -> tuple[pl.DataFrame, Tally]:
    """Return the clean rows that a draft's map gives of the sample.

    Raises:
        RefusedError: there are none.
    """
    with tempfile.TemporaryDirectory(prefix="hpabatch-init-") as folder:
        place = Path(folder, _NEW)
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
            fix = told_unknown(found, beside.objects)
        raise RefusedError(
            f"{sample.file.path}: no row of the sample has a time, a name and usage"
            + (f" ({reasons}); {fix}" if reasons else f"; {fix}")
        )
    if table.pivot is not None:
        names = (POD_KEY if table.level is Level.pod else WORKLOAD_KEY)[:-1]
        keyed = rows.with_columns(key_rank(rows, names).alias(KEY)).sort(KEY, "ts", "seq")
        rows, _ = without_duplicates(keyed, table)
    return rows, tally
