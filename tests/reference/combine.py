"""All metrics of an HPA together.

Upstream: ``pkg/controller/podautoscaler/horizontal.go computeReplicasForMetrics``.
"""

from __future__ import annotations

from typing import Any

from .metrics import UNABLE, MetricError, Proposal, propose
from .replicas import Context
from .sync import Sync

Json = dict[str, Any]


def combine(metrics: list[Json], answers: list[Json], context: Context, sync: Sync) -> int | None:
    """Combining metrics: the largest proposal; None if nothing may be done, with ``sync.error``.

    Events, the condition ScalingActive and the metrics' statuses go into ``sync``.
    """
    best: Proposal | None = None
    failures: list[MetricError] = []
    sync.metric_statuses = []
    for index, metric in enumerate(metrics):
        answer = answers[index] if index < len(answers) else {}
        try:
            proposal = propose(metric, answer, context)
        except MetricError as error:
            sync.event("Warning", error.reason, error.inner)
            sync.metric_statuses.append({"type": ""})
            failures.append(error)
            continue
        sync.metric_statuses.append(proposal.status)
        # a zero is replaced by anything, even by less
        if best is None or best.replicas == 0 or proposal.replicas > best.replicas:
            best = proposal
    replicas = 0 if best is None else best.replicas
    name = "" if best is None else best.metric_name

    profile = context.profile
    blocked = profile.partial_failure_blocks_scale_down and replicas < context.current_replicas
    given_up = best is None or (failures and blocked)
    if given_up or (failures and profile.partial_failure_returns_error):
        _fail(failures, len(metrics), context, sync)
    if given_up:
        message = profile.printed(UNABLE + failures[0].inner)
        sync.condition("ScalingActive", "False", failures[0].reason, message)
        return None
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    sync.condition("ScalingActive", "True", "ValidMetricFound", message)
    sync.metric = name
    return replicas


def _fail(failures: list[MetricError], count: int, context: Context, sync: Sync) -> None:
    """Note the summary of failed metrics; it is returned even if the others decide."""
    first = failures[0]
    sync.fail(
        f"invalid metrics ({len(failures)} invalid out of {count}), first error is: {first.error}",
        first.unknown_type and context.profile.unknown_type_is_spec_error,
    )
