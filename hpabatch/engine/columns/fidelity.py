"""Columns of the controller score and the plant score."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, table
from hpabatch.engine.columns.replay import SCORE

SIGNALS: Final = table(
    "an HPA and signal",
    "`signals` in JSON of `fidelity`",
    *KEY,
    """
    signal string: name of the signal
    kind string: its kind; null: there is no plant
    base number: usage of a pod without work, in the signal's unit
    base_source string: where that is from
    ceiling number: the most that a pod uses; null: none
    unscored string: why there is no skill; null: there is
    split timestamp: the first instant that is judged
    skill number: skill against persistence
    skill_low number: lower end of its 95 % interval
    skill_high number: upper end of its 95 % interval
    changes integer: changes that count
    used integer: of these, those not left out
    median_error_pct number: median error of the used changes
    bias_pct number: mean signed error of the used changes
    mean_error_pct number: mean absolute error of the plant
    persistence_error_pct number: mean absolute error of persistence
    same integer: changes on which plant and persistence agree
    same_used integer: of these, those not left out
    same_median_error_pct number: median error of these
    same_bias_pct number: mean signed error of these
    size_changes integer: all judged changes of the size
    rollout_changes integer: all judged rollouts
    replaced_changes integer: all judged replacements of pods
    spec_changes integer: all judged changes of the spec
    left_out_far integer: changes left out because the settled cells are far apart
    left_out_moved integer: changes left out because the pods change again in the minutes after
    left_out_end integer: changes left out because the history ends in the minutes after
    left_out_gap integer: changes left out because samples are missing in the minutes after
    left_out_saturated integer: changes left out because usage is at the ceiling
    left_out_idle integer: changes left out because nothing is used after
    saturated_share number: judged cells in which usage was at the ceiling
    """,
)

FIDELITY_HPAS: Final = table(
    "an HPA",
    "`fidelity`; `hpas` in JSON",
    *KEY,
    *SCORE.some(
        *("unscored", "recorded_events", "agreement_share", "within_1_share", "mae"),
        *("constant_skill", "persistence_skill"),
        *("window_mae", "window_constant_skill", "window_persistence_skill"),
        prefix="controller_",
        told="controller score: ",
    ),
    """
    controller_answer string: whether the stated settings are those of the controller: right, wrong,
        or cannot be told at this resolution
    controller_answer_why string: if it is not right, why
    controller_told_apart string: deviations from the stated settings that fit this recording worse;
        null: none
    controller_window_s number: how much later than the controller a replay may see a sample
    controller_episodes integer: recorded changes of the size; near ones of one direction are one
    controller_held integer: of these, those scored by a replay in which they are put off
    controller_explained integer: of these, those decided in their window and direction
    controller_sized integer: of these, those decided to the sizes recorded
    controller_by_chance number: how many would be decided if they were recorded at other times
    controller_explained_share number: part of the held changes that is explained, above chance
    controller_standing_wishes integer: decided changes that stood longer than samples' times can
        tell, and that nothing recorded follows
    """,
    *SIGNALS.some(
        *("signal", "unscored", "base", "base_source", "skill", "skill_low", "skill_high"),
        *("changes", "used", "median_error_pct", "bias_pct"),
        *("mean_error_pct", "persistence_error_pct"),
        prefix="plant_",
        told="plant score of the worst signal: ",
    ),
    """
    plant_why_not string: why the plant score is not good enough, or why there is none; null: it is
    advice boolean: whether both scores are good, which does not promise high confidence; where
        not, `advise` gives no advice, or has medium confidence at most
    why_not string: if not, why
    """,
)

CHANGES: Final = table(
    "a judged change",
    "`fidelity --changes`",
    *KEY,
    """
    signal string: name of the signal
    ts timestamp: when the last pod changed
    kind string: how it changed: size, rollout, replaced or spec
    counts boolean: whether the skill is of it
    left_out string: why it is not used; null: it is
    pods_before integer: ready pods before
    pods_after integer: ready pods after
    before_milli number: usage per pod, or a total's value, before
    predicted_milli number: what the plant predicts after
    observed_milli number: what was recorded after
    error number: signed error of the plant, as a share; null: it is left out
    persistence_error number: signed error of persistence, as a share; null: it is left out
    samples integer: settled cells in the minutes after
    """,
)
