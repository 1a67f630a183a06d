"""Codes that kernels emit, and the words that they stand for.

Kernels need plain integers, so codes are module constants; the tables translate them. Condition
codes carry their condition type in the high bits (`code >> 4`), so that setting a condition needs
no lookup. Sources: pkg/controller/podautoscaler/horizontal.go; the words are wire-visible.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# ---- kinds of metric, as the calculator distinguishes them ----------------------------------
RESOURCE_UTILIZATION: Final = 1  # Resource and ContainerResource
RESOURCE_AVERAGE: Final = 2  # Resource and ContainerResource, averageValue
PODS_AVERAGE: Final = 3
OBJECT_VALUE: Final = 4
OBJECT_AVERAGE: Final = 5
EXTERNAL_VALUE: Final = 6
EXTERNAL_AVERAGE: Final = 7
METRIC_UNUSABLE: Final = 8  # refused before anything is fetched; see the metric's error

# ---- metric source types, for the condition of a failed metric ------------------------------
SOURCE_UNKNOWN: Final = 0
SOURCE_OBJECT: Final = 1
SOURCE_PODS: Final = 2
SOURCE_RESOURCE: Final = 3
SOURCE_CONTAINER_RESOURCE: Final = 4
SOURCE_EXTERNAL: Final = 5

SOURCE_TYPES: Final[dict[str, int]] = {
    "Object": SOURCE_OBJECT,
    "Pods": SOURCE_PODS,
    "Resource": SOURCE_RESOURCE,
    "ContainerResource": SOURCE_CONTAINER_RESOURCE,
    "External": SOURCE_EXTERNAL,
}

# ---- why a metric gave no proposal -----------------------------------------------------------
METRIC_OK: Final = 0
METRIC_FETCH_FAILED: Final = 1
METRIC_ANSWER_EMPTY: Final = 2
METRIC_NO_PODS: Final = 3
METRIC_NO_SAMPLES: Final = 4
METRIC_NO_REQUEST: Final = 5
METRIC_NO_MATCH: Final = 6
METRIC_BAD_TARGET: Final = 7
METRIC_BAD_SELECTOR: Final = 8
METRIC_UNKNOWN_TYPE: Final = 9
METRIC_NOT_COMPUTED: Final = 10  # the metrics path was not taken in this tick
METRIC_CONTAINER_LACKS: Final = 11  # old versions: a sample without the metric's container

METRIC_ERRORS: Final[dict[int, str]] = {
    METRIC_OK: "",
    METRIC_FETCH_FAILED: "the metrics API answered with an error",
    METRIC_ANSWER_EMPTY: "no metrics returned",
    METRIC_NO_PODS: "no pods returned by selector",
    METRIC_NO_SAMPLES: "did not receive metrics for targeted pods (pods might be unready)",
    METRIC_NO_REQUEST: "missing resource request in a pod",
    METRIC_NO_MATCH: "no metrics returned matched known pods",
    METRIC_BAD_TARGET: "the metric's target is not usable",
    METRIC_BAD_SELECTOR: "the metric's selector is not usable",
    METRIC_UNKNOWN_TYPE: "unknown metric source type",
    METRIC_NOT_COMPUTED: "not computed",
    METRIC_CONTAINER_LACKS: "a pod's sample lacks the metric's container",
}

# ---- which step of the calculator gave the proposal -----------------------------------------
STEP_NONE: Final = 0
STEP_RATIO: Final = 1
STEP_TOLERANCE: Final = 2
STEP_TOLERANCE_AFTER_SUBSTITUTION: Final = 3
STEP_DIRECTION_GUARD: Final = 4

STEPS: Final[dict[int, str]] = {
    STEP_NONE: "",
    STEP_RATIO: "ratio",
    STEP_TOLERANCE: "within tolerance",
    STEP_TOLERANCE_AFTER_SUBSTITUTION: "within tolerance after missing and unready pods",
    STEP_DIRECTION_GUARD: "missing and unready pods turn the direction",
}

# ---- how pods and samples are encoded --------------------------------------------------------
PHASE_OTHER: Final = 0
PHASE_PENDING: Final = 1
PHASE_RUNNING: Final = 2
PHASE_SUCCEEDED: Final = 3
PHASE_FAILED: Final = 4
PHASES: Final[dict[str, int]] = {
    "Pending": PHASE_PENDING,
    "Running": PHASE_RUNNING,
    "Succeeded": PHASE_SUCCEEDED,
    "Failed": PHASE_FAILED,
}
PHASE_MASK: Final = 7
POD_DELETING: Final = 8
READY_MASK: Final = 48
READY_ABSENT: Final = 0
READY_TRUE: Final = 16
READY_FALSE: Final = 32
READY_UNKNOWN: Final = 48
READINESS: Final[dict[str, int]] = {
    "True": READY_TRUE,
    "False": READY_FALSE,
    "Unknown": READY_UNKNOWN,
}
POD_STARTED: Final = 64  # status.startTime is set

GROUP_READY: Final = 0
GROUP_UNREADY: Final = 1
GROUP_MISSING: Final = 2
GROUP_IGNORED: Final = 3
GROUP_BY_READINESS: Final = 4  # a cpu sample: the readiness rule decides between ready and unready

# ---- scale subresource and selector as read in a tick ----------------------------------------
SCALE_OK: Final = 0
SCALE_GET_FAILED: Final = 1
SCALE_UPDATE_FAILED: Final = 2  # the write would fail, if one is made
SCALE_UNKNOWN: Final = 3  # not recorded: no decision is made
SCALE_BAD_VERSION: Final = 4  # scaleTargetRef.apiVersion does not parse
SCALE_NO_RESOURCE: Final = 5  # no resource is known for the target's group and kind

SELECTOR_OK: Final = 0
SELECTOR_MISSING: Final = 1
SELECTOR_INVALID: Final = 2
SELECTOR_AMBIGUOUS: Final = 3
SELECTOR_GONE: Final = 4  # the HPA was deleted under way, so its selector was not looked at

# ---- policies -----------------------------------------------------------------------------------
POLICY_PODS: Final = 0
POLICY_PERCENT: Final = 1
SELECT_MAX: Final = 0
SELECT_MIN: Final = 1
SELECT_DISABLED: Final = 2
SELECTS: Final[dict[str, int]] = {"Min": SELECT_MIN, "Disabled": SELECT_DISABLED}

# ---- conditions: (type << 4) + n; status and reason in the table below -------------------------
NO_CONDITION: Final = 0
ABLE_TO_SCALE: Final = 1
SCALING_ACTIVE: Final = 2
SCALING_LIMITED: Final = 3
SCALED_TO_ZERO: Final = 4
CONDITION_TYPES: Final[dict[str, int]] = {
    "AbleToScale": ABLE_TO_SCALE,
    "ScalingActive": SCALING_ACTIVE,
    "ScalingLimited": SCALING_LIMITED,
    "ScaledToZero": SCALED_TO_ZERO,
}

FAILED_GET_SCALE: Final = 16
SUCCEEDED_GET_SCALE: Final = 17
READY_FOR_NEW_SCALE: Final = 18
SCALE_DOWN_STABILIZED: Final = 19
SCALE_UP_STABILIZED: Final = 20
SUCCEEDED_RESCALE: Final = 21
FAILED_UPDATE_SCALE: Final = 22

VALID_METRIC_FOUND: Final = 32
SCALING_DISABLED: Final = 33
INVALID_SELECTOR: Final = 34
AMBIGUOUS_SELECTOR: Final = 35
INVALID_METRIC_SOURCE_TYPE: Final = 36  # + SOURCE_* gives the FailedGet… reason
FAILED_GET_OBJECT_METRIC: Final = 37
FAILED_GET_PODS_METRIC: Final = 38
FAILED_GET_RESOURCE_METRIC: Final = 39
FAILED_GET_CONTAINER_RESOURCE_METRIC: Final = 40
FAILED_GET_EXTERNAL_METRIC: Final = 41

DESIRED_WITHIN_RANGE: Final = 48
TOO_FEW_REPLICAS: Final = 49
TOO_MANY_REPLICAS: Final = 50
SCALE_UP_LIMIT: Final = 51
SCALE_DOWN_LIMIT: Final = 52

IS_SCALED_TO_ZERO: Final = 64
NOT_SCALED_TO_ZERO: Final = 65

# A condition of an earlier status whose reason is none of the above keeps its type and status:
# added to the shifted type.
OTHER_TRUE: Final = 14
OTHER_FALSE: Final = 15


class ConditionWords(NamedTuple):
    """What a condition code says on the wire."""

    type: str
    status: str
    reason: str


CONDITIONS: Final[dict[int, ConditionWords]] = {
    FAILED_GET_SCALE: ConditionWords("AbleToScale", "False", "FailedGetScale"),
    SUCCEEDED_GET_SCALE: ConditionWords("AbleToScale", "True", "SucceededGetScale"),
    READY_FOR_NEW_SCALE: ConditionWords("AbleToScale", "True", "ReadyForNewScale"),
    SCALE_DOWN_STABILIZED: ConditionWords("AbleToScale", "True", "ScaleDownStabilized"),
    SCALE_UP_STABILIZED: ConditionWords("AbleToScale", "True", "ScaleUpStabilized"),
    SUCCEEDED_RESCALE: ConditionWords("AbleToScale", "True", "SucceededRescale"),
    FAILED_UPDATE_SCALE: ConditionWords("AbleToScale", "False", "FailedUpdateScale"),
    VALID_METRIC_FOUND: ConditionWords("ScalingActive", "True", "ValidMetricFound"),
    SCALING_DISABLED: ConditionWords("ScalingActive", "False", "ScalingDisabled"),
    INVALID_SELECTOR: ConditionWords("ScalingActive", "False", "InvalidSelector"),
    AMBIGUOUS_SELECTOR: ConditionWords("ScalingActive", "False", "AmbiguousSelector"),
    INVALID_METRIC_SOURCE_TYPE: ConditionWords("ScalingActive", "False", "InvalidMetricSourceType"),
    FAILED_GET_OBJECT_METRIC: ConditionWords("ScalingActive", "False", "FailedGetObjectMetric"),
    FAILED_GET_PODS_METRIC: ConditionWords("ScalingActive", "False", "FailedGetPodsMetric"),
    FAILED_GET_RESOURCE_METRIC: ConditionWords("ScalingActive", "False", "FailedGetResourceMetric"),
    FAILED_GET_CONTAINER_RESOURCE_METRIC: ConditionWords(
        "ScalingActive", "False", "FailedGetContainerResourceMetric"
    ),
    FAILED_GET_EXTERNAL_METRIC: ConditionWords("ScalingActive", "False", "FailedGetExternalMetric"),
    DESIRED_WITHIN_RANGE: ConditionWords("ScalingLimited", "False", "DesiredWithinRange"),
    TOO_FEW_REPLICAS: ConditionWords("ScalingLimited", "True", "TooFewReplicas"),
    TOO_MANY_REPLICAS: ConditionWords("ScalingLimited", "True", "TooManyReplicas"),
    SCALE_UP_LIMIT: ConditionWords("ScalingLimited", "True", "ScaleUpLimit"),
    SCALE_DOWN_LIMIT: ConditionWords("ScalingLimited", "True", "ScaleDownLimit"),
    IS_SCALED_TO_ZERO: ConditionWords("ScaledToZero", "True", "ScaledToZero"),
    NOT_SCALED_TO_ZERO: ConditionWords("ScaledToZero", "False", "NotScaledToZero"),
}

CONDITION_CODES: Final[dict[ConditionWords, int]] = {w: c for c, w in CONDITIONS.items()}

# ---- the reason in a rescale's event ------------------------------------------------------------
REASON_NONE: Final = 0
REASON_ABOVE_TARGET: Final = 1  # "{metric} above target"
REASON_BELOW_TARGET: Final = 2
REASON_ABOVE_MAX: Final = 3
REASON_BELOW_MIN: Final = 4

REASONS: Final[dict[int, str]] = {
    REASON_NONE: "",
    REASON_ABOVE_TARGET: "{metric} above target",
    REASON_BELOW_TARGET: "All metrics below target",
    REASON_ABOVE_MAX: "Current number of replicas above Spec.MaxReplicas",
    REASON_BELOW_MIN: "Current number of replicas below Spec.MinReplicas",
}

# ---- which rule bound the decision ---------------------------------------------------------------
BOUND_BY_METRIC: Final = 0
BOUND_BY_TOLERANCE: Final = 1
BOUND_BY_POD_GUARD: Final = 2
BOUND_BY_WINDOW_UP: Final = 3
BOUND_BY_WINDOW_DOWN: Final = 4
BOUND_BY_POLICY_UP: Final = 5
BOUND_BY_POLICY_DOWN: Final = 6
BOUND_BY_DISABLED_UP: Final = 7
BOUND_BY_DISABLED_DOWN: Final = 8
BOUND_BY_LEGACY_LIMIT: Final = 9
BOUND_BY_MIN: Final = 10
BOUND_BY_MAX: Final = 11
BOUND_BY_FORCED_MIN: Final = 12
BOUND_BY_FORCED_MAX: Final = 13
BOUND_BY_ZERO: Final = 14
BOUND_BY_INVALID_METRIC: Final = 15
BOUND_BY_SELECTOR: Final = 16
BOUND_BY_SCALE_READ: Final = 17
BOUND_BY_SCALE_WRITE: Final = 18
BOUND_BY_NO_SCALE: Final = 19


UNDECIDED: Final = (
    BOUND_BY_INVALID_METRIC,
    BOUND_BY_SELECTOR,
    BOUND_BY_NO_SCALE,
    BOUND_BY_SCALE_READ,
)
"""Ticks in which the rules could not decide at all; they neither agree nor disagree."""

UNASKED: Final = (*UNDECIDED, BOUND_BY_ZERO, BOUND_BY_FORCED_MIN, BOUND_BY_FORCED_MAX)
"""Ticks in which the metrics gave no answer: `proposal` is then the size as it stood."""


class BindingWords(NamedTuple):
    """A binding rule's column value and its explanation for people."""

    name: str
    sentence: str


