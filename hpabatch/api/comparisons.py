"""Comparisons of two versions, or of two sets of manifests, in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from hpabatch.api.manifests import read_hpas
from hpabatch.engine.compare.request import CompareRequest
from hpabatch.engine.compare.run import Comparison, compare_history
from hpabatch.engine.compare.sides import Side
from hpabatch.engine.fleet.parameters import ReplayParameters, replay_parameters
from hpabatch.engine.fleet.plan import NO_HPA, Select
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.fleet.versions import versions_of
from hpabatch.history.base import History
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.progress import Progress, silent
from hpabatch.report.compare import Compared

Read = Callable[[str, ReplayParameters], Sequence[HPA] | None]
"""A reader of the manifests of one side."""


def compare_sides(
    history: History, request: CompareRequest, read: Read, progress: Progress = silent
) -> Comparison:
    """Replay both sides; `read` returns the HPAs of a path of `request.hpas`.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: there is no profile for a Kubernetes version, or no HPA is selected.
    """
    before, after = _sides(history, request, read)
    found = compare_history(history, before, after, _select(request, after), progress)
    if len(request.hpas) == 1:
        # The manifests say which HPAs are meant; targets that none of them scales are no surprise.
        told = tuple(text for text in found.warnings if NO_HPA not in text)
        found = replace(found, warnings=told)
    return found


def compare(history: History, request: CompareRequest) -> Compared:
    """Compare what HPAs decide under two versions, or with two sets of manifests.

    Raises:
        HistoryError, UsageError: as `replay`; nothing to compare is stated.
        RefusedError: a manifest is not valid.
    """
    if len(request.hpas) < 2:  # manifests of both sides stand in for the table of HPAs
        history.require("replay")

    def read(path: str, parameters: ReplayParameters) -> list[HPA] | None:
        return read_hpas(history, [path], parameters.k8s, parameters.feature_gates)

    return Compared.of(compare_sides(history, request, read))


def _sides(history: History, request: CompareRequest, read: Read) -> tuple[Side, Side]:
    before_k8s, after_k8s = request.versions
    parameters = replay_parameters(request, k8s=before_k8s)
    if request.hpas:
        given = [read(path, parameters) for path in request.hpas]
        sides = [
            Side(path, parameters, None if hpas is None else tuple(hpas))
            for path, hpas in zip(request.hpas, given, strict=True)
        ]
        if len(sides) == 1:
            sides.insert(0, Side("recorded", parameters))
        return sides[0], sides[1]
    gates = ",".join(filter(None, (request.feature_gates, request.feature_gates_to)))
    other = replace(parameters, k8s=after_k8s, feature_gates=gates)
    names = [_version_name(history, side) for side in (parameters, other)]
    if request.feature_gates_to:
        names[1] += f" with {request.feature_gates_to}"
    return Side(names[0], parameters), Side(names[1], other)


def _select(request: CompareRequest, after: Side) -> Select | None:
    asked = selection_of(request)
    if len(request.hpas) != 1 or asked is not None or after.manifests is None:
        return asked
    keys = [(hpa.namespace or "default", hpa.name) for hpa in after.manifests]
    given = pl.DataFrame(keys, {"namespace": pl.String(), "hpa": pl.String()}, orient="row")

    def select(candidates: pl.DataFrame) -> pl.DataFrame:
        return candidates.join(given.unique(), on=["namespace", "hpa"], how="semi")

    return select


def _version_name(history: History, parameters: ReplayParameters) -> str:
    """Return what a side is called: its version, and where that is from if it was not given."""
    if parameters.k8s is not None:
        return parameters.k8s
    versions = versions_of(history.read("controller"), None, parameters.feature_gates)
    profiles = {profile.name for profile in versions.profiles.values()} or {versions.default.name}
    return versions.source if len(profiles) > 1 else f"{versions.source} {profiles.pop()}"
