"""The plant score again, change by change and without importing hpabatch."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import numpy as np

Row = dict[str, Any]

SETTLE_MS = 30_000
HOUR_MS = 3_600_000
NEVER = 2**62


@dataclass
class Pod:
    """One pod's life in ms; `lost` are (from, to) in which it was not ready."""

    started: int
    ready: int
    ended: int
    lost: list[tuple[int, int]] = field(default_factory=list)

    def is_ready(self, at: int) -> bool:
        return self.ready <= at < self.ended and not any(a <= at < b for a, b in self.lost)

    def ready_ms(self, begin: int, end: int) -> int:
        """Return how long it was ready between two instants."""

        def within(a: int, b: int) -> int:
            return max(min(b, self.ended, end) - max(a, self.ready, begin), 0)

        return within(self.ready, self.ended) - sum(within(a, b) for a, b in self.lost)


@dataclass
class Watched:
    """A signal by cell (None: no sample), and what happened to the pods, in ms."""

    start: int
    step: int
    usage: list[float | None]
    ready: list[float]
    still: list[bool]
    censored: list[bool]
    pod_changes: list[int]
    spec_changes: list[int]
    pods: list[Pod]
    window: int
    spacing: int
    is_total: bool = False

    def middle(self, cell: int) -> int:
        return self.start + cell * self.step + self.step // 2

    def settled(self, cell: int) -> bool:
        return self.still[cell] and self.ready[cell] > 0.5 and self.usage[cell] is not None


def found_changes(
    w: Watched, since: int, horizon: int, level: int, longest: int, kind: str, **signal: float
) -> list[Row]:
    """Return every change after `since`, with what was predicted of it if it can be used."""
    cells = [c for c in range(len(w.usage)) if w.settled(c)]
    rows = []
    for before, after in pairwise(cells):
        row = change_between(w, before, after)
        if row is None or row["first"] < since:
            continue
        around(w, row, horizon, level)
        row["left_out"] = left_out(w, row, horizon, longest, kind)
        if row["left_out"] is None:
            row["predicted"] = predicted(w, row, kind, signal)
            own = max(row["observed"], row["level"]) if w.is_total else row["observed"]
            row["error"] = (row["predicted"] - row["observed"]) / own
            row["persistence_error"] = (row["level"] - row["observed"]) / own
        rows.append(row)
    return rows


def change_between(w: Watched, before: int, after: int) -> Row | None:
    """Return what changed between two settled cells, None if nothing did."""

    def inside(times: list[int]) -> list[int]:
        return [ms for ms in times if w.middle(before) < ms <= w.middle(after)]

    moved, said = inside(w.pod_changes), inside(w.spec_changes)
    times = moved or said
    if not times:
        return None
    n, m = round(w.ready[before]), round(w.ready[after])
    if n != m:
        kind = "size"
    elif not moved:
        kind = "spec"
    else:
        both = [p for p in w.pods if p.is_ready(w.middle(before)) and p.is_ready(w.middle(after))]
        kind = "replaced" if both else "rollout"
    return {"before": before, "after": after, "first": times[0], "at": times[-1], "kind": kind,
            "pods_before": n, "pods_after": m}  # fmt: skip


def around(w: Watched, row: Row, horizon: int, level: int) -> None:
    """Add usage before and after to a change."""
    earlier = [ms for ms in w.pod_changes if ms <= w.middle(row["before"])]
    first = max(row["before"] - max(1, round(level / w.step)) + 1, 0)
    own = [
        c
        for c in range(first, row["before"] + 1)
        if not earlier or w.middle(c) > earlier[-1]
    ]  # fmt: skip
    values = [w.usage[c] for c in own if w.settled(c)]
    row["cells_before"] = own
    row["level"] = (
        w.usage[row["before"]] if w.is_total else fmean(v for v in values if v is not None)
    )
    end = row["at"] + horizon
    later = [
        c for c in range(row["after"], len(w.usage)) if w.middle(c) <= end - w.window / 2
    ]  # fmt: skip
    row["cells_after"] = later
    row["seen"] = [c for c in later if w.settled(c)]
    seen = [w.usage[c] for c in row["seen"]]
    row["observed"] = fmean(v for v in seen if v is not None) if seen else 0.0


