"""HPAs that are most worth a look, with reasons: one table of rules over a summary.

A rule reads one row of `engine.replay.summary`, says for which part of the time it applies, and
gives one sentence with its numbers. An HPA has one row with up to three reasons, by score; a failed
metric comes first. It is ranked by the highest score:

    score = weight * (1/2 + share/2)

Half of a rule's weight counts for reaching its threshold, the other half grows with the part of the
time. The weights say what costs most: an HPA that cannot act, then one that is held at its maximum,
then waste, then what is only odd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.replay.summary import FOREIGN_SHARE, KEY

ACT: Final = "act"
HARM: Final = "harm"
ASK: Final = "ask"
"""Groups: a setting to correct, a limit that does harm, a question that is open."""

# Shares of the time from which on a rule speaks: see `_lasts`.
LASTING_HOURS: Final = 1 / 12
LASTING_SHARE: Final = 0.5
STANDS_STILL_SHARE: Final = 0.02  # ambiguous or invalid selector
INVALID_SHARE: Final = 0.02  # half an hour a day; a single lost scrape is not worth a look
NOT_RECORDED_SHARE: Final = 0.02
AT_MAX_SHARE: Final = 0.02
DISABLED_SHARE: Final = 0.04
POLICY_SHARE: Final = 0.02
WINDOW_UP_SHARE: Final = 0.10
POD_GUARD_SHARE: Final = 0.10
ZERO_SHARE: Final = 0.50
IDLE_SHARE: Final = 0.90  # at the minimum for nearly all the time,
IDLE_FACTOR: Final = 2  # and the minimum at least twice what the metrics asked for
NEAR_TARGET_SHARE: Final = 0.25  # above the target, yet never beyond the tolerance
DIFFERS_SHARE: Final = 0.25  # the recorded sizes are not what the rules decide,
MOSTLY_DIFFERS_SHARE: Final = 0.50  # so that nothing else that is said of the HPA can be relied on
RECURRING: Final = 2  # changes by others

NEVER_SHARE: Final = 0.005  # shares below this count as never
ALWAYS_SHARE: Final = 0.99  # shares above this count as always
REVERSALS_PER_DAY: Final = 72.0  # one every 20 minutes
MIN_REVERSALS: Final = 4  # a replay of an hour must not speak of a day's number
ALL_DAY_REVERSALS: Final = 288.0  # one every 5 minutes: as bad as it gets
GROWTH_FACTOR: Final = 2
GROWTH_HOURS: Final = 6.0

MOST_REASONS: Final = 3
ALSO: Final = ". Also: "
"""Between two reasons in `why`; a question has its own mark."""
_FAILED: Final = ("invalid_metrics", "failing_metric")

COLUMNS: Final = ("rank", *KEY, "rule", "score", "why")


@dataclass(frozen=True, slots=True)
class Rule:
    """When an HPA is worth a look, how much, and the sentence; expressions over a summary.

    Attributes:
        name: the rule's name, as in the `rule` column.
        weight: the highest score; its severity follows from it.
        group: ACT, HARM or ASK.
        fix: what to do.
        when: whether the rule applies.
        share: for which part of the time, 0 to 1.
        why: the sentence; parts are texts and expressions.
    """

    name: str
    weight: float
    group: str
    fix: str
    when: pl.Expr
    share: pl.Expr
    why: tuple[str | pl.Expr, ...]

    @property
    def severity(self) -> str:
        """high, medium or low."""
        return "high" if self.weight >= 85 else "medium" if self.weight >= 50 else "low"

    @property
    def score(self) -> pl.Expr:
        """The score, 0 to `weight`."""
        return (self.weight * (0.5 + 0.5 * self.share.clip(0.0, 1.0))).round(1)


def duration(hours: pl.Expr) -> pl.Expr:
    """Return hours as text: `9 h 12 m`, `24 h`, `12 m`, `40 s`."""
    seconds = (hours * 3600).round(0).cast(pl.Int64)
    minutes = (hours * 60).round(0).cast(pl.Int64)
    whole, rest = (minutes // 60).cast(pl.String), (minutes % 60).cast(pl.String)
    return (
        pl.when(seconds < 60)
        .then(seconds.cast(pl.String) + " s")
        .when(minutes < 60)
        .then(minutes.cast(pl.String) + " m")
        .when(minutes % 60 == 0)
        .then(whole + " h")
        .otherwise(whole + " h " + rest + " m")
    )


def _time(share: str) -> pl.Expr:
    return duration(pl.col(share) * pl.col("hours"))


def _percent(share: pl.Expr) -> pl.Expr:
    return (share * 100).round(0).cast(pl.Int64).cast(pl.String) + " %"


def _decimal(value: pl.Expr, digits: int) -> pl.Expr:
    return value.round(digits).cast(pl.String)


def _lasts(share: str, least: float) -> pl.Expr:
    """Say whether something held for a share of the time, and for 5 minutes or half of it.

    A short replay's first minute, in which nothing has been sampled yet, is not worth a look.
    """
    part = pl.col(share)
    long = (part * pl.col("hours") >= LASTING_HOURS) | (part >= LASTING_SHARE)
    return (part >= least) & long


_C = pl.col
_FIRST_OF_RIVALS = _C("rivals").is_null() | (_C("rivals").str.split(", ").list.first() == _C("hpa"))
_BLOCKED_ALWAYS = _C("blocked_share") >= ALWAYS_SHARE * _C("invalid_share")
_GREW = (
    (_C("applied_last") >= GROWTH_FACTOR * _C("applied_first"))
    & (_C("applied_last") > _C("applied_first") + 1)
    & (_C("asked_in_share") < NEVER_SHARE)
    & (_C("hours") >= GROWTH_HOURS)
)

_METRIC: Final = (
    "make the metric available (its adapter, the pods' requests, its selector), or remove it from "
    "the HPA"
)
_RECORD: Final = (
    "check that spec, requests and times are those of the recording (hpabatch fidelity, hpabatch "
    "history quality)"
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "ambiguous_selector",
        100,
        ACT,
        "scale the target by one HPA with both metrics, or make the targets' selectors distinct",
        # Named once, at the first of the HPAs that stand in each other's way.
        _lasts("ambiguous_share", STANDS_STILL_SHARE) & _FIRST_OF_RIVALS,
        _C("ambiguous_share"),
        (
            "the selector is ambiguous: ",
            pl.when(_C("rivals").is_null())
            .then(pl.lit("another HPA's target matches the same pods"))
            .otherwise(
                pl.format("{} scale the same {}/{}", _C("rivals"), _C("target_kind"), _C("target"))
            ),
            ", so it stood still for ",
            _time("ambiguous_share"),
        ),
    ),
    Rule(
        "selector",
        100,
        ACT,
        "give the target a valid spec.selector",
        _lasts("selector_share", STANDS_STILL_SHARE)
        & (_C("ambiguous_share") < _C("selector_share") / 2),
        _C("selector_share"),
        (
            "the scale's selector is missing or not valid, so it stood still for ",
            _time("selector_share"),
        ),
    ),
    Rule(
        "invalid_metrics",
        95,
        ACT,
        _METRIC,
        _lasts("invalid_share", INVALID_SHARE) & _BLOCKED_ALWAYS,
        _C("blocked_share"),
        (
            "metrics invalid for ",
            _time("blocked_share"),
            ", in which it could not act: ",
            _C("error").fill_null("no reason recorded"),
        ),
    ),
    Rule(
        "failing_metric",
        90,
        ACT,
        _METRIC,
        _lasts("invalid_share", INVALID_SHARE) & _BLOCKED_ALWAYS.not_(),
        _C("invalid_share"),
        (
            "a metric failed for ",
            _time("invalid_share"),
            " (",
            _C("error").fill_null("no reason recorded"),
            "), which kept it from scaling in for ",
            _time("blocked_share"),
        ),
    ),
    Rule(
        "mostly_differs",
        88,
        ASK,
        _RECORD,
        1 - _C("agreement_share") >= MOSTLY_DIFFERS_SHARE,
        1 - _C("agreement_share"),
        (
            "the rules decide another size than the recorded one in ",
            _percent(1 - _C("agreement_share")),
            " of the ticks (on average ",
            _decimal(_C("decided_mean"), 1),
            " instead of ",
            _decimal(_C("applied_mean"), 1),
            "): are its spec, requests and times those of the recording?",
        ),
    ),
    Rule(
        "at_max",
        85,
        HARM,
        "raise maxReplicas to what the metrics asked for, if the cluster has room (hpabatch plan); "
        "memory that grows with a pod's age or is not shared does not fall with more pods",
        _lasts("at_max_share", AT_MAX_SHARE),
        _C("at_max_share"),
        (
            "maxReplicas ",
            _C("bound_max"),
            " held it for ",
            _time("at_max_share"),
            "; the metrics asked for up to ",
            _C("asked_at_max"),
        ),
    ),
    Rule(
        "flapping",
        80,
        HARM,
        "lengthen behavior.scaleDown.stabilizationWindowSeconds, or smooth the metric",
        (_C("reversals_per_day") >= REVERSALS_PER_DAY) & (_C("reversals") >= MIN_REVERSALS),
        _C("reversals_per_day") / ALL_DAY_REVERSALS,
        (
            "changed its direction ",
            _C("reversals"),
            " times in ",
            duration(_C("hours")),
            pl.when(_C("window_down_share") < NEVER_SHARE)
            .then(pl.lit("; no scale-down window ever held it"))
            .otherwise(
                pl.format("; the scale-down window held it for {}", _time("window_down_share"))
            ),
        ),
    ),
    Rule(
        "scale_down_disabled",
        75,
        ACT,
        "allow scaling down: remove selectPolicy Disabled from behavior.scaleDown",
        _lasts("disabled_down_share", DISABLED_SHARE),
        _C("disabled_down_share"),
        (
            "scaling down is disabled and held it for ",
            _time("disabled_down_share"),
            "; the metrics asked for as few as ",
            _C("asked_min_disabled"),
        ),
    ),
    Rule(
        "scale_up_disabled",
        75,
        ACT,
        "allow scaling up: remove selectPolicy Disabled from behavior.scaleUp",
        _lasts("disabled_up_share", DISABLED_SHARE),
        _C("disabled_up_share"),
        (
            "scaling up is disabled and held it for ",
            _time("disabled_up_share"),
            "; the metrics asked for up to ",
            _C("asked_max_disabled"),
        ),
    ),
    Rule(
        "min_is_max",
        70,
        ACT,
        "give minReplicas and maxReplicas different values, or remove the HPA",
        _C("min_replicas") == _C("max_replicas"),
        pl.lit(1.0),
        ("minReplicas = maxReplicas = ", _C("max_replicas"), ": it can never act"),
    ),
    Rule(
        "idle_minimum",
        42,  # below any at_max: users wait there, here only money is lost
        ACT,
        "lower minReplicas as far as availability allows (hpabatch advise)",
        _lasts("at_min_share", IDLE_SHARE) & (_C("bound_min") >= IDLE_FACTOR * _C("asked_at_min")),
        1 - _C("asked_at_min") / _C("bound_min"),
        (
            "minReplicas ",
            _C("bound_min"),
            " held it for ",
            _time("at_min_share"),
            ", in which the metrics never asked for more than ",
            _C("asked_at_min"),
        ),
    ),
    Rule(
        "never_scales_in",
        65,
        ASK,
        "find out whether the metric falls when there are more pods; memory that is not "
        "given back does not",
        _GREW,
        (_C("applied_last") - _C("applied_first")) / _C("applied_last"),
        (
            "grew from ",
            _C("applied_first"),
            " to ",
            _C("applied_last"),
            " and its metrics never asked for fewer in ",
            duration(_C("hours")),
            " (memory that is not given back?)",
        ),
    ),
    Rule(
        "never_scales_out",
        65,
        ASK,
        "find out whether usage can rise beyond the tolerance: a limit near the request caps it",
        _lasts("above_target_share", NEAR_TARGET_SHARE)
        & (_C("asked_out_share") == 0)
        & _GREW.not_(),
        _C("above_target_share"),
        (
            "above its target for ",
            _time("above_target_share"),
            ", within the tolerance, and its metrics never asked for more: can usage rise that "
            "far, or does a limit cap it?",
        ),
    ),
    Rule(
        "not_recorded",
        60,
        ASK,
        "record the size of the target (table scales)",
        _lasts("no_scale_share", NOT_RECORDED_SHARE),
        _C("no_scale_share"),
        ("its target's size is not known for ", _time("no_scale_share"), " of the replay"),
    ),
    Rule(
        "foreign_changes",
        55,
        ASK,
        "find out what else writes spec.replicas: deploys, kubectl scale, an operator, KEDA",
        (_C("foreign_changes") >= RECURRING)
        & (_C("foreign_changes") >= FOREIGN_SHARE * _C("recorded_changes")),
        _C("foreign_changes") / _C("recorded_changes"),
        (
            _C("foreign_changes"),
            " of its ",
            _C("recorded_changes"),
            " changes of size were not by the rules, such as ",
            _C("foreign_told").str.extract("^([^:]+:[^:]+:[^:]+):"),
            ": does something else write spec.replicas, or are its samples too far apart to "
            "show the rule?",
        ),
    ),
    Rule(
        "scale_up_policy",
        50,
        HARM,
        "allow faster scaling up: larger behavior.scaleUp.policies (hpabatch advise --grid "
        "scaleUp.policies=today,default,fast tries some)",
        # The burst of a start is not what a limit is judged by.
        _lasts("policy_up_later_share", POLICY_SHARE),
        _C("policy_up_later_share"),
        (
            "a limit on scaling up held it for ",
            _time("policy_up_later_share"),
            " while its metrics asked for more",
        ),
    ),
    Rule(
        "scale_up_window",
        45,
        HARM,
        "shorten behavior.scaleUp.stabilizationWindowSeconds",
        _lasts("window_up_share", WINDOW_UP_SHARE),
        _C("window_up_share"),
        ("the scale-up stabilization window held it for ", _time("window_up_share")),
    ),
    Rule(
        "pod_guard",
        45,
        HARM,
        "make pods ready sooner, or their metrics complete",
        _lasts("pod_guard_share", POD_GUARD_SHARE),
        _C("pod_guard_share"),
        ("missing or unready pods kept it from acting for ", _time("pod_guard_share")),
    ),
    Rule(
        "differs",
        20,
        ASK,
        _RECORD,
        (1 - _C("agreement_share")).is_between(DIFFERS_SHARE, MOSTLY_DIFFERS_SHARE, "left"),
        1 - _C("agreement_share"),
        (
            "the recorded size is not the decided one in ",
            _percent(1 - _C("agreement_share")),
            " of the ticks (on average ",
            _decimal(_C("applied_mean"), 1),
            " instead of ",
            _decimal(_C("decided_mean"), 1),
            ")",
        ),
    ),
    Rule(
        "at_zero",
        10,
        ASK,
        "expected with KEDA or a schedule; else find out what set it to 0",
        _lasts("zero_share", ZERO_SHARE),
        _C("zero_share"),
        ("at 0 replicas, where no HPA acts, for ", _time("zero_share")),
    ),
)


def rank_attention(summary: pl.DataFrame, top: int) -> pl.DataFrame:
    """Return the `top` HPAs most worth a look, best first: rank, key, rule, score (0-100), why.

    `rule` is of the first reason in `why`.

    An HPA that no rule speaks of is not in it; equal scores are in the order of the key. Raises
    nothing.
    """
    found = apply_rules(summary)
    failed = pl.col("rule").is_in(_FAILED)
    ranked = (
        found.with_columns(highest=pl.col("score").max().over(KEY))
        .sort(
            ["highest", *KEY, failed, "score", "order"],
            descending=[True, False, False, False, True, True, False],
        )
        .group_by(KEY, maintain_order=True)
        .agg(
            pl.col("rule").first(),
            score=pl.col("highest").first(),
            why=pl.col("why")
            .head(MOST_REASONS)
            .str.join(ALSO)
            .str.replace_all(f"?{ALSO}", f"?{ALSO[1:]}", literal=True),
        )
        .head(top)
        .with_row_index("rank", offset=1)
        .with_columns(pl.col("rank").cast(pl.Int64))
    )
    return ranked.select(COLUMNS).collect()


def apply_rules(summary: pl.DataFrame) -> pl.LazyFrame:
    """Return a row for each HPA and rule that speaks of it: key, rule, order, score, why, evidence.

    `evidence` is a JSON object of the summary's columns that the rule reads.
    """
    return pl.concat([_apply(summary.lazy(), rule) for rule in RULES])


def _apply(summary: pl.LazyFrame, rule: Rule) -> pl.LazyFrame:
    """Return the rows of one rule."""
    read = (rule.when, rule.share, *(p for p in rule.why if isinstance(p, pl.Expr)))
    evidence = dict.fromkeys(name for part in read for name in part.meta.root_names())
    names: Sequence[str] = [r.name for r in RULES]
    parts = [pl.lit(p) if isinstance(p, str) else p.cast(pl.String) for p in rule.why]
    return summary.filter((_C("ticks") > 0) & rule.when).select(
        *KEY,
        pl.lit(rule.name).alias("rule"),
        pl.lit(names.index(rule.name)).alias("order"),
        rule.score.cast(pl.Float64).alias("score"),
        pl.concat_str(parts).alias("why"),
        pl.struct(*evidence).struct.json_encode().alias("evidence"),
    )
