"""The quality of a recording again, one row at a time and without importing hpabatch.

Tables are lists of dicts, times in ms, null None; only what the tables of a history hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
Tables = dict[str, list[Row]]

RUNS = ("app", "sidecar")


def span(usage: Sequence[Row]) -> tuple[int, int] | None:
    times = [r["ts"] if r["fetched_at"] is None else r["fetched_at"] for r in usage]
    return (min(times), max(times)) if times else None


def life(pod: Row, states: Sequence[Row], bounds: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return since when and until when a pod ran, within the recording."""
    if bounds is None or pod["started"] is None:
        return None
    ends = [bounds[1], pod["deletion_requested"], pod["gone"], ended(pod, states)]
    start, end = max(pod["started"], bounds[0]), min(t for t in ends if t is not None)
    return (start, end) if start < end else None


def ended(pod: Row, states: Sequence[Row]) -> int | None:
    own = [s for s in states if s["uid"] == pod["uid"] and s["phase"] in ("Succeeded", "Failed")]
    return min((s["ts"] for s in own), default=None)


def lost_readiness(pod: Row, states: Sequence[Row]) -> bool:
    own = sorted((s for s in states if s["uid"] == pod["uid"]), key=lambda s: s["ts"])
    ends = [pod["deletion_requested"], pod["gone"], ended(pod, states)]
    end = min((t for t in ends if t is not None), default=math.inf)
    return any(
        a["ready"] == "True" and b["ready"] != "True" and b["ts"] < end for a, b in pairwise(own)
    )


def stretches(start: int, end: int, times: Sequence[int]) -> list[int]:
    """Return the lengths between neighbours of start, the times and end."""
    marks = [start, *sorted(times), end]
    return [b - a for a, b in pairwise(marks)]


