"""A real Prometheus scrapes the live loop's endpoint: series come, change and end."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpabatch.live.passes.shadow import Shadow
from hpabatch.live.serve.exporter import About, Exporter, Sources, WatchState
from hpabatch.live.serve.server import Health, MetricsServer
from hpabatch.model.versions import profile_for
from tests.live.made_passes import pass_of
from tests.real.prometheus import missing, running_prometheus

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

NAME = "horizontal_pod_autoscaler_controller_desired_replicas"
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: hpabatch
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Loop:
    """Publishes passes to an endpoint."""

    def __init__(self) -> None:
        def states() -> list[WatchState]:
            return [WatchState("pods", True, 10)]

        self.exporter = Exporter(
            About("1", "1.37", "east"), profile_for("1.37"), Sources(watches=states)
        )
        self.shadow = Shadow(30_000)
        health = Health(15, states)
        self.server = MetricsServer("127.0.0.1:0", self.exporter.registry, health)

    def publish(self, k: int, ours: dict[str, int]) -> None:
        values, theirs = list(ours.values()), [3] * len(ours)
        result = pass_of(1_800_000_000 + 15 * k, values, theirs, names=list(ours))
        self.exporter.publish(self.shadow.compare(result), self.shadow.totals())


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = Loop()
    yield found
    found.server.close()


def query(url: str, expression: str) -> dict[str, float]:
    """Return the values of an expression by hpa_name, "" without one."""
    words = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{url}/api/v1/query?{words}", timeout=10) as answer:
        result = json.load(answer)["data"]["result"]
    return {one["metric"].get("hpa_name", ""): float(one["value"][1]) for one in result}


def wait_for(wanted: Callable[[], dict[str, float]], expected: dict[str, float]) -> None:
    until = time.monotonic() + 30
    while (found := wanted()) != expected:
        assert time.monotonic() < until, f"{found} instead of {expected}"
        time.sleep(0.1)


def test_series_come_change_and_end(loop: Loop, tmp_path: Path) -> None:
    loop.publish(0, {"web": 5, "cart": 3})
    config = CONFIG.format(port=loop.server.port)
    with running_prometheus(tmp_path, tmp_path / "data", config=config) as url:
        wait_for(lambda: query(url, NAME), {"web": 5, "cart": 3})
        for k in range(1, 4):
            loop.publish(k, {"web": 5, "cart": 3})
        wait_for(lambda: query(url, "hpabatch_shadow_difference"), {"web": 2})
        wait_for(lambda: query(url, "hpabatch_shadow_agreement_ratio"), {"": 0.5})
        # One that is deleted is gone with the next scrape, not after five minutes.
        loop.publish(4, {"cart": 3})
        wait_for(lambda: query(url, NAME), {"cart": 3})
        wait_for(lambda: query(url, "hpabatch_shadow_difference"), {})
        wait_for(lambda: query(url, "hpabatch_passes_total"), {"": 5})
        wait_for(lambda: query(url, "up"), {"": 1})
        duration = "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds"
        quantile = f"histogram_quantile(0.5, sum by (le) ({duration}_bucket))"
        wait_for(
            lambda: {k: 0.064 < v <= 0.256 for k, v in query(url, quantile).items()}, {"": True}
        )
