"""The column registry: tables of HPAs, of their controller, and of provenance; see `schema`."""

from __future__ import annotations

from hpabatch.history.columns import (
    CLUSTER,
    INT,
    NAMESPACE,
    TEXT,
    Column,
    Table,
    default_text_column,
    json_column,
    replicas_column,
    text_column,
    time_column,
    truth_column,
)

HPAS = Table(
    "hpas",
    "an HPA's spec and when it was in force",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        text_column("uid", "uid of the HPA"),
        time_column("valid_from", "since when this spec was in force"),
        time_column("valid_to", "until when, exclusive; null: still in force", nullable=True),
        json_column("spec", "spec as autoscaling/v2 JSON"),
        json_column("labels", "labels as a JSON object; null: not recorded", optional=True),
        json_column(
            "annotations", "annotations as a JSON object; null: not recorded", optional=True
        ),
        time_column("created", "metadata.creationTimestamp", nullable=True, optional=True),
        Column(
            "generation",
            INT,
            "metadata.generation; null: not recorded",
            nullable=True,
            optional=True,
            minimum=0,
        ),
    ),
    key=("cluster", "namespace", "name", "uid", "valid_from"),
    needed_by=("replay",),
)

HPA_CONTEXT = Table(
    "hpa_context",
    "what a cluster's objects say beside an HPA's spec: its owner, and what keeps the pods of its "
    "target available",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        time_column("ts", "since when it is known"),
        text_column(
            "owner",
            "controlling object as Kind/name; the last row counts; null: none",
            nullable=True,
        ),
        json_column(
            "budgets",
            "PodDisruptionBudgets of the target's pods as a JSON array of objects: name, "
            "minAvailable, maxUnavailable, as written; null: as before, or never recorded",
            kind="array",
            optional=True,
        ),
        json_column(
            "spreads",
            "topologySpreadConstraints of the target's pods as a JSON array of objects: "
            "topologyKey, whenUnsatisfiable, minDomains, and domains, the values that nodes have "
            "of this key; null: as before, or never recorded",
            kind="array",
            optional=True,
        ),
    ),
    key=("cluster", "namespace", "name", "ts"),
)

HPA_STATUS = Table(
    "hpa_status",
    "an HPA's status as written by the cluster's own controller",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        text_column("uid", "uid of the HPA"),
        time_column("ts", "when the status was seen"),
        replicas_column("current_replicas", "status.currentReplicas"),
        replicas_column("desired_replicas", "status.desiredReplicas"),
        json_column(
            "current_metrics",
            "status.currentMetrics as a JSON array; null: not recorded",
            kind="array",
            optional=True,
        ),
        json_column(
            "conditions",
            "status.conditions as a JSON array; null: not recorded",
            kind="array",
            optional=True,
        ),
        time_column(
            "last_scale_time", "status.lastScaleTime; null: never", nullable=True, optional=True
        ),
        Column(
            "observed_generation",
            INT,
            "status.observedGeneration; null: unset",
            nullable=True,
            optional=True,
        ),
    ),
    key=("cluster", "namespace", "name", "uid", "ts"),
    day="ts",
)

METRIC_FETCHES = Table(
    "metric_fetches",
    "a metrics API's response to an HPA's controller, for one metric of its spec",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        Column("metric_index", INT, "place of the metric in the spec's list, from 0", minimum=0),
        time_column("ts", "time of the response, which holds until the next one"),
        Column(
            "answer",
            TEXT,
            "ok: values as recorded in the metric tables; empty: a list without items; error: the "
            "request failed",
            values=("ok", "empty", "error"),
        ),
        text_column("error", "the error message; null: none", nullable=True, optional=True),
    ),
    key=("cluster", "namespace", "name", "metric_index", "ts"),
    day="ts",
)

CONTROLLER = Table(
    "controller",
    "a fact about the cluster's controller, or a time at which it lost its memory",
    (
        CLUSTER,
        time_column("ts", "when it was seen"),
        Column(
            "event",
            TEXT,
            "start: a process took over and its windows were empty; observed: flags were read",
            values=("start", "observed"),
        ),
        text_column(
            "version", "Kubernetes version; null: not recorded", nullable=True, optional=True
        ),
        json_column("flags", "flags as a JSON object; null: not recorded", optional=True),
    ),
    key=("cluster", "ts", "event"),
)

PASSES = Table(
    "passes",
    "a pass of a live loop, which decided every known HPA on what it had seen",
    (
        CLUSTER,
        time_column("ts", "instant of the pass, which does not use anything seen later"),
        truth_column("start", "whether the loop began then, with empty controller memory"),
        text_column(
            "k8s", "version whose rules it used; null: not stated", nullable=True, optional=True
        ),
        Column(
            "hpas",
            INT,
            "number of decided HPAs; null: not stated",
            nullable=True,
            optional=True,
            minimum=0,
        ),
        Column(
            "duration_ms",
            INT,
            "duration of the pass; null: not stated",
            "ms",
            nullable=True,
            optional=True,
            minimum=0,
        ),
    ),
    key=("cluster", "ts"),
    day="ts",
)

SIMULATED = "simulated"  # method of provenance

PROVENANCE = Table(
    "provenance",
    "the origin of a part of the history",
    (
        CLUSTER,
        default_text_column("namespace", "namespace that this holds for; empty: all"),
        default_text_column("name", "HPA or workload that this holds for; empty: all"),
        text_column(
            "subject",
            "a table, a column, or a field in a column (`pods`, `pod_metrics.cpu_milli`, "
            "`hpas.spec.behavior`)",
        ),
        time_column("valid_from", "since when"),
        time_column(
            "valid_to",
            "until when, exclusive; null: until a later row of the same subject",
            nullable=True,
            not_before="valid_from",
        ),
        text_column(
            "method",
            "a short code: `counter`, `rate`, `adapter`, `status`, `manifest`, `events`, …; "
            "`rows`: of the subject `scales`, from a workload's first to its last row in an "
            "imported table: an HPA whose creation is not recorded lives as long; "
            "`recorder`: seen live, so a sample holds until it is replaced or withdrawn; "
            "`simulated`: of the subject `run`, the time that a simulated run covers; "
            "`guessed`: proposed by `import table --init` and not yet stated; "
            "`assumed`: not recorded, a likely value is used; `absent`: not recorded",
        ),
        text_column("detail", "an explanation; null: none", nullable=True, optional=True),
    ),
    key=("cluster", "namespace", "name", "subject", "valid_from"),
)