def merged(lives: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(lives):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def quantile(values: Sequence[int], share: float) -> int | None:
    """Return the least value that so great a share is not above."""
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else None


def limit_of(requests: Sequence[Row], uid: str, container: str, ts: int) -> int | None:
    own = [
        r
        for r in requests
        if (r["uid"], r["container"]) == (uid, container)
        and r["kind"] in RUNS
        and r["valid_from"] <= ts
    ]
    last = max(own, key=lambda r: r["valid_from"], default=None)
    return last["cpu_limit_milli"] if last else None


def lacks(requests: Sequence[Row], uid: str, column: str) -> bool | None:
    """Say whether a pod's first rows lack a request; None: it has no rows."""
    first: dict[tuple[str, str], Row] = {}
    for row in sorted(requests, key=lambda r: r["valid_from"]):
        if row["uid"] == uid and row["kind"] in (*RUNS, "pod"):
            first.setdefault((row["kind"], row["container"]), row)
    if not first:
        return None
    if any(kind == "pod" and row[column] is not None for (kind, _), row in first.items()):
        return False
    return any(kind in RUNS and row[column] is None for (kind, _), row in first.items())


def matches(selector: str, labels: str) -> bool:
    """Evaluate a selector of equalities only."""
    own = json.loads(labels)
    return all(own.get(k) == v for k, v in (part.split("=") for part in selector.split(",")))


def membership(tables: Tables, namespace: str, target: str) -> tuple[str | None, int, int]:
    scales = [r for r in tables["scales"] if (r["namespace"], r["target"]) == (namespace, target)]
    if not scales:
        return None, 0, 0
    known = {r["selector"] for r in scales if r["selector"] is not None}
    if not known:
        return "owner", 0, 0
    foreign = unmatched = 0
    for pod in tables["pods"]:
        if pod["namespace"] == namespace:
            matched = any(matches(text, pod["labels"]) for text in known)
            foreign += matched and pod["target"] != target
            unmatched += not matched and pod["target"] == target
    return "both" if any(r["selector"] is None for r in scales) else "selector", foreign, unmatched


def share(part: int | float, whole: int | float) -> float | None:
    return part / whole if whole else None


def quality(tables: Tables, namespace: str, target: str) -> Row:
    """Return what is known of one target: the columns that do not come from the HPA's spec."""
    usage, states, requests = tables["pod_metrics"], tables["pod_states"], tables["pod_requests"]
    place = (namespace, target)
    pods = [p for p in tables["pods"] if (p["namespace"], p["target"]) == place]
    own_uids = {p["uid"] for p in pods}
    said = {
        (r["uid"], r["ts"]) for r in usage if (r["cpu_milli"], r["memory_bytes"]) != (None, None)
    }
    rows = [
        r for r in usage if (r["namespace"], r["target"]) == place and (r["uid"], r["ts"]) in said
    ]
    known = [r for r in rows if r["uid"] in own_uids]
    bounds = span(usage)
    lives = {p["uid"]: found for p in pods if (found := life(p, states, bounds))}
    samples: dict[str, dict[int, int | None]] = {uid: {} for uid in own_uids}
    for row in known:
        before = samples[row["uid"]].get(row["ts"])
        both = [t for t in (before, row["fetched_at"]) if t is not None]
        samples[row["uid"]][row["ts"]] = max(both, default=None)
    steps = [b - a for times in samples.values() for a, b in pairwise(sorted(times))]
    interval = quantile(steps, 0.5)
    off = [abs(s - interval) for s in steps if interval and s < 1.5 * interval]
    age = max(60_000, int(2.5 * (interval or 0)))
    uncovered, together = 0, []
    for uid, (start, end) in lives.items():
        cut = [t for t in samples[uid] if start <= t <= end]
        together += cut
        uncovered += sum(max(0, s - age) for s in stretches(start, end, cut))
    total = sum(end - start for start, end in lives.values())
    gaps = [
        s
        for start, end in merged(list(lives.values()))
        for s in stretches(start, end, [t for t in together if start <= t <= end])
        if s > age
    ]
    limited = [
        (r["cpu_milli"], limit)
        for r in known
        if r["cpu_milli"] is not None
        and (limit := limit_of(requests, r["uid"], r["container"], r["ts"]))
    ]
    delays = [f - t for times in samples.values() for t, f in times.items() if f is not None]
    overtaken = sum(
        a[1] is not None and b[1] is not None and b[1] < a[1]
        for times in samples.values()
        for a, b in pairwise(sorted(times.items()))
    )
    flat = [t for times in samples.values() for t in times]
    lacking = {
        c: [lacks(requests, p["uid"], c) for p in pods] for c in ("cpu_milli", "memory_milli")
    }
    names = membership(tables, namespace, target)
    return {
        "membership": names[0],
        "foreign_pods": names[1],
        "unmatched_pods": names[2],
        "pods": len(pods),
        "synthetic_share": share(sum(p["origin"] == "generated" for p in pods), len(pods)),
        "recreated": len(pods) - len({p["pod"] for p in pods}),
        "unready_again": sum(lost_readiness(p, states) for p in pods),
        "never_sampled": sum(
            not samples[u] and end - start > age for u, (start, end) in lives.items()
        ),
        "unknown_requests_share": share(sum(x is None for x in lacking["cpu_milli"]), len(pods)),
        "without_cpu_request_share": share(sum(map(bool, lacking["cpu_milli"])), len(pods)),
        "without_memory_request_share": share(sum(map(bool, lacking["memory_milli"])), len(pods)),
        "samples": len(flat),
        "stray_rows": len(rows) - len(known),
        "first_ts": min(flat, default=None),
        "last_ts": max(flat, default=None),
        "pod_hours": total / 3_600_000,
        "interval_ms": interval,
        "jitter_ms": quantile(off, 0.95),
        "max_age_ms": age,
        "coverage": share(total - uncovered, total),
        "gaps": len(gaps),
        "gap_longest_ms": max(gaps, default=None),
        "limited_share": share(len(limited), len(known)),
        "at_limit_share": share(sum(u >= 0.95 * limit for u, limit in limited), len(limited)),
        "late_samples": sum(d > 60_000 for d in delays),
        "lateness_max_ms": max(0, *delays, 0) if delays else None,
        "skewed_samples": sum(d < 0 for d in delays),
        "skew_max_ms": -min(delays) if delays and min(delays) < 0 else None,
        "overtaken_samples": overtaken,
    }
