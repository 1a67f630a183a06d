"""The demo's workloads behind the scenes: ingest, batch, media and platform."""

from __future__ import annotations

from data.generator.fleet import Burst, HpaDocument, Workload, app, scaled
from hpabatch.importers.synth.fleet import (
    Container,
    Signal,
    average,
    container_resource,
    external_metric,
    hpa_spec,
    object_metric,
    resource,
    rules,
    utilization,
    value,
)

CPU70 = resource("cpu", utilization(70))


def _ingest() -> list[Workload]:
    return [
        scaled(
            "ingest",
            "kafka-consumer",
            (1, 20),
            (external_metric("kafka_consumergroup_lag", average("1k"), {"group": "orders"}),),
            (app(300),),
            200,
            5,
            signals=(Signal("external", "kafka_consumergroup_lag", 4500.0, "group=orders"),),
            bursts=(Burst(8.0, 45, 1.6),),
        ),
        scaled(
            "ingest",
            "transform",
            (2, 14),
            (resource("cpu", utilization(75)), resource("memory", utilization(80))),
            (app(300, 400, memory_mib=180, memory_load_mib=90),),
            225,
            5,
            down=rules(window=3600),
            rollouts=((6, 10.3), (20, 10.3)),
        ),
        scaled(
            "ingest",
            "enricher",
            (2, 8),
            (external_metric("pubsub_undelivered", average("100"), {"topic": "clicks-v2"}),),
            (app(200),),
            140,
            3,
            initial=3,
            signals=(Signal("external", "pubsub_undelivered", 100.0, "topic=clicks-v2"),),
            unpublished=True,
            fault="its only metric never appears (the topic was renamed): it never scales",
        ),
    ]


def _batch() -> list[Workload]:
    two_hourly = tuple(Burst(hour + 0.02, 12, 3.0) for hour in range(0, 24, 2))
    return [
        scaled(
            "batch",
            "thumbnails",
            (0, 8),
            (external_metric("jobs_waiting", average("5"), {"queue": "thumbnails"}),),
            (app(200),),
            160,
            2,
            night=0.0,
            signals=(Signal("external", "jobs_waiting", 30.0, "queue=thumbnails"),),
        ),
        scaled(
            "batch",
            "worker",
            (1, 10),
            (CPU70,),
            (app(250),),
            175,
            2,
            initial=2,
            night=0.7,
            bursts=two_hourly,
            up=rules(("Pods", 2, 30), window=120),
            down=rules(("Pods", 3, 60), window=180),
        ),
        scaled("batch", "reports", (None, 4), (), (app(200),), 160, 2, peak_hour=7.0),
        scaled(
            "batch",
            "etl",
            (1, 6),
            (CPU70,),
            (app(300, 384),),
            210,
            11,
            initial=6,
            night=0.45,
            peak_hour=11.0,
            ceiling_milli=600,
            fault="maxReplicas 6 where the day needs 11: pinned at the maximum for hours",
        ),
        scaled(
            "batch",
            "render",
            (2, 8),
            (container_resource("cpu", "app", average("450m")),),
            (app(500, 512),),
            440,
            3,
            up=rules(("Pods", 1, 300)),
            down=rules(("Pods", 1, 600), ("Percent", 20, 600), select="Min", window=1800),
            startup_s=30,
        ),
    ]


def _media() -> list[Workload]:
    return [
        scaled(
            "media",
            "transcoder",
            (2, 12),
            (resource("cpu", utilization(85)),),
            (app(600, 1024, memory_mib=500, memory_load_mib=300, cpu_limit=900),),
            510,
            4,
            ceiling_milli=900,
            startup_s=180,
            scheduling_s=90,
            bursts=(Burst(20.5, 40, 1.7),),
        ),
        scaled(
            "media",
            "uploader",
            (2, 8),
            (object_metric("Service", "uploader", "v1", "uploads_waiting", value("900")),),
            (app(200),),
            150,
            1.4,
            bursts=tuple(Burst(hour, 40, 4.0) for hour in (7.0, 10.0, 13.0, 16.0, 19.0, 22.0)),
            signals=(
                Signal(
                    "object",
                    "uploads_waiting",
                    1.0,
                    object_kind="Service",
                    object_name="uploader",
                ),
            ),
            queue_rate=3.0,
            down=rules(window=900),
        ),
        scaled(
            "media",
            "cdn-cache",
            (2, 6),
            (resource("memory", utilization(80)),),
            (
                app(100, 512, memory_mib=300, memory_load_mib=120),
                Container("warm-up", "init", 200, 128),
            ),
            70,
            3,
            kind="StatefulSet",
            startup_s=25,
        ),
    ]


def _platform() -> list[Workload]:
    audit = Workload(
        "platform",
        "audit",
        (
            HpaDocument("audit", hpa_spec("audit", 2, 6, CPU70)),
            HpaDocument(
                "audit-memory", hpa_spec("audit", 2, 8, resource("memory", utilization(75)))
            ),
        ),
        (app(150),),
        105,
        4,
        initial=3,
        stands_still=True,
        fault="two HPAs on one Deployment: the selector is ambiguous and both stand still",
    )
    return [
        scaled(
            "platform",
            "auth",
            (3, 9),
            (resource("cpu", utilization(55)),),
            (app(200),),
            110,
            5,
            up=rules(tolerance="20m"),
            down=rules(tolerance="20m", window=300),
            rollouts=((9, 22.0), (20, 22.0)),
        ),
        audit,
    ]


def backend_workloads() -> tuple[Workload, ...]:
    """Return these workloads."""
    return (
        *_ingest(),
        *_batch(),
        *_media(),
        *_platform(),
    )