BINDINGS: Final[dict[int, BindingWords]] = {
    BOUND_BY_METRIC: BindingWords("metric", "the metrics' own proposal was applied"),
    BOUND_BY_TOLERANCE: BindingWords("tolerance", "the ratio was within the tolerance"),
    BOUND_BY_POD_GUARD: BindingWords(
        "pod_guard", "missing or unready pods would turn the direction, so nothing was done"
    ),
    BOUND_BY_WINDOW_UP: BindingWords("window_up", "the scale-up stabilization window held it"),
    BOUND_BY_WINDOW_DOWN: BindingWords(
        "window_down", "the scale-down stabilization window held it"
    ),
    BOUND_BY_POLICY_UP: BindingWords("policy_up", "a scale-up policy limited it"),
    BOUND_BY_POLICY_DOWN: BindingWords("policy_down", "a scale-down policy limited it"),
    BOUND_BY_DISABLED_UP: BindingWords("disabled_up", "scaling up is disabled"),
    BOUND_BY_DISABLED_DOWN: BindingWords("disabled_down", "scaling down is disabled"),
    BOUND_BY_LEGACY_LIMIT: BindingWords(
        "legacy_limit", "at most double per sync (no behavior set)"
    ),
    BOUND_BY_MIN: BindingWords("min", "minReplicas held it"),
    BOUND_BY_MAX: BindingWords("max", "maxReplicas held it"),
    BOUND_BY_FORCED_MIN: BindingWords("forced_min", "replicas were below minReplicas"),
    BOUND_BY_FORCED_MAX: BindingWords("forced_max", "replicas were above maxReplicas"),
    BOUND_BY_ZERO: BindingWords("zero", "the target is at zero replicas: disabled"),
    BOUND_BY_INVALID_METRIC: BindingWords("invalid_metric", "metrics were invalid"),
    BOUND_BY_SELECTOR: BindingWords("selector", "the selector was missing, invalid or ambiguous"),
    BOUND_BY_SCALE_READ: BindingWords("scale_read", "the target's scale could not be read"),
    BOUND_BY_SCALE_WRITE: BindingWords("scale_write", "the target's scale could not be written"),
    BOUND_BY_NO_SCALE: BindingWords("no_scale", "the target's replicas are not recorded"),
}
