"""The summary against a naive twin that walks the rows, and cases worked out by hand."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.replay.summary import COLUMNS, SHARES, total
from hpabatch.layout import codes
from tests.engine.made import decisions, hpas, summarize

NAMES = [words.name for words in codes.BINDINGS.values()]
ERRORS = [codes.METRIC_ERRORS[code] for code in (codes.METRIC_NO_PODS, codes.METRIC_ANSWER_EMPTY)]
BOUND = {share: [codes.BINDINGS[code].name for code in some] for share, some in SHARES.items()}
NO_ANSWER = {
    "invalid_metric",
    "selector",
    "zero",
    "no_scale",
    "scale_read",
    "forced_min",
    "forced_max",
}


def random_ticks(seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    ticks = []
    for hpa in ("a", "b", "c"):
        for _ in range(draw.choice([1, 2, 40])):
            replicas, desired = draw.randint(0, 9), draw.randint(0, 9)
            binding = draw.choice(NAMES)
            metric, invalid = draw.choice([None, "cpu", "memory"]), draw.randint(0, 1)
            ticks.append(
                {
                    "hpa": hpa,
                    "replicas": replicas,
                    "desired": desired,
                    "applied": draw.randint(0, 9),
                    "proposal": draw.randint(0, 12),
                    "rescaled": desired != replicas and draw.random() < 0.8,
                    "binding": binding,
                    "min_replicas": draw.randint(0, 2),
                    "max_replicas": draw.randint(9, 12),
                    "metric": metric,
                    "ratio": metric and draw.choice([None, 0.5, 1.0, 1.05, 2.5, float("inf")]),
                    "invalid_metrics": invalid,
                    "error": draw.choice([None, *ERRORS]) if invalid else None,
                    "scaling_active": draw.choice([None, "AmbiguousSelector", "InvalidSelector"]),
                }
            )
    return ticks


def most_frequent(values: list[Any]) -> Any:
    counts = Counter(v for v in values if v is not None)
    return min(counts, key=lambda v: (-counts[v], v)) if counts else None


def share(rows: list[dict[str, Any]], test: Any) -> float:
    return sum(bool(test(row)) for row in rows) / len(rows)


def naive(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of one HPA that come from its ticks."""

    def decided(row: dict[str, Any]) -> int:
        return int(row["desired"] if row["rescaled"] else row["replicas"])

    def extreme(best: Any, column: str, *bindings: str) -> Any:
        return best((r[column] for r in rows if r["binding"] in bindings), default=None)

    asked = [r for r in rows if r["binding"] not in NO_ANSWER]
    able = [
        r
        for r in rows
        if r["binding"] not in ("invalid_metric", "selector", "no_scale", "scale_read")
    ]
    hours = len(rows) * 15 / 3600 if len(rows) > 1 else 0.0
    begun, later = rows[0]["ts"], 0
    for before, row in zip([None, *rows], rows, strict=False):
        begun = row["ts"] if before is not None and before["replicas"] == 0 else begun
        limited = row["binding"] in BOUND["policy_up_share"]
        later += limited and row["ts"] - begun > timedelta(minutes=5)
    ups = [r["applied"] > r["replicas"] for r in rows if r["applied"] != r["replicas"]]
    reversals = sum(a != b for a, b in pairwise(ups))
    finite = [r["ratio"] for r in rows if r["ratio"] not in (None, float("inf"))]
    applied_mean = sum(r["applied"] for r in rows) / len(rows)
    decided_mean = sum(map(decided, rows)) / len(rows)
    maximum, minimum = ("max", "forced_max"), ("min", "forced_min")
    return {
        "first_ts": rows[0]["ts"],
        "last_ts": rows[-1]["ts"],
        "ticks": len(rows),
        "hours": hours,
        "applied_first": rows[0]["applied"],
        "applied_last": rows[-1]["applied"],
        "applied_mean": applied_mean,
        "decided_mean": decided_mean,
        "applied_replica_hours": applied_mean * hours,
        "decided_replica_hours": decided_mean * hours,
        "agreement_share": share(able, lambda r: r["applied"] == decided(r)) if able else None,
        "first_mismatch_ts": next((r["ts"] for r in able if r["applied"] != decided(r)), None),
        "undecided_share": 1 - len(able) / len(rows),
        "recorded_changes": sum(r["applied"] != r["replicas"] for r in rows),
        "rescales": sum(bool(r["rescaled"]) for r in rows),
        "reversals": reversals,
        "reversals_per_day": reversals * 24 / hours if hours else 0.0,
        "ambiguous_share": share(
            rows,
            lambda r: r["binding"] == "selector" and r["scaling_active"] == "AmbiguousSelector",
        ),
        "policy_up_later_share": later / len(rows),
        "invalid_share": share(rows, lambda r: r["invalid_metrics"] > 0),
        "above_target_share": share(
            rows, lambda r: r["binding"] == "tolerance" and r["ratio"] and r["ratio"] > 1
        ),
        "asked_in_share": share(rows, lambda r: r in asked and r["proposal"] < r["replicas"]),
        "asked_out_share": share(rows, lambda r: r in asked and r["proposal"] > r["replicas"]),
        "asked_min": min((r["proposal"] for r in asked), default=None),
        "asked_max": max((r["proposal"] for r in asked), default=None),
        "ratio_max": max(finite, default=None),
        "bound_max": extreme(max, "max_replicas", *maximum),
        "bound_min": extreme(max, "min_replicas", *minimum),
        "asked_at_max": extreme(max, "proposal", *maximum),
        "asked_at_min": extreme(max, "proposal", *minimum),
        "asked_min_disabled": extreme(min, "proposal", "disabled_down"),
        "asked_max_disabled": extreme(max, "proposal", "disabled_up"),
        "metric": most_frequent([r["metric"] for r in rows]),
        "error": most_frequent([r["error"] for r in rows]),
    } | {name: share(rows, lambda r, n=names: r["binding"] in n) for name, names in BOUND.items()}


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_naive_twin(seed: int) -> None:
    frame = decisions(random_ticks(seed))
    found = summarize(frame, hpas("c", "a", "b"))
    assert found.columns == list(COLUMNS)
    assert found["hpa"].to_list() == ["a", "b", "c"]
    for row in found.iter_rows(named=True):
        rows = frame.filter(pl.col("hpa") == row["hpa"]).to_dicts()
        for name, value in naive(rows).items():
            expected = pytest.approx(value) if isinstance(value, float) else value
            assert row[name] == expected, (row["hpa"], name)


def test_an_hpa_without_ticks_stays_in() -> None:
    found = summarize(decisions([{}, {}]), hpas("cart", "idle"))
    row = found.row(1, named=True)
    assert (row["hpa"], row["ticks"], row["hours"], row["applied_mean"]) == ("idle", 0, 0.0, None)
    assert row["at_max_share"] == 0.0


def test_rivals_are_hpas_on_one_target() -> None:
    three = hpas("b", "a", "alone").with_columns(
        target=pl.when(pl.col("hpa") == "alone").then("hpa").otherwise(pl.lit("web"))
    )
    found = summarize(decisions([{"hpa": name} for name in ("a", "alone", "b")]), three)
    assert found["rivals"].to_list() == ["a, b", None, "a, b"]


def test_totals_weigh_by_ticks() -> None:
    frame = decisions([{"hpa": "a"}] * 3 + [{"hpa": "b", "applied": 4}])
    totals = total(summarize(frame, hpas("a", "b")))
    assert (totals.hpas, totals.ticks, totals.agreement_share) == (2, 4, 0.75)
    assert totals.first_ts == "2026-10-07T00:00:00Z"
    assert totals.last_ts == "2026-10-07T00:00:30Z"
