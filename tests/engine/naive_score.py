"""The controller score again, row by row and without importing hpabatch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

Row = dict[str, Any]

NO_DECISION = ("invalid_metric", "selector", "no_scale", "scale_read")
BACK_MS = 120_000
KINDS = (
    "early",
    "late",
    "other_size",
    "foreign",
    "missed_up",
    "missed_down",
    "extra_up",
    "extra_down",
)


def can_decide(row: Row) -> bool:
    sizes = (row["replicas"], row["desired"], row["applied"])
    return None not in sizes and row["binding"] not in NO_DECISION


def decided_size(row: Row) -> int:
    return int(row["desired"] if row["rescaled"] else row["replicas"])


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


def lower_median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


def wishes(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return (first, last) tick of every run of decided rescales of one kind."""
    found: list[tuple[int, int]] = []
    for k, row in enumerate(rows):
        move = sign(decided_size(row) - row["replicas"])
        if move == 0:
            continue
        if found and found[-1][1] == k - 1:
            before = rows[k - 1]
            same = sign(decided_size(before) - before["replicas"]) == move
            if same and before["applied"] == before["replicas"] == row["replicas"]:
                found[-1] = (found[-1][0], k)
                continue
        found.append((k, k))
    return found


def pair(recorded: list[int], decided: list[int], limit: int) -> list[tuple[int, int]]:
    """Return pairs of positions in two ascending lists of times, the earliest possible first."""
    pairs, i, j = [], 0, 0
    while i < len(recorded) and j < len(decided):
        if decided[j] < recorded[i] - limit:
            j += 1
        elif decided[j] > recorded[i] + limit:
            i += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def most_pairs(recorded: Sequence[int], decided: Sequence[int], limit: int) -> int:
    """Return how many pairs there can be at most, by augmenting paths."""
    partner: dict[int, int] = {}

    def place(i: int, tried: set[int]) -> bool:
        for j, time in enumerate(decided):
            if abs(time - recorded[i]) <= limit and j not in tried:
                tried.add(j)
                if j not in partner or place(partner[j], tried):
                    partner[j] = i
                    return True
        return False

    return sum(place(i, set()) for i in range(len(recorded)))


def events(rows: Sequence[Row], limit: int) -> list[Row]:
    """Return all events of one HPA's ticks with a decision; times `at` in ms."""
    found: list[Row] = []
    recorded = [k for k, row in enumerate(rows) if row["applied"] != row["replicas"]]
    runs = wishes(rows)
    for move, name in ((1, "up"), (-1, "down")):
        own_r = [k for k in recorded if sign(rows[k]["applied"] - rows[k]["replicas"]) == move]
        own_d = [
            run
            for run in runs
            if sign(decided_size(rows[run[0]]) - rows[run[0]]["replicas"]) == move
        ]
        times = [rows[k]["at"] for k in own_r], [rows[run[0]]["at"] for run in own_d]
        pairs = pair(*times, limit)
        for i, j in pairs:
            tick, (first, last) = own_r[i], own_d[j]
            seen = min(max(tick, first), last)
            kind = "exact" if first == tick else "early" if first < tick else "late"
            if decided_size(rows[seen]) != rows[tick]["applied"]:
                kind = "other_size"
            found.append({"kind": kind, "tick": tick, "first": first, "seen": seen})
        for i, tick in enumerate(own_r):
            if i not in {a for a, _ in pairs}:
                found.append({"kind": f"missed_{name}", "tick": tick, "first": None, "seen": tick})
        for j, (first, _) in enumerate(own_d):
            if j not in {b for _, b in pairs}:
                found.append({"kind": f"extra_{name}", "tick": None, "first": first, "seen": first})
    return found


def wish(rows: Sequence[Row], k: int) -> int | None:
    """Return which way tick k's decision goes, None where there is none."""
    if not 0 <= k < len(rows) or not can_decide(rows[k]):
        return None
    return sign(decided_size(rows[k]) - rows[k]["replicas"])


