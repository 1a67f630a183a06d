"""Every rule of the table speaks when it should, with its numbers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from hpabatch.engine.replay.attention import RULES, duration, rank_attention
from tests.engine.made import decisions, hpas, summarize

QUIET = summarize(decisions([{}] * 2), hpas("cart")).with_columns(hours=24.0, ticks=5760)


def row(**columns: Any) -> pl.DataFrame:
    """Return the summary of an HPA that nobody need look at, but for these columns."""
    return QUIET.with_columns(
        pl.lit(value, dtype=QUIET.schema[name]).alias(name) for name, value in columns.items()
    )


CASES: list[tuple[str, dict[str, Any], str]] = [
    (
        "ambiguous_selector",
        {"ambiguous_share": 1.0, "selector_share": 1.0, "rivals": "cart, zoo"},
        "the selector is ambiguous: cart, zoo scale the same Deployment/cart, so it stood still "
        "for 24 h",
    ),
    (
        "ambiguous_selector",
        {"ambiguous_share": 0.5, "selector_share": 0.5},
        "the selector is ambiguous: another HPA's target matches the same pods, so it stood still "
        "for 12 h",
    ),
    (
        "selector",
        {"selector_share": 0.25},
        "the scale's selector is missing or not valid, so it stood still for 6 h",
    ),
    (
        "foreign_changes",
        {
            "foreign_changes": 2,
            "recorded_changes": 7,
            "foreign_told": "5 -> 1 at 2026-01-01T12:15:00Z: not by the rules, which kept 5; …",
        },
        "2 of its 7 changes of size were not by the rules, such as 5 -> 1 at 2026-01-01T12:15:00Z: "
        "does something else write spec.replicas, or are its samples too far apart to show "
        "the rule?",
    ),
    (
        "invalid_metrics",
        {"blocked_share": 1.0, "invalid_share": 1.0, "error": "missing resource request in a pod"},
        "metrics invalid for 24 h, in which it could not act: missing resource request in a pod",
    ),
    (
        "failing_metric",
        {"blocked_share": 0.5, "invalid_share": 1.0, "error": "no metrics returned"},
        "a metric failed for 24 h (no metrics returned), which kept it from scaling in for 12 h",
    ),
    (
        "at_max",
        {"at_max_share": 9.2 / 24, "bound_max": 8, "asked_at_max": 14},
        "maxReplicas 8 held it for 9 h 12 m; the metrics asked for up to 14",
    ),
    (
        "flapping",
        {"reversals": 212, "reversals_per_day": 212.0},
        "changed its direction 212 times in 24 h; no scale-down window ever held it",
    ),
    (
        "flapping",
        {"reversals": 212, "reversals_per_day": 212.0, "window_down_share": 0.125},
        "changed its direction 212 times in 24 h; the scale-down window held it for 3 h",
    ),
    (
        "scale_down_disabled",
        {"disabled_down_share": 14 / 24, "asked_min_disabled": 2},
        "scaling down is disabled and held it for 14 h; the metrics asked for as few as 2",
    ),
    (
        "scale_up_disabled",
        {"disabled_up_share": 0.5, "asked_max_disabled": 9},
        "scaling up is disabled and held it for 12 h; the metrics asked for up to 9",
    ),
    (
        "min_is_max",
        {"min_replicas": 6, "max_replicas": 6},
        "minReplicas = maxReplicas = 6: it can never act",
    ),
    (
        "idle_minimum",
        {"at_min_share": 0.99, "bound_min": 8, "asked_at_min": 2},
        "minReplicas 8 held it for 23 h 46 m, in which the metrics never asked for more than 2",
    ),
    (
        "never_scales_in",
        {"applied_first": 2, "applied_last": 7},
        "grew from 2 to 7 and its metrics never asked for fewer in 24 h (memory that is not given "
        "back?)",
    ),
    (
        "never_scales_out",
        {"above_target_share": 0.5, "ratio_max": 1.0526},
        "above its target for 12 h, within the tolerance, and its metrics never asked for more: "
        "can usage rise that far, or does a limit cap it?",
    ),
    (
        "not_recorded",
        {"no_scale_share": 0.5},
        "its target's size is not known for 12 h of the replay",
    ),
    (
        "scale_up_policy",
        {"policy_up_later_share": 0.025},  # half an hour a day
        "a limit on scaling up held it for 36 m while its metrics asked for more",
    ),
    (
        "scale_up_window",
        {"window_up_share": 0.25},
        "the scale-up stabilization window held it for 6 h",
    ),
    (
        "pod_guard",
        {"pod_guard_share": 0.25},
        "missing or unready pods kept it from acting for 6 h",
    ),
    (
        "differs",
        {"agreement_share": 0.6, "applied_mean": 4.58, "decided_mean": 4.03},
        "the recorded size is not the decided one in 40 % of the ticks (on average 4.6 instead of "
        "4.0)",
    ),
    (
        "mostly_differs",
        {"agreement_share": 0.04, "applied_mean": 4.58, "decided_mean": 4.03},
        "the rules decide another size than the recorded one in 96 % of the ticks (on average 4.0 "
        "instead of 4.6): are its spec, requests and times those of the recording?",
    ),
    ("at_zero", {"zero_share": 0.75}, "at 0 replicas, where no HPA acts, for 18 h"),
]


@pytest.mark.parametrize(("rule", "columns", "why"), CASES)
def test_a_rule_speaks(rule: str, columns: dict[str, Any], why: str) -> None:
    found = rank_attention(row(**columns), 5)
    assert found.select("rank", "hpa", "rule", "why").rows() == [(1, "cart", rule, why)]


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} == {rule.name for rule in RULES}


def test_a_quiet_hpa_is_not_worth_a_look() -> None:
    assert rank_attention(QUIET, 5).is_empty()


def test_recorded_sizes_that_flap_are_worth_a_look() -> None:
    """A controller of another kind flapped where the rules hold the size."""
    flaps = [{"replicas": 3 + k % 2, "applied": 4 - k % 2, "desired": 3 + k % 2} for k in range(6)]
    found = rank_attention(summarize(decisions(flaps), hpas("cart")), 5)
    assert "changed its direction 5 times" in found["why"][0]


def test_rivals_are_named_once() -> None:
    both = pl.concat(
        [
            row(hpa=name, ambiguous_share=1.0, selector_share=1.0, rivals="cart, zoo")
            for name in ("cart", "zoo")
        ]
    )
    assert rank_attention(both, 5)["hpa"].to_list() == ["cart"]


def test_a_failed_metric_is_the_first_of_several_reasons() -> None:
    found = rank_attention(
        row(
            at_max_share=1.0,
            bound_max=8,
            asked_at_max=9,
            min_replicas=8,
            max_replicas=8,
            invalid_share=0.05,
            blocked_share=0.01,
            error="gone",
        ),
        5,
    )
    assert found.select("rule", "score").rows() == [("failing_metric", 85.0)]
    assert found["why"][0].split(". Also: ")[:2] == [
        "a metric failed for 1 h 12 m (gone), which kept it from scaling in for 14 m",
        "maxReplicas 8 held it for 24 h; the metrics asked for up to 9",
    ]
    assert found["why"][0].endswith(". Also: minReplicas = maxReplicas = 8: it can never act")


def test_a_reason_that_asks_ends_with_its_mark_alone() -> None:
    found = rank_attention(row(agreement_share=0.1, zero_share=1.0), 5)
    assert "are its spec, requests and times those of the recording? Also: at 0" in found["why"][0]


def test_the_order_is_by_score_then_by_name() -> None:
    three = pl.concat(
        [
            row(hpa="b", zero_share=1.0),
            row(hpa="c", min_replicas=10),
            row(hpa="a", zero_share=1.0),
        ]
    )
    found = rank_attention(three, 2)
    assert found.select("rank", "hpa").rows() == [(1, "c"), (2, "a")]
    assert rank_attention(three, 0).is_empty()


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "0 s"),
        (0.011, "40 s"),
        (0.2, "12 m"),
        (0.9999, "1 h"),
        (9.2, "9 h 12 m"),
        (24, "24 h"),
    ],
)
def test_durations(hours: float, text: str) -> None:
    assert pl.select(duration(pl.lit(hours))).item() == text
