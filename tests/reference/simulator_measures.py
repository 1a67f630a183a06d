"""The measures of a simulated run, by plain formulas over its finished rows.

Names and meanings are those of the package's measures; times are ms. What needs a demand is None
where the plant has none (no capacity, or no divisible signal and no backlog).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

Json = dict[str, Any]


class _Episode(NamedTuple):
    """Steps ``start`` to ``end - 1`` are short of pods; end None: until the run's end."""

    start: int
    end: int | None
    peak: int


def primary_signal(plant: Json) -> str | None:
    """Return the first divisible signal, else the first backlog."""
    for kind in ("divisible", "backlog"):
        for name, signal in plant["signals"].items():
            if signal["kind"] == kind:
                return str(name)
    return None


def measures(rows: list[Json], case: Json) -> Json:
    """Compute all measures of a run."""
    period = case["period_ms"]
    return {
        "steps": len(rows),
        "replica_ms": sum(row["size"] * period for row in rows),
        "pod_ms": sum(len(row["existing"]) * period for row in rows),
        "supply_changes": sum(change != 0 for change in _changes(_supplies(rows))),
        **_demand_measures(rows, case),
        **_primary_measures(rows, case),
        **_rescale_measures(rows),
        "at_max_steps": sum(
            row["desired"] == row["max_replicas"] and row["proposal"] > row["max_replicas"]
            for row in rows
        ),
        "invalid_steps": sum(row["invalid"] for row in rows),
    }


def _supplies(rows: list[Json]) -> list[int]:
    """Return s(t), the number of pods that serve in each step."""
    return [len(row["serving"]) for row in rows]


