"""Golden calculator cases: one metric, one computation, without a controller around it."""

from __future__ import annotations

from typing import Any

from .metrics import UNABLE, MetricError, Proposal, propose
from .profiles import Profile, profile_for_flags
from .replicas import Context, directional_tolerances
from .stored import stored_metrics
from .times import SECOND, parse_time

Json = dict[str, Any]


def case_context(case: Json, k8s: str | Profile = "1.38") -> Context:
    """Build the context of a golden calculator case."""
    flags = case["flags"]
    profile = profile_for_flags(k8s, flags)
    own = profile.on("HPAConfigurableTolerance")
    down, up = directional_tolerances(
        flags["tolerance"],
        flags.get("scale_up_tolerance") if own else None,
        flags.get("scale_down_tolerance") if own else None,
    )
    return Context(
        now=parse_time(case["now"]),
        cpu_initialization_period=flags.get("cpu_initialization_period_s", 0) * SECOND,
        initial_readiness_delay=flags.get("initial_readiness_delay_s", 0) * SECOND,
        tolerance_down=down,
        tolerance_up=up,
        current_replicas=case["spec_replicas"],
        status_replicas=case["status_replicas"],
        pods=case.get("pods") or [],
        profile=profile,
    )


def evaluate_case(case: Json, k8s: str | Profile = "1.38") -> Json:
    """Evaluate a golden calculator case; the result has the keys of ``expected``."""
    context = case_context(case, k8s)
    try:
        metric, _ = stored_metrics([case["metric"]], context.profile)[0]
        result = _result_of(propose(metric, case, context))
    except MetricError as error:
        result = _result_of(None)
        result["error"] = error.error
        result["condition_reason"] = error.reason
        result["condition_message"] = UNABLE + error.inner
    return result


def _result_of(proposal: Proposal | None) -> Json:
    current: Json = {}
    if proposal is not None:
        member = proposal.status["type"][0].lower() + proposal.status["type"][1:]
        current = proposal.status[member]["current"]
    return {
        "replicas": proposal.replicas if proposal else None,
        "metric_name": proposal.metric_name if proposal else None,
        "current_average_utilization": proposal.utilization if proposal else None,
        "current_average_value": current.get("averageValue"),
        "current_average_value_milli": proposal.average_milli if proposal else None,
        "current_value": current.get("value"),
        "current_value_milli": proposal.value_milli if proposal else None,
        "error": None,
        "condition_reason": None,
        "condition_message": None,
    }
