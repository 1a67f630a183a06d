"""The smallest failing input: drop one part at a time, as long as it goes on failing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

_ATTEMPTS = 2000
_TICK_FLAWS = (
    "scale_get_error",
    "scale_update_error",
    "status_update_error",
    "selector",
    "restart",
    "delete",
    "create",
)


def shrink(row: Json, is_failing: Callable[[Json], bool], attempts: int = _ATTEMPTS) -> Json:
    """Return a smaller input that still fails: a case, a timeline or a group."""
    candidates = _smaller(row)
    for _ in range(attempts):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if is_failing(candidate):
            row, candidates = candidate, _smaller(candidate)
    return row


def _smaller(row: Json) -> Iterator[Json]:
    if "hpas" in row:
        return _smaller_groups(row)
    return _smaller_timelines(row) if "ticks" in row else _smaller_cases(row)


def _without(row: Json, key: str, index: int) -> Json:
    entries = row[key]
    return row | {key: entries[:index] + entries[index + 1 :]}


def _replaced(row: Json, key: str, index: int, entry: Json) -> Json:
    entries = row[key]
    return row | {key: [*entries[:index], entry, *entries[index + 1 :]]}


def _smaller_cases(case: Json) -> Iterator[Json]:
    yield from (_without(case, "pods", k) for k in range(len(case["pods"])))
    for name in case.get("pod_metrics") or ():
        yield case | {"pod_metrics": {k: v for k, v in case["pod_metrics"].items() if k != name}}
    for k in range(len(case.get("external_values") or ())):
        yield _without(case, "external_values", k)


def _without_ticks(row: Json) -> Iterator[Json]:
    """Yield the input without a block of ticks: large blocks first, from the end."""
    ticks = row["ticks"]
    size = len(ticks) // 2
    while size > 0:
        for first in range(len(ticks) - size, -1, -size):
            yield row | {"ticks": ticks[:first] + ticks[first + size :]}
        size //= 2


def _smaller_ticks(row: Json) -> Iterator[Json]:
    """Yield the input with less in one of its ticks."""
    for t, tick in enumerate(row["ticks"]):
        for key in _TICK_FLAWS:
            if tick.get(key) is not None:
                smaller = {k: v for k, v in tick.items() if k != key}
                yield _replaced(row, "ticks", t, smaller)
        for k in range(len(tick["pods"])):
            yield _replaced(row, "ticks", t, _without(tick, "pods", k))


def _smaller_timelines(row: Json) -> Iterator[Json]:
    yield from _without_ticks(row)
    yield from _smaller_ticks(row)


def _without_hpa(row: Json, name: str) -> Json:
    """Return a group in which an HPA never was."""
    ticks = []
    for tick in row["ticks"]:
        kept = tick | {"hpas": [r for r in tick["hpas"] if r["name"] != name]}
        if tick.get("delete"):
            kept["delete"] = [other for other in tick["delete"] if other != name]
        if tick.get("create"):
            kept["create"] = [entry for entry in tick["create"] if entry["name"] != name]
        ticks.append(kept)
    return row | {"hpas": [e for e in row["hpas"] if e["name"] != name], "ticks": ticks}


def _smaller_groups(row: Json) -> Iterator[Json]:
    names = {entry["name"] for entry in row["hpas"]}
    names |= {entry["name"] for tick in row["ticks"] for entry in tick.get("create") or ()}
    yield from (_without_hpa(row, name) for name in sorted(names))
    yield from _without_ticks(row)
    for t, tick in enumerate(row["ticks"]):
        for k, record in enumerate(tick["hpas"]):
            yield _replaced(row, "ticks", t, _without(tick, "hpas", k))
            for key in _TICK_FLAWS[:4]:
                if record.get(key) is not None:
                    smaller = {name: value for name, value in record.items() if name != key}
                    yield _replaced(row, "ticks", t, _replaced(tick, "hpas", k, smaller))
    yield from _smaller_ticks(row)
