"""The demo's workloads that people wait for: shop, payments and search."""

from __future__ import annotations

from data.generator.fleet import Burst, Workload, app, scaled, sidecar
from hpabatch.importers.synth.fleet import (
    Signal,
    average,
    container_resource,
    external_metric,
    object_metric,
    pods_metric,
    resource,
    rules,
    utilization,
)

CPU60 = resource("cpu", utilization(60))
CPU70 = resource("cpu", utilization(70))


def _shop() -> list[Workload]:
    ingress = object_metric(
        "Ingress", "shop", "networking.k8s.io/v1", "requests_per_second", average("25")
    )
    return [
        scaled(
            "shop",
            "frontend",
            (3, 24),
            (CPU60,),
            (app(300),),
            180,
            8,
            bursts=(Burst(12.2, 25, 1.9),),
            rollouts=((5, 10.0), (12, 15.5), (20, 15.0)),
        ),
        scaled(
            "shop",
            "cart",
            (2, 10),
            (CPU70, resource("memory", utilization(80))),
            (app(250, 320, memory_mib=150, memory_load_mib=60),),
            175,
            4,
            behavior={},
            lost=(13, 11.3),
        ),
        scaled(
            "shop",
            "checkout",
            (3, 16),
            (container_resource("cpu", "app", utilization(65)),),
            (app(200), sidecar(50)),
            130,
            5,
            up=rules(("Pods", 4, 60), ("Percent", 10, 60), select="Max"),
            down=rules(("Percent", 10, 60), window=300),
            bursts=(Burst(12.25, 20, 1.5), Burst(20.0, 15, 1.3)),
        ),
        scaled(
            "shop",
            "catalog",
            (2, 16),
            (resource("cpu", average("240m")),),
            (app(300),),
            240,
            6,
            up=rules(("Pods", 2, 60), ("Percent", 50, 60), window=60, select="Min"),
            peak_hour=19.0,
        ),
        scaled(
            "shop",
            "recommendations",
            (2, 12),
            (pods_metric("requests_per_second", average("50")), resource("cpu", utilization(80))),
            (app(400, 512),),
            280,
            5,
            signals=(Signal("pods", "requests_per_second", 178.0),),
            startup_s=45,
        ),
        scaled(
            "shop",
            "sessions",
            (2, 9),
            (resource("memory", utilization(70)),),
            (app(150, 256, memory_mib=120),),
            90,
            2.5,
            kind="StatefulSet",
            growth_mib=0.45,
            startup_s=20,
            fault="memory is never given back, so a memory target scales out and never in",
        ),
        scaled(
            "shop",
            "web-assets",
            (8, 12),
            (CPU70,),
            (app(250, 128),),
            175,
            1.2,
            fault="minReplicas 8 where one pod would do: idle for weeks",
        ),
        scaled(
            "shop",
            "wishlist",
            (2, 8),
            (ingress,),
            (app(150),),
            100,
            4,
            signals=(
                Signal(
                    "object",
                    "requests_per_second",
                    250.0,
                    object_kind="Ingress",
                    object_name="shop",
                ),
            ),
        ),
    ]


def _payments() -> list[Workload]:
    return [
        scaled(
            "payments",
            "api",
            (4, 8),
            (resource("cpu", utilization(50)),),
            (app(400),),
            200,
            12,
            initial=8,
            edit=(14.1, 20),
            up=rules(("Percent", 100, 15), ("Pods", 4, 15), window=0),
            down=rules(("Pods", 1, 120), window=600),
            fault="maxReplicas 8 is too low until it is raised to 20 at 14:06 of the last day",
        ),
        scaled(
            "payments",
            "ledger",
            (4, 4),
            (CPU60,),
            (app(300),),
            180,
            2,
            fault="minReplicas equals maxReplicas: the HPA can never act",
        ),
        scaled(
            "payments",
            "webhooks",
            (1, 12),
            (external_metric("queue_messages_ready", average("30"), {"queue": "webhooks"}),),
            (app(100),),
            80,
            3,
            night=0.5,
            bursts=(Burst(3.0, 30, 2.0),),
            signals=(Signal("external", "queue_messages_ready", 1.0, "queue=webhooks"),),
            queue_rate=0.5,
            down=rules(("Pods", 1, 600), window=1800),
        ),
        scaled(
            "payments",
            "settlement",
            (3, 9),
            (CPU70,),
            (app(300), sidecar(None)),
            210,
            3,
            initial=3,
            fault="the sidecar has no cpu request: cpu utilization is always invalid",
        ),
        scaled(
            "payments",
            "gateway",
            (3, 12),
            (resource("cpu", utilization(95)),),
            (app(250, cpu_limit=250),),
            240,
            6,
            ceiling_milli=250,
            fault="target 95 % of a request that is also the limit: usage cannot pass the "
            "tolerance, so it never scales out while throttled",
        ),
    ]


def _search() -> list[Workload]:
    return [
        scaled(
            "search",
            "query",
            (4, 20),
            (CPU60, pods_metric("search_latency_ms", average("200"))),
            (app(500, 1024, memory_mib=600, memory_load_mib=150),),
            300,
            7,
            signals=(Signal("pods", "search_latency_ms", 640.0),),
            startup_s=140,
            bursts=(Burst(16.0, 35, 1.5),),
            down=rules(("Percent", 25, 120), window=900),
            lost=(20, 16.1),
        ),
        scaled(
            "search",
            "suggest",
            (2, 10),
            (CPU70,),
            (app(150, 128),),
            105,
            5,
            noise=0.17,
            down=rules(("Percent", 100, 15), window=0, tolerance="0"),
            fault="scale-down window 0 and no tolerance under a noisy load: it flaps",
        ),
        scaled(
            "search",
            "ranker",
            (3, 10),
            (CPU60, pods_metric("gpu_utilization", average("70"))),
            (app(400, 768, memory_mib=420, memory_load_mib=120),),
            240,
            5,
            startup_s=90,
            signals=(Signal("pods", "gpu_utilization", 100.0),),
            unpublished=True,
            fault="the metric gpu_utilization is never published: with one metric failing it "
            "never scales in",
        ),
        scaled(
            "search",
            "crawler",
            (1, 9),
            (resource("cpu", utilization(75)),),
            (app(300),),
            225,
            4,
            down=rules(select="Disabled"),
            peak_hour=3.0,
            fault="scaleDown Disabled was left in after a migration",
        ),
    ]


def online_workloads() -> tuple[Workload, ...]:
    """Return these workloads."""
    return (
        *_shop(),
        *_payments(),
        *_search(),
    )
