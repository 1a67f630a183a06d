"""Texts of kubectl top pods, get hpa (-w) and describe hpa as rows of a CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.files import open_regular

_HEAD_BYTES: Final = 4096
_MOST_BYTES: Final = 64 << 20
_COLUMNS: Final = r"[ \t]{2,}"
_GET: Final = re.compile(r"(NAMESPACE +)?NAME +REFERENCE +TARGETS +MINPODS +MAXPODS +REPLICAS")
_TOP: Final = re.compile(r"(NAMESPACE +)?(POD +)?NAME +CPU\(cores\) +MEMORY\(bytes\)")
_DESCRIBE: Final = re.compile(r"Name: +\S+\s+(?:.*\n)*?Reference: +\S+/\S+")
_PERCENT: Final = re.compile(r"(\d+)%?(?: \([^)]*\))? */ *(\d+)%")
_UNKNOWN: Final = re.compile(r"<unknown> */ *([0-9.]+[A-Za-z]*%?)")
_AGE: Final = re.compile(r"(\d+)([dhms])")
_SECONDS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_SYNC_S: Final = 15
_DESCRIBED: Final = {
    "namespace": r"^Namespace: +(\S+)",
    "kind": r"^Reference: +(\S+)/",
    "workload": r"^Reference: +\S+/(\S+)",
    "min": r"^Min replicas: +(\d+)",
    "max": r"^Max replicas: +(\d+)",
    "replicas": r"^\S+ pods: +(\d+) current",
}


def kubectl_csv(path: Path) -> bytes | None:
    """Return what kubectl printed as a CSV, None of another file.

    `elapsed_s` is the time since the first row of an HPA, by its age; rows of one age are a sync
    of 15 s apart.

    Raises:
        HistoryError: it is too long for memory.
        UsageError: it is of HPAs of which no percentage has a value, or no size is known.
        OSError: it cannot be read.
    """
    with open_regular(path) as stream:
        head = stream.read(_HEAD_BYTES)
        lines = head.decode("utf-8-sig", "replace").lstrip()
        if lines.startswith("$"):  # the command itself
            lines = lines.partition("\n")[2]
        form = next((f for f in (_GET, _TOP, _DESCRIBE) if f.match(lines)), None)
        if form is None:
            return None
        data = head + stream.read(_MOST_BYTES)
    if len(data) > _MOST_BYTES:
        raise HistoryError(
            f"{path}: expected at most {_MOST_BYTES >> 20} MiB of kubectl's text, got more: "
            "cut it into several files"
        )
    content = data.decode("utf-8-sig", "replace")
    rows = list((_described if form is _DESCRIBE else _listed)(content))
    if form is not _TOP and rows and not any(row["replicas"] for row in rows):
        raise UsageError(
            f"{path}: expected a size, got none, as an old kubectl describes HPAs; add a line such "
            "as `Deployment pods: 1 current / 1 desired` before Conditions"
        )
    if form is not _TOP and rows and all(r["failed"] and not r["current_pct"] for r in rows):
        raise UsageError(
            f"{path}: expected a percentage with a value, got none beside {rows[0]['failed']}: "
            "where no metric has a value the HPA keeps its size; kubectl describe hpa gives the "
            "reason, mostly containers without requests or a cluster without a metrics API"
        )
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def _listed(text: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a list of pods or HPAs; repeated headers are none."""
    rows = [re.split(_COLUMNS, line.strip()) for line in text.splitlines()]
    start = next(k for k, row in enumerate(rows) if row[0] in ("NAME", "NAMESPACE", "POD"))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for cells in rows[start + 1 :]:
        if len(cells) < 3 or cells == rows[start]:
            continue
        row = dict(zip(rows[start], cells, strict=False))
        if "CPU(cores)" in row:
            name = {"pod": row["NAME"]}
            if "POD" in row:
                name = {"pod": row["POD"], "container": row["NAME"]}
            namespace = {"namespace": row["NAMESPACE"]} if "NAMESPACE" in row else {}
            usage = {"cpu": row["CPU(cores)"], "memory": row.get("MEMORY(bytes)", "")}
            yield {"elapsed_s": 0, **namespace, **name, **usage}
            continue
        age_s = sum(int(n) * _SECONDS[unit] for n, unit in _AGE.findall(row.get("AGE", "")))
        key = f"{row.get('NAMESPACE', '')}/{row['NAME']}"
        elapsed_s = age_s - first.setdefault(key, age_s)
        elapsed_s = max(elapsed_s, last[key] + _SYNC_S) if key in last else elapsed_s
        last[key] = elapsed_s
        kind, _, workload = row.get("REFERENCE", "").partition("/")
        yield {
            "elapsed_s": elapsed_s,
            "namespace": row.get("NAMESPACE", "default"),
            "kind": kind,
            "workload": workload,
            **_target(row.get("TARGETS", "")),
            "replicas": row.get("REPLICAS", ""),
            "min": row.get("MINPODS", ""),
            "max": row.get("MAXPODS", ""),
        }


def _described(text: str) -> Iterator[dict[str, object]]:
    for part in re.split(r"^(?=Name: )", text, flags=re.MULTILINE):
        found = {name: re.search(form, part, re.MULTILINE) for name, form in _DESCRIBED.items()}
        if found["workload"] is not None:
            values = {name: "" if match is None else match[1] for name, match in found.items()}
            metrics = part.partition("\nMetrics:")[2].partition("\nMin replicas:")[0]
            yield {"elapsed_s": 0, **values, **_target(metrics)}


def _target(text: str) -> dict[str, object]:
    """Return a percentage, its target, and the target of a metric without a value.

    Of several percentages it is the one furthest above its target: the HPA follows the metric that
    asks for most.
    """
    pairs, failed = _PERCENT.findall(text), _UNKNOWN.search(text)
    percent = failed[1].removesuffix("%") if failed is not None and "%" in failed[1] else ""
    most = max(pairs, key=lambda pair: int(pair[0]) / max(int(pair[1]), 1), default=("", percent))
    current, target = most
    return {
        "current_pct": f"{current}%" if current else "",
        "target_pct": target,
        "failed": f"<unknown>/{failed[1]}" if failed is not None else "",
    }