def unmade(rows: Sequence[Row]) -> set[int]:
    """Return the times of the recorded changes of one HPA that no rule made."""
    known = [k for k, row in enumerate(rows) if None not in (row["applied"], row["replicas"])]
    moves = {k: sign(rows[k]["applied"] - rows[k]["replicas"]) for k in known}
    changes = [k for k in known if moves[k]]
    found = set()
    for k, following in zip(changes, [*changes[1:], None], strict=False):
        if wish(rows, k) in (None, moves[k]) or wish(rows, k - 1) == moves[k]:
            continue
        back = (
            following is not None
            and moves[following] == -moves[k]
            and rows[following]["at"] - rows[k]["at"] <= BACK_MS
            and wish(rows, k + 1) == -moves[k]
        )
        at_zero = rows[k]["replicas"] == 0 and rows[k]["binding"] == "zero"
        if rows[k]["replicas"] and rows[k]["applied"] == 0 and k + 1 < len(rows):
            at_zero = rows[k + 1]["binding"] == "zero"
        if back or at_zero:
            found.add(rows[k]["at"])
    return found


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def skill(own: float | None, base: float | None) -> float | None:
    return None if own is None or not base else 1 - own / base


def size_before(rows: Sequence[Row], k: int, window: int) -> int:
    """Return the recorded size a window before tick k."""
    earlier = [row for row in rows if row["at"] <= rows[k]["at"] - window]
    return int(earlier[-1]["applied"] if earlier else rows[0]["replicas"])


def score(all_rows: Sequence[Row], tolerance: int | None, window: int) -> Row:
    """Return one HPA's row of the score."""
    rows = [row for row in all_rows if can_decide(row)]
    steps = [b["at"] - a["at"] for a, b in pairwise(all_rows)]
    limit = tolerance if tolerance is not None else lower_median(steps) * 3 // 2 if steps else 0
    found, others = events(rows, limit), unmade(all_rows)
    for event in found:
        if event["first"] is None and rows[event["tick"]]["at"] in others:
            event["kind"] = "foreign"
    of_kind = Counter(event["kind"] for event in found)
    recorded = sum(row["applied"] != row["replicas"] for row in rows) - of_kind["foreign"]
    decided = sum(event["first"] is not None for event in found)
    matched = sum(event["first"] is not None and event["tick"] is not None for event in found)
    decided_rows, rows = rows, [row for row in rows if row["at"] not in others]
    changed_at = [row["at"] for row in rows if row["applied"] != row["replicas"]]
    inside = [
        k for k, row in enumerate(rows) if any(abs(row["at"] - t) <= window for t in changed_at)
    ]
    constant = lower_median([row["applied"] for row in rows]) if rows else None

    def error(size: Callable[[int], Any], ticks: Sequence[int]) -> float | None:
        return mean([abs(size(k) - rows[k]["applied"]) for k in ticks])

    def near(size: Callable[[int], Any], most: int = 1) -> float | None:
        return mean([float(abs(size(k) - row["applied"]) <= most) for k, row in enumerate(rows)])

    guesses: dict[str, Callable[[int], Any]] = {
        "": lambda k: decided_size(rows[k]),
        "constant_": lambda k: constant,
        "persistence_": lambda k: rows[k]["replicas"],
    }
    result: Row = {}
    for name, guess in guesses.items():
        result[f"{name}mae"] = error(guess, range(len(rows)))
        result[f"window_{name}mae"] = error(guess, inside)
    result["window_horizon_mae"] = error(lambda k: size_before(rows, k, window), inside)
    scored = recorded > 0
    for name in ("constant", "persistence", "window_constant", "window_persistence"):
        own = result["window_mae" if name.startswith("window") else "mae"]
        result[f"{name}_skill"] = skill(own, result[f"{name}_mae"]) if scored else None
    horizon = skill(result["window_mae"], result["window_horizon_mae"])
    for kind in KINDS:
        bindings = Counter(decided_rows[e["seen"]]["binding"] for e in found if e["kind"] == kind)
        best = min(bindings, key=lambda name: (-bindings[name], name)) if bindings else None
        result[f"{kind}_binding"] = best
    lost = [r for r in all_rows if not can_decide(r) and None not in (r["applied"], r["replicas"])]
    return result | {
        "ticks": len(all_rows),
        "undecided_ticks": len(all_rows) - len(decided_rows),
        "tolerance_ms": limit,
        "recorded_events": recorded,
        "undecided_events": sum(row["applied"] != row["replicas"] for row in lost),
        "decided_events": decided,
        "decided_ticks": sum(decided_size(row) != row["replicas"] for row in decided_rows),
        "matched_events": matched,
        "precision": matched / decided if scored and decided else None,
        "recall": matched / recorded if scored else None,
        "agreement_share": near(guesses[""], 0),
        "within_1_share": near(guesses[""]),
        "constant": constant,
        "constant_agreement_share": near(guesses["constant_"], 0),
        "constant_within_1_share": near(guesses["constant_"]),
        "window_ticks": len(inside),
        "window_horizon_skill": horizon if scored else None,
        **{kind: of_kind[kind] for kind in ("exact", *KINDS)},
    }
