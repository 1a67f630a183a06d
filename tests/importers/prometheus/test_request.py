"""Options of an import: its name in a store, and its times."""

from __future__ import annotations

import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.windows import DAY_MS


def test_limits_and_the_way_to_the_server_do_not_make_another_source() -> None:
    one = PrometheusRequest(url="http://localhost:40001/", max_samples=5, start="-1d", step_ms=5)
    assert one.source() == PrometheusRequest(url="http://x:9090").source()
    assert one.source() != PrometheusRequest(url="http://x:9090", namespace=("a",)).source()


def test_an_import_that_an_older_version_began_keeps_its_name() -> None:
    assert PrometheusRequest(url="http://x:9090").source() == "24bc0e0420b8"
    chosen = PrometheusRequest(
        url="http://x:9090", namespace=("b", "a", "b"), cluster="c", cluster_label="l",
        all_workloads=True, tenant="t",
    )  # fmt: skip
    assert chosen.source() == "f0cb7b86dfdd"


def test_times_relative_to_now_and_those_that_are_none() -> None:
    now_ms = 1_790_000_000_000
    request = PrometheusRequest(url="http://x:9090", start="-1d", end="1970-01-01T00:00:01Z")
    assert request.span_ms(now_ms) == (now_ms - DAY_MS, 1000)
    assert PrometheusRequest(url="http://x:9090").span_ms(now_ms) == (None, None)
    with pytest.raises(UsageError, match="--end: expected a time"):
        PrometheusRequest(url="http://x:9090", end="later").span_ms(now_ms)
