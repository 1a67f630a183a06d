"""Cases of the public documentation and the KEPs: what the code makes of their sentences.

Where documentation and code differ, the code is right and the difference is named.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpabatch.layout.records import EVENT_SLOT, HEAD_LENGTH, records_from
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.pack import LaneView, pack_fleet
from hpabatch.rules.behavior import scale_down_limit, scale_up_limit
from tests.rules.helpers import (
    EXACT_WISH,
    NO_TOLERANCE,
    Json,
    at,
    calculate,
    external,
    follow,
    hpa_spec,
    object_metric,
    pods_metric,
    policies,
    replay,
    resource,
    sizes,
    some,
    tick,
    wanted,
    wish,
)

MI = 2**20 * 1000  # one mebibyte in milli
MINUTE = 60


def per_minute(count: int, wished: int) -> list[tuple[float, int]]:
    """Return the same wish once per minute, each just after the last minute has expired."""
    return [(k * (MINUTE + 1), wished) for k in range(count)]


def shrink_from(start: int, steps: int, wished: int, **rules: object) -> list[int]:
    """Return the sizes of a target that shrinks by the given scale-down rules."""
    down = {"stabilizationWindowSeconds": 0, **rules}
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": down})
    return [start, *sizes(follow(spec, start, per_minute(steps, wished)))]


# ---- the algorithm -------------------------------------------------------------------------------


def test_twice_the_target_doubles_the_replicas() -> None:
    result = calculate(pods_metric("100m"), some(3, 200), 3)
    assert (result["ratio"], result["average_milli"], result["proposal"]) == (2.0, 200, 6)


@pytest.mark.parametrize(("pods", "proposal"), [(4, 2), (3, 2)])
def test_half_the_target_halves_the_replicas_and_rounds_up(pods: int, proposal: int) -> None:
    result = calculate(pods_metric("100m"), some(pods, 50), pods)
    assert (result["ratio"], result["proposal"]) == (0.5, proposal)


def test_walkthrough_305_percent_of_50_wants_7_and_takes_4_first() -> None:
    spec = hpa_spec(resource(50), high=10)
    first, second = replay(
        spec,
        [tick(0, 1, some(1, 305, request=100)), tick(15, 4, some(4, 77, request=100))],
    )
    assert first["metrics"][0]["utilization_pct"] == 305
    assert first["metrics"][0]["ratio"] == 6.1
    assert (first["proposal"], first["desired"]) == (7, 4)
    assert first["conditions"]["ScalingLimited"] == "True ScaleUpLimit"
    assert (second["proposal"], second["desired"]) == (7, 7)  # ceil(1.54 x 4) is 7 as well


def test_walkthrough_0_percent_wants_0_and_keeps_the_minimum() -> None:
    ticks = [tick(0, 1, some(1, 0, request=200))]
    result = replay(hpa_spec(resource(50), high=10), ticks, recommendations=[(1, -400)])[0]
    assert (result["proposal"], result["desired"], result["rescaled"]) == (0, 1, False)
    assert result["conditions"]["ScalingLimited"] == "True TooFewReplicas"


def test_66m_of_500m_on_one_pod_is_one_replica() -> None:
    result = replay(hpa_spec(pods_metric("500m"), high=10), [tick(0, 1, some(1, 66))])[0]
    assert result["metrics"][0]["ratio"] == 0.132
    assert (result["proposal"], result["desired"], result["rescaled"]) == (1, 1, False)
    assert result["conditions"]["ScalingLimited"] == "False DesiredWithinRange"


# ---- tolerances ----------------------------------------------------------------------------------


def memory_wanted(usage_mi_milli: int, pods: int, **tolerances: str) -> int:
    behavior: Json = {k: {"tolerance": v} for k, v in tolerances.items()}
    metric = resource(average="100Mi", name="memory")
    return wanted(metric, some(pods, usage_mi_milli), pods, behavior=behavior)


def test_scale_up_tolerance_of_5_percent_stays_at_105mi_and_moves_above() -> None:
    assert memory_wanted(105 * MI, 10, scaleUp="0.05") == 10
    assert memory_wanted(105 * MI + 1000, 10, scaleUp="0.05") == 11


@pytest.mark.parametrize(
    ("mebibytes", "pods", "proposal"),
    [(95, 10, 10), (101, 10, 10), (94, 10, 10), (94, 5, 5), (94, 20, 19), (102, 10, 11)],
)
def test_tolerances_of_both_directions_include_their_ends(
    mebibytes: int, pods: int, proposal: int
) -> None:
    behavior: Json = {"scaleDown": {"tolerance": "0.05"}, "scaleUp": {"tolerance": "0.01"}}
    metric = resource(average="100Mi", name="memory")
    result = calculate(metric, some(pods, mebibytes * MI), pods, behavior=behavior)
    assert result["proposal"] == proposal
    within = mebibytes in (95, 101)
    assert result["step"] == (2 if within else 1)


@pytest.mark.parametrize(("tolerance", "proposal"), [(0.1, 100), (0.05, 107)])
def test_kep_4951_100_replicas_at_ratio_1_07(tolerance: float, proposal: int) -> None:
    flags = ControllerFlags(tolerance=tolerance)
    result = calculate(resource(100), some(100, 1070), 100, flags=flags)
    assert (result["ratio"], result["proposal"]) == (1.07, proposal)


# ---- External and Object metrics -----------------------------------------------------------------


def test_queue_one_worker_per_30_messages() -> None:
    result = calculate(external(average="30"), [], 2, 90_000)
    assert (result["ratio"], result["proposal"], result["average_milli"]) == (1.5, 3, 45_000)


def test_queue_within_tolerance_keeps_status_replicas() -> None:
    result = calculate(external(average="30"), [], 2, 62_000)
    assert result["ratio"] == pytest.approx(1.0333333, abs=1e-6)
    assert (result["proposal"], math.ceil(62 / 30)) == (2, 3)


def test_object_value_10k_of_2k_times_three_ready_pods() -> None:
    result = calculate(object_metric(value="2k"), some(3), 3, 10_000_000)
    assert (result["ratio"], result["proposal"], result["value_milli"]) == (5.0, 15, 10_000_000)


# ---- behavior ------------------------------------------------------------------------------------


TEN_PERCENT_OR_FOUR_PODS = policies(("Pods", 4, 60), ("Percent", 10, 60))


def test_80_to_10_takes_8_in_the_first_minute_and_8_in_the_second() -> None:
    spec = hpa_spec(
        EXACT_WISH,
        behavior={"scaleDown": TEN_PERCENT_OR_FOUR_PODS | {"stabilizationWindowSeconds": 0}},
    )
    results = follow(spec, 80, [(0, 10), (15, 10), (59, 10), (60, 10)])
    assert sizes(results) == [72, 72, 72, 64]  # 72 less 7.2 is 64.8, truncated
    assert results[0]["conditions"]["ScalingLimited"] == "True ScaleDownLimit"
    assert [r["rescaled"] for r in results] == [True, False, False, True]


def test_80_to_10_minute_by_minute() -> None:
    series = shrink_from(80, 14, 10, **TEN_PERCENT_OR_FOUR_PODS)
    assert series == [80, 72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 10]


@pytest.mark.parametrize(
    ("start", "by_pods", "by_percent"),
    [(45, 41, 40), (40, 36, 36), (36, 32, 32), (32, 28, 28), (28, 24, 25)],
)
def test_at_40_36_and_32_both_policies_agree_below_pods_wins(
    start: int, by_pods: int, by_percent: int
) -> None:
    assert shrink_from(start, 1, 1, **policies(("Pods", 4, 60)))[1] == by_pods
    assert shrink_from(start, 1, 1, **policies(("Percent", 10, 60)))[1] == by_percent
    assert shrink_from(start, 1, 1, **TEN_PERCENT_OR_FOUR_PODS)[1] == min(by_pods, by_percent)


def test_select_min_takes_the_smallest_change() -> None:
    rules = policies(("Percent", 10, 60), ("Pods", 5, 60), selectPolicy="Min")
    series = shrink_from(100, 22, 10, **rules)
    assert series[:11] == [100, 95, 90, 85, 80, 75, 70, 65, 60, 55, 50]
    assert series[11:] == [45, 40, 36, 32, 28, 25, 22, 19, 17, 15, 13, 11]
    assert shrink_from(11, 1, 10, **rules) == [11, 10]


def test_story_1_900_percent_per_minute_grows_tenfold() -> None:
    up = policies(("Percent", 900, 60))
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": up})
    assert sizes(follow(spec, 1, per_minute(3, 1000))) == [10, 100, 1000]


def test_story_2_one_pod_per_ten_minutes_after_the_default_window() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": policies(("Pods", 1, 600))})
    moments = [(0, 1), (299, 1), (300, 1), (899, 1), (900, 1), (1500, 1)]
    assert sizes(follow(spec, 1000, moments)) == [1000, 1000, 999, 999, 998, 997]


def test_story_3_one_pod_per_five_minutes_up() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Pods", 1, 300))})
    moments = [(0, 9), (150, 9), (299, 9), (300, 9), (600, 9)]
    assert sizes(follow(spec, 1, moments)) == [2, 2, 2, 3, 4]


def test_story_5_the_largest_of_ten_minutes_and_the_edge_is_out() -> None:
    down = {"stabilizationWindowSeconds": 600}
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": down})
    wishes = [10, 9, 8, 9, 9, 8, 9, 8, 9, 8, 7]
    ticks = [wish(60 * k, 10, n) for k, n in enumerate(wishes)]
    # (an older recommendation stands for the initial one of a controller that just started)
    results = replay(spec, ticks, flags=NO_TOLERANCE, recommendations=[(10, -60)])
    assert [r["stabilized"] for r in results] == [10] * 10 + [9]


def test_story_6_the_first_sample_is_out_at_the_sixth_not_the_seventh() -> None:
    up = {"stabilizationWindowSeconds": 300}
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": up})
    wishes = [2, 3, 19, 10, 3, 4, 7]
    ticks = [wish(60 * k, 2, n) for k, n in enumerate(wishes)]
    results = replay(spec, ticks, flags=NO_TOLERANCE, recommendations=[(2, -600)])
    assert [r["stabilized"] for r in results] == [2, 2, 2, 2, 2, 3, 3]
    assert results[5]["conditions"]["AbleToScale"] == "True SucceededRescale"


def test_default_behavior_from_one_pod_is_not_the_legacy_limit() -> None:
    moments = [(15.0 * k, 10_000) for k in range(5)]
    given = hpa_spec(EXACT_WISH, behavior={})
    absent = hpa_spec(EXACT_WISH)
    assert sizes(follow(given, 1, moments)) == [5, 10, 20, 40, 80]
    assert sizes(follow(absent, 1, moments)) == [4, 8, 16, 32, 64]


# ---- float anomalies -----------------------------------------------------------------------------


def limit_from(start: int, kind: str, percent: int) -> int:
    """Return the limit of one Percent policy that no event has touched."""
    spec = hpa_spec(EXACT_WISH, behavior={kind: policies(("Percent", percent, 60))})
    fleet = pack_fleet([LaneView([spec], [])], ControllerFlags(), profile_for("1.38"))
    head = np.zeros(HEAD_LENGTH, np.int64)
    rule = scale_up_limit if kind == "scaleUp" else scale_down_limit
    events = records_from(EVENT_SLOT, 2)
    return int(rule(head, events, fleet.specs[0], fleet.policies, start, at(0), True))


@pytest.mark.parametrize(
    ("start", "percent", "limit", "exact"),
    [
        (100, 10, 111, 110),
        (50, 10, 56, 55),
        (90, 10, 100, 99),
        (20, 10, 22, 22),
        (225, 8, 244, 243),
    ],
)
def test_percent_up_is_start_times_one_plus_a_fraction_rounded_up(
    start: int, percent: int, limit: int, exact: int
) -> None:
    assert limit_from(start, "scaleUp", percent) == limit
    assert -(-start * (100 + percent) // 100) == exact


@pytest.mark.parametrize(
    ("start", "percent", "limit", "exact"),
    [(10, 90, 0, 1), (90, 30, 62, 63), (300, 31, 206, 207), (80, 10, 72, 72)],
)
def test_percent_down_is_start_times_one_minus_a_fraction_truncated(
    start: int, percent: int, limit: int, exact: int
) -> None:
    assert limit_from(start, "scaleDown", percent) == limit
    assert start * (100 - percent) // 100 == exact


@pytest.mark.parametrize(
    ("utilization", "target", "pods", "proposal", "exact"),
    [(62, 60, 30, 32, 31), (55, 50, 50, 56, 55), (14, 50, 25, 8, 7)],
)
def test_ratio_times_pods_shows_the_float(
    utilization: int, target: int, pods: int, proposal: int, exact: int
) -> None:
    ready = some(pods, 10 * utilization)
    assert wanted(resource(target), ready, pods, flags=NO_TOLERANCE) == proposal
    assert -(-utilization * pods // target) == exact


def test_the_same_anomaly_reaches_the_size() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Percent", 10, 60))})
    result = replay(spec, [wish(0, 100, 500)], flags=NO_TOLERANCE)[0]
    assert (result["limited"], result["binding"]) == (111, "policy_up")
