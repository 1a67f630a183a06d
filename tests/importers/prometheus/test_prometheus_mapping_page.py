"""The examples of docs/prometheus.md are what the reader reads, and bring queries."""

from __future__ import annotations

import re
from pathlib import Path

from hpabatch.importers.prometheus.metrics.mapping import read_mappings
from tests.importers.prometheus.mapping_help import (
    external_metric,
    hpa_of,
    object_metric,
    pods_metric,
    refused_by_promtool,
    write,
)

PAGE = Path(__file__).parents[3] / "docs/prometheus.md"
EXAMPLES = dict(
    re.findall(r"```yaml (?!queries|recording)(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
)
KEDA_SELECTOR = {"matchLabels": {"scaledobject.keda.sh/name": "worker"}}
HPA = hpa_of(
    pods_metric("http_requests_per_second"),
    pods_metric("jobs_in_flight"),
    object_metric("requests_per_second", "Ingress", "front", "networking.k8s.io/v1"),
    external_metric("queue_messages_ready", {"matchLabels": {"queue": "orders"}}),
    external_metric("s0-prometheus", KEDA_SELECTOR),
    external_metric("composite-metric", KEDA_SELECTOR),
)


def test_the_page_has_its_examples() -> None:
    assert set(EXAMPLES) == {"adapter-metric.yaml", "scaledobject.yaml", "mapping.yaml"}


def test_together_they_bring_every_metric(tmp_path: Path) -> None:
    paths = [write(tmp_path, text, name) for name, text in EXAMPLES.items()]
    mappings = read_mappings(paths)
    plan = mappings.plan([HPA])
    assert not plan.unmapped
    assert {query.metric: query.text(["web-1", "web-2"]) for query in plan.queries} == {
        "http_requests_per_second": 'sum(rate(http_requests_total{namespace="shop",'
        'pod=~"web-1|web-2"}[2m])) by (pod)',
        "jobs_in_flight": 'sum by (pod) (jobs_running{namespace="shop",pod=~"web-1|web-2"})',
        "requests_per_second": "sum(rate(nginx_ingress_controller_requests{"
        'exported_namespace="shop",ingress="front"}[2m]))',
        "queue_messages_ready": 'sum by (queue) (rabbitmq_queue_messages_ready{queue="orders"})',
        "s0-prometheus": 'sum(queue_depth{queue="orders"})',
        "composite-metric": 'sum(queue_depth{queue="orders"}) + sum(queue_depth{queue="returns"})',
    }
    queries = [query.text(["web-1"]) for query in plan.queries]
    assert not refused_by_promtool(tmp_path, queries)
