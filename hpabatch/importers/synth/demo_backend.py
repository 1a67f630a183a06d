"""The demo's workloads behind the scenes: ingest, batch, media and platform."""

from __future__ import annotations

from hpabatch.importers.synth.fleet import (
    Burst,
    Container,
    HpaDocument,
    Signal,
    Trouble,
    Workload,
    app,
    average,
    container_resource,
    external_metric,
    hpa_spec,
    object_metric,
    pods_metric,
    resource,
    rules,
    scaled,
    sidecar,
    utilization,
    value,
)

CPU60 = resource("cpu", utilization(60))
CPU70 = resource("cpu", utilization(70))


def _ingest() -> list[Workload]:
    return [
        scaled(
            "ingest",
            "collector",
            (4, 24),
            (CPU70,),
            (app(250, 192),),
            175,
            18,
            night=0.5,
            up=rules(window=0),
            down=rules(("Pods", 2, 60), window=300),
        ),
        scaled(
            "ingest",
            "kafka-consumer",
            (1, 20),
            (external_metric("kafka_consumergroup_lag", average("1k"), {"group": "orders"}),),
            (app(300),),
            200,
            11,
            signals=(
                Signal(
                    "external",
                    "kafka_consumergroup_lag",
                    4500.0,
                    "group=orders",
                    series=("partition-0", "partition-1", "partition-2"),
                    noise=0.1,
                ),
            ),
            bursts=(Burst(8.0, 45, 1.6),),
        ),
        scaled(
            "ingest",
            "transform",
            (2, 14),
            (resource("cpu", utilization(75)), resource("memory", utilization(80))),
            (app(300, 400, memory_mib=180, memory_load_mib=90),),
            225,
            9,
            hold_minutes=60,
            down=rules(window=3600),
            rollout_hour=10.3,
        ),
        scaled(
            "ingest",
            "enricher",
            (2, 8),
            (external_metric("pubsub_undelivered", average("100"), {"topic": "clicks-v2"}),),
            (app(200),),
            140,
            5,
            stands_at=3,
            fault="its only metric never appears (the topic was renamed): it never scales",
        ),
        scaled(
            "ingest",
            "writer",
            (2, 9),
            (pods_metric("write_queue_length", average("12500m")),),
            (app(200),),
            150,
            5,
            signals=(Signal("pods", "write_queue_length", 83.0, noise=0.12),),
        ),
        scaled(
            "ingest",
            "log-shipper",
            (2, 8),
            (resource("cpu", average("120m")),),
            (app(150, 96),),
            120,
            5,
            trouble=Trouble(evicted_hour=6.4),
        ),
    ]


def _batch() -> list[Workload]:
    hourly = tuple(Burst(hour + 0.02, 12, 3.0) for hour in range(24))
    return [
        scaled(
            "batch",
            "thumbnails",
            (0, 8),
            (external_metric("jobs_waiting", average("5"), {"queue": "thumbnails"}),),
            (app(200),),
            160,
            4,
            night=0.0,
            signals=(Signal("external", "jobs_waiting", 30.0, "queue=thumbnails", noise=0.1),),
        ),
        scaled(
            "batch",
            "worker",
            (1, 10),
            (CPU70,),
            (app(250),),
            175,
            2.5,
            night=0.7,
            bursts=hourly,
            up=rules(("Pods", 2, 30), window=120),
            down=rules(("Pods", 3, 60), window=180),
        ),
        scaled("batch", "reports", (None, 4), (), (app(200),), 160, 3, peak_hour=7.0),
        scaled(
            "batch",
            "etl",
            (1, 6),
            (CPU70,),
            (app(300, 384),),
            210,
            11,
            night=0.45,
            peak_hour=11.0,
            fault="maxReplicas 6 where the day needs 11: pinned at the maximum for hours",
        ),
        scaled(
            "batch",
            "render",
            (2, 8),
            (container_resource("cpu", "app", average("450m")),),
            (app(500, 512), sidecar(50)),
            440,
            5,
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
            6,
            startup_s=180,
            bursts=(Burst(20.5, 40, 1.7),),
            trouble=Trouble(pending_hour=20.5),
        ),
        scaled(
            "media",
            "uploader",
            (2, 8),
            (object_metric("Service", "uploader", "v1", "uploads_in_flight", value("120")),),
            (app(200),),
            150,
            4,
            signals=(
                Signal(
                    "object",
                    "uploads_in_flight",
                    250.0,
                    object_kind="Service",
                    object_name="uploader",
                ),
            ),
        ),
        scaled(
            "media",
            "previews",
            (1, 6),
            (object_metric("Namespace", "media", "v1", "previews_requested", average("40")),),
            (app(150),),
            110,
            4,
            signals=(
                Signal(
                    "object",
                    "previews_requested",
                    370.0,
                    object_kind="Namespace",
                    object_name="media",
                ),
            ),
        ),
        scaled(
            "media",
            "streamer",
            (3, 16),
            (CPU60,),
            (app(300),),
            180,
            12,
            peak_hour=21.0,
            up=rules(("Pods", 2, 60), ("Percent", 50, 60), select="Min"),
            down=rules(("Percent", 20, 60), select="Max", window=240),
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
            4,
            kind="StatefulSet",
            overhead=(50, 32 << 20),
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
        stands_at=3,
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
            6,
            up=rules(tolerance="20m"),
            down=rules(tolerance="20m", window=300),
            rollout_hour=22.0,
        ),
        scaled("platform", "config", (2, 4), (CPU70,), (app(100, 96),), 70, 1.5),
        scaled(
            "platform",
            "dns-proxy",
            (2, 8),
            (resource("cpu", utilization(50)),),
            (app(200, 96),),
            100,
            5,
            trouble=Trouble(evicted_hour=17.7, restarts=1),
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
