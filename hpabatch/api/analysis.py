"""Static analyses in Python: what specs amount to, whatever the demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from hpabatch.engine.analyze.remarks import remarks
from hpabatch.engine.analyze.request import ONLY_METRIC, AnalyzeRecordedRequest, AssumedPods
from hpabatch.engine.analyze.run import DEFAULT_REQUESTS, Assumed, analyze_hpa
from hpabatch.engine.fleet.flags import recorded_flags
from hpabatch.engine.fleet.plan import chosen_hpas
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.base import History
from hpabatch.jobs.quality import quality as quality_of
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.plant import signal_name
from hpabatch.model.progress import Progress, silent
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.report.analyze import Analyzed, StaticAnalysis


class Given(NamedTuple):
    """An HPA to analyze, where it was read, and what decides on it."""

    source: str
    line: int
    hpa: HPA
    flags: ControllerFlags
    profile: Profile


def analyze_each(
    given: Sequence[Given],
    request: AssumedPods,
    progress: Progress = silent,
    at_size: int | None = None,
) -> StaticAnalysis:
    """Return the analyses of valid, defaulted HPAs, in their order (at least one)."""
    assumed = Assumed(request_milli=request.request_milli, base_pct=request.base_pct)
    found = []
    for number, item in enumerate(given):
        _refuse_unnamed_base(item.hpa, request)
        progress("analyzing", number / len(given))
        analysis = analyze_hpa(item.hpa.spec, item.flags, item.profile, assumed, at_size)
        found.append(Analyzed(item.source, item.line, item.hpa, analysis, remarks(analysis)))
    requests = {**DEFAULT_REQUESTS, **request.request_milli}
    first = given[0]
    return StaticAnalysis(
        first.profile.name, first.flags.sync_period_ms, request.base_pct, requests, found
    )


def _refuse_unnamed_base(hpa: HPA, request: AssumedPods) -> None:
    """Refuse a base without the name of a metric for an HPA with several (UsageError)."""
    stated = request.base_pct
    names = [signal_name(metric) for metric in hpa.spec.metrics]
    if ONLY_METRIC in stated and len(names) > 1:
        example = names[0].removeprefix("resource/")
        raise UsageError(
            f"--base {stated[ONLY_METRIC]}: expected the metric that it is of, as {hpa.name} has "
            f"{', '.join(names)}; name it: --base {example}={stated[ONLY_METRIC]}"
        )


def analyze(history: History, request: AnalyzeRecordedRequest) -> StaticAnalysis:
    """Return dead bands, resting points, cycles and ramps of the recorded HPAs' specs.

    The last spec of each counts, under its cluster's flags.

    Raises:
        HistoryError, UsageError: a table or an option is wrong.
        RefusedError: every spec is refused.
    """
    controller = history.read("controller")
    versions = versions_of(controller, request.k8s, request.feature_gates)
    flags = recorded_flags(controller)
    chosen, skipped = chosen_hpas(history, versions.of, selection_of(request))
    if not chosen:
        raise RefusedError(f"{history.location}: no valid HPA to analyze")
    given = [
        Given(
            source=c.cluster,
            line=0,
            hpa=HPA(name=c.name, namespace=c.namespace, spec=c.spec),
            flags=flags[c.cluster][-1].flags if c.cluster in flags else ControllerFlags(),
            profile=versions.of(c.cluster),
        )
        for c in chosen
    ]
    return replace(analyze_each(given, request), skipped=skipped)


def quality(history: History, request: QualityRequest) -> pl.DataFrame:
    """Return the quality of each HPA's recording: coverage, gaps, intervals and more.

    Raises:
        HistoryError, UsageError: a table is broken, or there is no such HPA.
    """
    versions = versions_of(history.read("controller"), request.k8s, request.feature_gates)
    candidates, _ = chosen_hpas(history, versions.of, selection_of(request))
    return quality_of(history, request, candidates)
