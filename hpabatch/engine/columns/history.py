"""Columns of histories and manifests: quality, provenance, observations, validation, kubectl."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import INTEGER, KEY, Column, table, unit_of

QUALITY: Final = table(
    "an HPA",
    "`history quality`",
    *KEY,
    """
    target_kind string: kind of the target
    target string: name of the target
    reads string: tables that the metrics of its specs come from, sorted
    utilization_of string: resources that it compares with requests, sorted; null: none
    behavior string: how its behavior block is known, e.g. manifest, events (see `provenance`);
        absent or assumed: not recorded; null: the history does not say
    membership string: how its pods are known. selector: of the scale; owner: the selector was
        not recorded, so the target's own pods are assumed; both: at times; null: no scale
        recorded
    foreign_pods integer: pods that the selector matches though they are another target's or
        nobody's
    unmatched_pods integer: the target's own pods that the selector does not match
    pods integer: pods of the target
    synthetic_share number: pods that only stand for a recorded size
    recreated integer: pods that took the name of an earlier one
    unready_again integer: pods that were ready and then not, before they were deleted or ended
    never_sampled integer: pods that ran longer than max_age without any sample
    unknown_requests_share number: pods whose requests are not recorded; null: no pods
    without_cpu_request_share number: pods with a container without cpu request; null: no pods
    without_memory_request_share number: pods with a container without memory request
    samples integer: usage samples of pods
    stray_rows integer: rows of usage whose pod is not in pods
    first_ts timestamp: first sample; null: none
    last_ts timestamp: last sample; null: none
    pod_hours number: the pods' lives
    interval_ms integer: median time between two samples of a pod; null: unknown
    jitter_ms integer: how far 95 % of such times are from it at most, lost samples aside
    max_age_ms integer: age from which on a sample does not count: 2.5 intervals, at least 60 s
    coverage number: part of the pods' lives with a sample that counts; null: no pod lived
    gaps integer: stretches longer than max_age in which pods ran and none was sampled
    gap_longest_ms integer: the longest of them; null: none
    limited_share number: container samples with a cpu limit; null: no samples
    at_limit_share number: of these, usage at 95 % of the limit or more: demand is cut off
    late_samples integer: samples fetched long after they were taken (60 s)
    lateness_max_ms integer: longest time from sample to fetch; null: no fetch recorded
    skewed_samples integer: samples fetched before they were taken: clocks differ
    skew_max_ms integer: the most that a fetch was before its sample; null: none was
    overtaken_samples integer: samples fetched before the pod's one before them
    """,
)

PROBLEMS: Final = table(
    "a finding about an HPA",
    "stderr of `history quality`",
    *KEY,
    """
    rule string: what was found
    weight integer: how much of the results hangs on it, 0 to 100
    why string: the sentence
    """,
)

HISTORY_TABLES: Final = table(
    "a table of the history",
    "`history info`",
    """
    table string: table of the history
    rows integer: rows; an upper bound where later parts replaced some
    bytes integer: size of the files
    files integer: number of files
    first timestamp: first time in it; null: it has no times
    last timestamp: last time in it; null: it has no times
    """,
)

CHECK: Final = table(
    "a finding",
    "`history check`",
    """
    table string: table of the history
    file string: file in it; empty: the table
    problem string: the sentence
    """,
)

OBSERVATIONS: Final = table(
    "a tick, metric and pod or value",
    "`Recording.observations()` in Python",
    """
    ts timestamp: the tick
    metric_index integer: place of the metric among the distinct ones of the HPA's specs, from 0
    metric string: type and name of the metric
    uid string: uid of the pod; null: a value of an Object or External metric
    phase string: phase of the pod; null: none of the usual four
    ready string: status of its Ready condition; null: it has none
    deleting boolean: whether its deletion was requested
    started timestamp: its start time; null: not started
    request_milli integer: its request; null: missing, or the metric does not look at one
    value_milli integer: the visible sample; null: none, or a container lacks the resource
    sample_ts timestamp: when it was taken; null: no visible sample, or a total
    window_ms integer: over which time; null: no visible sample, or a total
    """,
)

VALIDATION: Final = table(
    "a document",
    "`validate`",
    """
    source string: file, URL or - (stdin)
    line integer: first line of the document
    namespace string: namespace of the HPA; empty: none
    name string: name of the HPA
    api_version string: its apiVersion
    target string: kind and name of what it scales
    result string: valid, refused or unreadable
    complaints integer: number of errors
    warnings integer: number of warnings
    message string: the first error; empty: none
    """,
)

ANALYSIS: Final = table(
    "an HPA and metric",
    "`analyze --output csv`, `parquet`",
    """
    source string: file that the manifest is in
    line integer: line that it begins at
    namespace string: namespace
    hpa string: name of the HPA
    target_kind string: kind of the target
    target string: name of the target
    min_replicas integer: minReplicas
    max_replicas integer: maxReplicas
    has_behavior boolean: whether it has a behavior
    tolerance_down number: tolerance on the way down
    tolerance_up number: tolerance on the way up
    middle_replicas integer: the size in the middle of the range
    up_ended string: how the fastest way up ends: reached, stuck or not there after a day
    up_hold_ms integer: how long windows hold it first
    up_reached_ms integer: time from the first sync that asks for it until maxReplicas
    up_steps integer: its steps
    down_ended string: how the fastest way down ends
    down_hold_ms integer: how long windows hold it first
    down_reached_ms integer: time from the first sync that asks for it until minReplicas
    down_steps integer: its steps
    remarks string: what stands out
    metric_index integer: place of the metric in the spec, from 0
    signal string: type and name of the metric
    target_type string: utilization, average or value
    target_pct integer: target utilization; null: another type
    target_milli integer: target; null: a utilization
    request_milli integer: what a pod is assumed to request; null: not a utilization
    base_milli integer: what a pod is assumed to use without work
    error string: why the metric can never be computed; null: it can
    """,
    *(
        Column(f"{size}_{name}", INTEGER, f"{meaning}{where if at else ''}", unit_of(name))
        for size, where in (
            ("min", ", at minReplicas"),
            ("middle", ", in the middle"),
            ("max", ", at maxReplicas"),
        )
        for name, at, meaning in (
            ("low_milli", True, "the lowest usage for which the metric asks for the same size"),
            ("high_milli", True, "the highest usage for which the metric asks for the same size"),
            ("low_pct", False, "the same in percent of the request"),
            ("high_pct", False, "the same in percent of the request"),
            ("up_to", True, "the nearest larger size that the metric asks for"),
            ("down_to", True, "the nearest smaller size that the metric asks for"),
        )
    ),
    """
    most_resting_sizes integer: most sizes at which one constant demand can rest
    several_resting_share number: share of the demands with more than one such size
    cycles integer: ranges of demand that keep it moving
    cycle_members string: sizes of the first such range
    cycle_low_milli integer: its lowest demand
    cycle_high_milli integer: its highest demand
    cycle_period_ms integer: time of one round; null: it does not go round
    """,
)

GET: Final = table(
    "an HPA",
    "`get --output csv`, `parquet`",
    """
    cluster string: cluster
    namespace string: namespace
    name string: name of the HPA
    reference string: kind and name of what it scales
    targets string: usage and target of its metrics, as kubectl shows them
    minpods string: minReplicas
    maxpods integer: maxReplicas
    replicas integer: size of the target
    age string: age of the HPA, as kubectl shows it
    """,
)

LIVE: Final = table(
    "an HPA",
    "`live --output json`, `csv`, `parquet`",
    *GET,
    """
    desired integer: the size that hpabatch decides; null: nothing could be decided
    cluster_desired integer: status.desiredReplicas of the cluster's own controller; null:
        nobody has written it
    differs boolean: whether both are known and unequal
    binding string: the rule that bound the decision
    why string: the reason of the decision
    """,
)

EXPLANATION: Final = table(
    "a line of a decision's steps",
    "`explain`; `steps` in JSON",
    """
    step string: step of the rules
    metric integer: number of the metric that the line is about; null: none
    text string: result of the step
    upstream string: function of Kubernetes that the step follows; null: none
    """,
)