def _demands(rows: list[Json], case: Json) -> list[int] | None:
    """Return d(t), the number of pods that each step's work takes, or None if not known."""
    primary, capacity = primary_signal(case["plant"]), case["plant"]["capacity_milli"]
    if primary is None or capacity is None:
        return None
    return [max(1, -(-row["work"][primary] // capacity)) for row in rows]


def _changes(values: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(values)]


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


# --- supply against demand ------------------------------------------------------------------------

_DEMAND_MEASURES = (
    "short_ms",
    "under_steps",
    "over_steps",
    "under_ratio",
    "over_ratio",
    "unstable_steps",
    "demand_changes",
    "settling_ms",
    "reaction_ms",
    "episodes",
    "episodes_ended",
    "episodes_reacted",
    "overshoot",
)


def _demand_measures(rows: list[Json], case: Json) -> Json:
    demands = _demands(rows, case)
    if demands is None:
        return dict.fromkeys(_DEMAND_MEASURES)
    supplies = _supplies(rows)
    pairs = list(zip(supplies, demands, strict=True))
    under_ratio = over_ratio = 0.0
    for s, d in pairs:  # in order of time: floats
        under_ratio += max(d - s, 0) / d
        over_ratio += max(s - d, 0) / d
    changes = zip(_changes(supplies), _changes(demands), strict=True)
    return {
        "short_ms": sum(max(d - s, 0) for s, d in pairs) * case["period_ms"],
        "under_steps": sum(s < d for s, d in pairs),
        "over_steps": sum(s > d for s, d in pairs),
        "under_ratio": under_ratio,
        "over_ratio": over_ratio,
        "unstable_steps": sum(_sign(of_s) != _sign(of_d) for of_s, of_d in changes),
        "demand_changes": sum(change != 0 for change in _changes(demands)),
        **_episode_measures(rows, supplies, demands, case["period_ms"]),
    }


def _episodes(supplies: list[int], demands: list[int]) -> list[_Episode]:
    """Return the maximal runs of steps with fewer pods than needed."""
    short = [s < d for s, d in zip(supplies, demands, strict=True)]
    found = []
    for start in range(len(short)):
        if not short[start] or (start > 0 and short[start - 1]):
            continue
        end = next((t for t in range(start, len(short)) if not short[t]), None)
        found.append(_Episode(start, end, max(demands[start:end])))
    return found


def _episode_measures(
    rows: list[Json], supplies: list[int], demands: list[int], period: int
) -> Json:
    episodes = _episodes(supplies, demands)
    ended = [(e, e.end) for e in episodes if e.end is not None]
    reactions = [(e, _reaction(rows, e)) for e in episodes]
    reacted = [(e, tick) for e, tick in reactions if tick is not None]
    starts = {e.start for e in episodes}
    return {
        "settling_ms": sum((end - e.start) * period for e, end in ended),
        "reaction_ms": sum((tick - e.start) * period for e, tick in reacted),
        "episodes": len(episodes),
        "episodes_ended": len(ended),
        "episodes_reacted": len(reacted),
        "overshoot": sum(_overshoot(rows, end, e.peak, starts) for e, end in ended),
    }


def _reaction(rows: list[Json], episode: _Episode) -> int | None:
    """Return the first tick of an episode that rescales up, if there is one."""
    end = len(rows) if episode.end is None else episode.end
    return next((t for t in range(episode.start, end) if _up(rows[t])), None)


def _overshoot(rows: list[Json], end: int, peak: int, starts: set[int]) -> int:
    """Return how far the target's size goes above an episode's peak demand after its end.

    The steps that count are those from the end on until, exclusive, the first with a rescale down
    or with the start of an episode; a rescale down at the end itself leaves none.
    """
    sizes = []
    for t in range(end, len(rows)):
        if _down(rows[t]) or t in starts:
            break
        sizes.append(rows[t]["size"])
    return max(0, max(sizes, default=0) - peak)


# --- the primary signal ---------------------------------------------------------------------------


def _primary_measures(rows: list[Json], case: Json) -> Json:
    primary = primary_signal(case["plant"])
    # A pod at the ceiling of any signal is at its ceiling; work is that of the primary signal.
    saturated = [any(row["saturated"].values()) for row in rows]
    runs = "".join("x" if is_saturated else " " for is_saturated in saturated).split()
    found = {
        "saturated_steps": sum(saturated),
        "saturated_longest": max((len(run) for run in runs), default=0),
    }
    if primary is None:
        return found | {"unserved_milli_s": 0, "outside_steps": 0, "above_steps": [0] * 5}
    # A queue that is kept is what was left unserved, so both kinds of overload read alike.
    unserved = [row["unserved"][primary] * case["period_ms"] // 1000 for row in rows]
    outside = _outside_steps(rows, primary, case["plant"]["signals"][primary])
    above = _above_steps(rows, primary, case["plant"]["signals"][primary])
    return found | {
        "unserved_milli_s": sum(unserved),
        "outside_steps": outside,
        "above_steps": above,
    }


def _outside_steps(rows: list[Json], primary: str, signal: Json) -> int:
    if signal["observed_milli"] is None or signal["kind"] != "divisible":
        return 0
    low, high = signal["observed_milli"]
    return sum(any(not low <= u <= high for u in row["usage"][primary]) for row in rows)


def _above_steps(rows: list[Json], primary: str, signal: Json) -> list[int]:
    """Return by level the steps in which a serving pod uses more, or work finds no pod."""
    if signal["kind"] != "divisible" or not signal["levels_milli"]:
        return [0] * 5
    usage = [
        max(row["usage"][primary])
        if row["serving"]
        else (float("inf") if row["saturated"][primary] else 0)
        for row in rows
    ]
    return [sum(used > level for used in usage) for level in signal["levels_milli"]]


# --- rescales -------------------------------------------------------------------------------------


def _up(row: Json) -> bool:
    return bool(row["rescaled"] and row["size"] > row["replicas"])


def _down(row: Json) -> bool:
    return bool(row["rescaled"] and row["size"] < row["replicas"])


def _rescale_measures(rows: list[Json]) -> Json:
    directions = [_sign(row["size"] - row["replicas"]) for row in rows if row["rescaled"]]
    return {
        "rescales": len(directions),
        "rescales_up": directions.count(1),
        "rescales_down": directions.count(-1),
        "reversals": sum(a != b for a, b in pairwise(directions)),
    }
