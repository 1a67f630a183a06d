"""Requests that wrap to nothing, which no golden data have."""

from __future__ import annotations

from hpabatch.layout import codes
from hpabatch.model.versions import PROFILES
from hpabatch.rules.replicas import Tolerance, propose_by_utilization
from hpabatch.rules.statistics import PodStatistics


def test_a_sum_of_requests_that_wrapped_to_zero_matches_no_pod() -> None:
    sums = {"ready": 1, "missing": 1, "request_milli": -1000, "missing_request_milli": 1000}
    pods = PodStatistics(*[0] * 12)._replace(**sums)
    switches = PROFILES["1.38"].switches()
    found = propose_by_utilization(pods, 60, 3, Tolerance(0.1, 0.1, True), switches)
    assert int(found.code) == codes.METRIC_NO_MATCH
