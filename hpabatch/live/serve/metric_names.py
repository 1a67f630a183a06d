"""Names, labels and help texts of the live loop's Prometheus metrics; docs/live.md lists them.

Upstream's names are those of kube-controller-manager (pkg/controller/podautoscaler/monitor), so
that its dashboards work. The help texts differ: a batch cannot tell the time of a single HPA.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

UPSTREAM_PREFIX: Final = "horizontal_pod_autoscaler_controller_"
PREFIX: Final = "hpabatch_"

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"


class MetricName(NamedTuple):
    """A metric family; a counter's name is without its `_total`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    def family(self, samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
        """Return the family of a counter or gauge with samples of (labels, value)."""
        kind = CounterMetricFamily if self.kind == COUNTER else GaugeMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in samples:
            family.add_metric(labels, value)
        return family


_LABELS = "action is scale_up, scale_down or none, error is none, spec or internal"

COMPUTATIONS = MetricName(
    f"{UPSTREAM_PREFIX}metric_computation",
    COUNTER,
    ("action", "error", "metric_type"),
    f"Metrics computed; {_LABELS}; action compares the metric's proposal with the current "
    "replicas, metric_type is the metric's type in the HPA (Unknown for one that does not exist).",
)
HPAS = MetricName(
    f"{UPSTREAM_PREFIX}num_horizontal_pod_autoscalers", GAUGE, (), "HPAs known in the last pass."
)
DESIRED = MetricName(
    f"{UPSTREAM_PREFIX}desired_replicas",
    GAUGE,
    ("namespace", "hpa_name"),
    "Replicas that the last pass decided: ours, not the cluster's own controller's.",
)

INFO = MetricName(
    f"{PREFIX}info", GAUGE, ("version", "k8s", "cluster"), "1; k8s names the rules in use."
)
PASSES = MetricName(f"{PREFIX}passes", COUNTER, (), "Passes done.")
PASS_DURATION = MetricName(
    f"{PREFIX}pass_duration_seconds", HISTOGRAM, (), "Time of a pass over all HPAs, all included."
)
PHASE_DURATION = MetricName(
    f"{PREFIX}pass_phase_duration_seconds",
    HISTOGRAM,
    ("phase",),
    "Time of the parts of a pass: fetch, cut, apply, decide, write, compare, record.",
)
LAST_PASS = MetricName(
    f"{PREFIX}last_pass_timestamp_seconds", GAUGE, (), "Instant of the last pass that was done."
)
PROBLEMS = MetricName(
    f"{PREFIX}undecidable_hpas", GAUGE, (), "HPAs that the last pass could not decide."
)
REQUESTS = MetricName(
    f"{PREFIX}api_requests",
    COUNTER,
    ("verb", "resource", "code"),
    "Requests to the API server; code is the HTTP status, or 0 without a response.",
)
SHADOW_HPAS = MetricName(
    f"{PREFIX}shadow_hpas",
    GAUGE,
    ("state",),
    "HPAs by state: same, settling (differs for less than the grace, or lags), differs, "
    "unwritten (no controller writes the status), undecided (the target was never seen).",
)
SHADOW_AGREEMENT = MetricName(
    f"{PREFIX}shadow_agreement_ratio",
    GAUGE,
    (),
    "Share of the HPAs that can be compared about which the last pass agreed; absent without any.",
)
SHADOW_DIFFERENCE = MetricName(
    f"{PREFIX}shadow_difference",
    GAUGE,
    ("namespace", "hpa_name"),
    "Our desired replicas less the controller's; only of HPAs that differ.",
)
WATCH_SYNCED = MetricName(
    f"{PREFIX}watch_synced", GAUGE, ("watch",), "1 if the watch is up to date, as far as known."
)
WATCH_OBJECTS = MetricName(f"{PREFIX}watch_objects", GAUGE, ("watch",), "Objects held.")
WATCH_RELISTS = MetricName(
    f"{PREFIX}watch_relists", COUNTER, ("watch",), "Lists after the first: the watch had expired."
)
WATCH_ERRORS = MetricName(
    f"{PREFIX}watch_errors", COUNTER, ("watch",), "Failed lists and watches, and broken objects."
)
RECORDER_ROWS = MetricName(f"{PREFIX}recorder_rows", COUNTER, (), "Rows written to the store.")
RECORDER_LOST = MetricName(
    f"{PREFIX}recorder_lost_rows",
    COUNTER,
    (),
    "Rows that were never written, because the store refused them.",
)
RECORDER_WAITING_BYTES = MetricName(
    f"{PREFIX}recorder_waiting_bytes", GAUGE, (), "Memory of what is not in the store yet."
)
RECORDER_FAILING = MetricName(
    f"{PREFIX}recorder_failing", GAUGE, (), "1 while nothing can be written; the log says why."
)
CLOCK_SKEW = MetricName(
    f"{PREFIX}clock_skew_seconds",
    GAUGE,
    (),
    "API server's clock less ours, to about a second; absent until known.",
)
APPLY_LEADS = MetricName(
    f"{PREFIX}apply_leads",
    GAUGE,
    (),
    "1 if this instance may write: it has the lease, and no guard forbids it. Absent in a dry run.",
)
APPLY_WRITES = MetricName(
    f"{PREFIX}apply_writes",
    COUNTER,
    ("result",),
    "Sizes: written, failed, waiting for a guard, or void (the target changed meanwhile).",
)
APPLY_FOREIGN = MetricName(
    f"{PREFIX}apply_foreign_changes",
    COUNTER,
    (),
    "Changes of sizes by others while this instance writes them.",
)