def left_out(w: Watched, row: Row, horizon: int, longest: int, kind: str) -> str | None:
    end = row["at"] + horizon
    if w.middle(row["after"]) - w.middle(row["before"]) > max(longest, 3 * w.spacing):
        return "far"
    if any(w.middle(row["after"]) < ms <= end for ms in w.pod_changes):
        return "moved"
    if end > w.start + w.step * len(w.usage):
        return "end"
    expected = (horizon - SETTLE_MS - w.window) // max(w.spacing, w.step)
    if 2 * len(row["seen"]) < max(expected, 1):
        return "gap"
    if any(w.censored[c] for c in row["cells_before"] + row["cells_after"]):
        return "saturated"
    if row["observed"] <= 0 and (not w.is_total or row["level"] <= 0):
        return "idle"
    values = [w.usage[c] for c in row["cells_before"]]
    if kind == "backlog" and any(v is not None and v <= 0 for v in values):
        return "idle"
    return None


def predicted(w: Watched, row: Row, kind: str, signal: dict[str, float]) -> float:
    found: float
    base, level = signal.get("base", 0.0), row["level"]
    if kind == "divisible":
        found = base + max(level - base, 0.0) * row["pods_before"] / row["pods_after"]
    elif kind == "age":
        cells = row["cells_after"]
        at = w.start + (cells[0] + cells[-1] + 1) * w.step // 2
        ages = [at - p.started for p in w.pods if p.is_ready(at)]
        most = signal.get("ceiling", math.inf)
        found = fmean(min(base + signal["growth"] * age / HOUR_MS, most) for age in ages)
    elif kind == "backlog":
        found = queue(w, row, signal["rate"])
    else:
        found = level
    return min(found, signal.get("ceiling", math.inf))


def queue(w: Watched, row: Row, rate: float) -> float:
    """Return the mean queue after a change if arrivals stay what they were before it."""
    last = row["before"]
    first = next(c for c in row["cells_before"] if w.settled(c))
    now, then = w.usage[last], w.usage[first]
    assert now is not None
    assert then is not None
    growth = (now - then) / ((last - first) * w.step / 1000) if last > first else 0.0
    arriving = max(growth + row["pods_before"] * rate, 0.0)
    values = []
    for c in range(last + 1, row["cells_after"][-1] + 1):
        served = sum(p.ready_ms(w.middle(c - 1), w.middle(c)) for p in w.pods) / 1000 * rate
        now = max(now + arriving * w.step / 1000 - served, 0.0)
        if c in row["seen"]:
            values.append(now)
    return fmean(values)


def counts(row: Row, kind: str) -> bool:
    """Say whether plant and persistence may differ on a change."""
    if kind in ("divisible", "backlog"):
        return bool(row["kind"] == "size")
    return kind == "age" and row["kind"] != "spec"


def score(rows: list[Row], kind: str, name: str, resamples: int = 2000) -> Row:
    """Return the score over the used changes that count; at least one must."""
    used = [r for r in rows if counts(r, kind) and r["left_out"] is None]
    own = [abs(r["error"]) for r in used]
    other = [abs(r["persistence_error"]) for r in used]
    found = {
        "used": len(used),
        "median_error_pct": 100 * median(own),
        "bias_pct": 100 * fmean(r["error"] for r in used),
        "skill": 1 - fmean(own) / fmean(other) if fmean(other) else None,
    }
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
    generator = np.random.Generator(np.random.PCG64(seed))
    skills = []
    for chosen in generator.integers(len(used), size=(resamples, len(used))).tolist():
        beaten = math.fsum(other[k] for k in chosen)
        if beaten > 0:
            skills.append(1 - math.fsum(own[k] for k in chosen) / beaten)
    if skills:
        found["low"], found["high"] = quantile(skills, 0.025), quantile(skills, 0.975)
    return found


def quantile(values: list[float], q: float) -> float:
    """Return a quantile, linear between the two values next to it."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
