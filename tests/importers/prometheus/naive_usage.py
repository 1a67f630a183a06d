"""Usage from raw samples, worked out once more in plain loops, to hold the fast one against.

Written from the description alone; nothing of the package is imported. A series is a pair of its
labels and its samples [(ms, value)], in order.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import TypedDict

Series = tuple[dict[str, str], list[tuple[int, float]]]
Row = tuple[str, str, str, str | None, int, int | None, int | None, int | None]


class Sample(TypedDict, total=False):
    """What is known of a container at a time; cpu: window and millicores."""

    cpu: tuple[int, int] | None
    memory: int
    uid: str | None


SILENT = 150_000
APART = 15_000
OF_THE_THING = {"namespace", "pod", "container", "id", "name", "image", "cpu", "__name__"}
OF_THE_TARGET = {"instance", "host", "hostname", "kubernetes_io_hostname", "pod"}


def usage(
    cpu: Sequence[Series],
    memory: Sequence[Series],
    after: int,
    until: int,
    lookback: int,
    apart: int = APART,
) -> list[Row]:
    """Return namespace, pod, container, pod uid, ts, window, milli and bytes, sorted."""
    cpu, memory = _summed(_proper(cpu, 1e12)), _proper(memory, 2**63 / 1000)
    order = _order(cpu, memory)
    samples: dict[tuple[str, str, str], dict[int, Sample]] = defaultdict(dict)
    for place, at, labels, before, value in _counting(cpu, order, until, lookback):
        here = samples[place].setdefault(at, Sample())
        here["cpu"] = None if before is None else _milli(before, (at, value), lookback)
        here["uid"] = here.get("uid") or _uid(labels)
    for place, at, labels, _, value in _counting(memory, order, until, lookback):
        here = samples[place].setdefault(at, Sample())
        here["memory"] = math.ceil(value)
        here["uid"] = here.get("uid") or _uid(labels)
    rows: list[Row] = []
    for (namespace, pod, uid), containers in _pods(samples).items():
        found = _together(containers, lookback, apart) if apart else _alone(containers)
        for at, group in sorted(found.items()):
            if not after < at <= until:
                continue
            values = {name: (one.get("cpu"), one.get("memory")) for name, one in group.items()}
            any_known = any(c is not None or m is not None for c, m in values.values())
            for name, (milli, size) in values.items():
                if milli is None and size is None and not (apart and any_known):
                    continue
                window, used = milli or (None, None)
                rows.append((namespace, pod, name, uid, at, window, used, size))
    return sorted(rows, key=lambda row: (row[:3], row[4]))


def _proper(series: Sequence[Series], most: float) -> list[Series]:
    found = []
    for labels, points in series:
        wanted = [labels.get(name, "") for name in ("namespace", "pod", "container")]
        if all(wanted) and labels["container"] != "POD":
            found.append((labels, [p for p in points if 0 <= p[1] <= most]))
    return found


def _summed(series: list[Series]) -> list[Series]:
    groups: dict[tuple[tuple[str, str], ...], list[Series]] = defaultdict(list)
    found = []
    for one in series:
        if one[0].get("cpu", "total") == "total":
            found.append(one)
        else:
            key = tuple(sorted((n, v) for n, v in one[0].items() if n != "cpu"))
            groups[key].append(one)
    for parts in groups.values():
        total: dict[int, float] = {}
        for _, points in parts:
            for at, value in points:
                total[at] = total.get(at, 0.0) + value
        found.append((parts[0][0], sorted(total.items())))
    return found


def _place(labels: dict[str, str]) -> tuple[str, str, str]:
    return labels["namespace"], labels["pod"], labels["container"]


def _source(labels: dict[str, str], without: set[str]) -> str:
    return " ".join(f"{n}={v}" for n, v in sorted(labels.items()) if n not in without)


def _order(*parts: list[Series]) -> list[str]:
    """Return sources, the preferred one first."""
    counts: dict[str, int] = defaultdict(int)
    pairs = set()
    for part in parts:
        of: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for labels, _ in part:
            of[_place(labels)].add(_source(labels, OF_THE_THING))
        for labels, points in part:
            if len(of[_place(labels)]) > 1 and points:
                profile = _source(labels, OF_THE_THING | OF_THE_TARGET)
                counts[profile] += len(points)
                pairs.add((profile, _source(labels, OF_THE_THING)))
    most = max(counts.values(), default=0)
    ranked = sorted((round(math.log2(most / counts[p])), p, s) for p, s in pairs)
    return [source for _, _, source in ranked]


def _counting(
    series: list[Series], order: list[str], until: int, lookback: int
) -> list[tuple[tuple[str, str, str], int, dict[str, str], tuple[int, float] | None, float]]:
    """Return the samples that count: place, time, labels, the sample before, and value."""
    silent = min(SILENT - APART, lookback // 2)
    ranks = {source: rank for rank, source in enumerate(order)}
    of: dict[tuple[str, str, str], list[tuple[int, Series]]] = defaultdict(list)
    for one in series:
        rank = ranks.get(_source(one[0], OF_THE_THING), len(order))
        of[_place(one[0])].append((rank, one))
    found = []
    for place, copies in of.items():
        kept = []
        for rank, (labels, points) in copies:
            better = [at for r, (_, theirs) in copies if r < rank for at, _ in theirs]
            counted = set()
            for at, _ in points:
                before = any(at - silent <= t <= at for t in better)
                later = any(at <= t <= at + silent for t in better)
                if not (before and (later or at > until + SILENT - silent)):
                    counted.add(at)
            if counted:
                kept.append((rank, min(counted), sorted(labels.items()), points, counted))
        for rank, first, text, points, counted in kept:
            # Another container of the same source that begins later takes over.
            over = [(f, t) for r, f, t, _, _ in kept if r == rank and (f, t) > (first, text)]
            limit = min(over)[0] if over else None
            for place_in, (at, value) in enumerate(points):
                if at in counted and (limit is None or at < limit):
                    earlier = points[place_in - 1] if place_in else None
                    found.append((place, at, dict(text), earlier, value))
    return found


def _milli(
    before: tuple[int, float], now: tuple[int, float], lookback: int
) -> tuple[int, int] | None:
    """Return window and millicores between two samples, None where there is no telling."""
    window = now[0] - before[0]
    micro = round((now[1] - before[1]) * 1e6)
    if window > lookback or micro < 0:
        return None
    nano = math.floor(Fraction(micro * 1000, 1) / Fraction(window, 1000))
    milli = math.ceil(Fraction(nano, 1_000_000))
    return (window, milli) if milli <= 10**15 else None


def _uid(labels: dict[str, str]) -> str | None:
    hits = re.findall(
        r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})",
        labels.get("id", ""),
    )
    return hits[-1].replace("_", "-") if hits else None


Containers = dict[str, dict[int, Sample]]


def _pods(
    samples: dict[tuple[str, str, str], dict[int, Sample]],
) -> dict[tuple[str, str, str | None], Containers]:
    pods: dict[tuple[str, str, str | None], Containers] = defaultdict(lambda: defaultdict(dict))
    for (namespace, pod, container), times in samples.items():
        for at, one in times.items():
            pods[namespace, pod, one["uid"]][container][at] = one
    return pods


def _alone(containers: Containers) -> dict[int, dict[str, Sample]]:
    found: dict[int, dict[str, Sample]] = defaultdict(dict)
    for name, times in containers.items():
        for at, one in times.items():
            found[at][name] = one
    return found


def _together(containers: Containers, lookback: int, apart: int) -> dict[int, dict[str, Sample]]:
    """Return the samples of a pod: by time, each container's sample."""
    there = _alone(containers)
    if all(len(group) == len(containers) for group in there.values()):
        return there
    lone = [(at, next(iter(group))) for at, group in there.items() if len(group) == 1]
    found = {}
    for at, group in there.items():
        lead = min(group)
        if any(abs(t - at) <= apart and name < lead for t, name in lone):
            continue
        earlier = [t for t in containers[lead] if t < at]
        since = at - max(earlier) if earlier else 0
        retries = max(apart, 1.5 * since if since < lookback else 0)
        taken = {lead: containers[lead][at]}
        for name, times in containers.items():
            if name == lead:
                continue
            old = max((t for t in times if t <= at), default=None)
            new = min((t for t in times if t >= at), default=None)
            if old is not None and (at - old > retries or 2 * (at - old) >= lookback):
                old = None
            if new is not None and new - at > apart:
                new = None
            best = old
            if old is None or (new is not None and new - at < at - old):
                best = new
            if best is not None and (best == at or best not in containers[lead]):
                taken[name] = times[best]
                window = (times[best].get("cpu") or (0, 0))[0]
                if best < at and 2 * window > lookback:
                    taken[name] = {**times[best], "cpu": None}
        found[at] = taken
    return found
