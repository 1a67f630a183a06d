"""Findings of manifests alone: HPAs by themselves, beside each other and beside their workloads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.analyze.remarks import remarks
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.engine.findings.run import ASSUMED, with_kinds
from hpabatch.inputs.cluster_objects import WorkloadKey, WorkloadObject, read_objects
from hpabatch.inputs.documents import MistakesError
from hpabatch.inputs.keda import GROUP
from hpabatch.inputs.manifests import CheckedEntry, manifest_files
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.printable import listed
from hpabatch.model.selectors import parse_selector
from hpabatch.model.versions import ControllerFlags, Profile

_UNSERVED = "is not served since"  # (`inputs.manifests`)


def lint(checked: Sequence[CheckedEntry], paths: Sequence[str], profile: Profile) -> pl.DataFrame:
    """Return the findings of valid HPAs and of the workloads in the same files, the worst first.

    Workloads of a file with an object that cannot be decoded are left out, and those of stdin.
    """
    valid = [(item, item.hpa) for item in checked if item.hpa is not None]
    targets: dict[WorkloadKey, list[HPA]] = {}
    for _, hpa in valid:
        targets.setdefault(_target(hpa), []).append(hpa)
    workloads = _workloads(paths)
    rows = []
    for item, hpa in valid:
        for name, why in _of_hpa(item, hpa, profile, targets, workloads):
            place = {"source": item.entry.source, "line": item.entry.line}
            rows.append(
                {
                    "cluster": "",
                    "namespace": hpa.namespace,
                    "hpa": hpa.name or f"{hpa.generate_name}*",
                    "finding": name,
                    "why": f"{why} ({item.entry.place})",
                    "evidence": json.dumps(place, separators=(",", ":")),
                }
            )
    return with_kinds(rows)


def _target(hpa: HPA) -> WorkloadKey:
    target = hpa.spec.scale_target_ref
    return hpa.namespace or "default", target.kind, target.name


def _workloads(paths: Sequence[str]) -> dict[WorkloadKey, WorkloadObject]:
    """Return the workloads of all files that can be read."""
    found: dict[WorkloadKey, WorkloadObject] = {}
    for path in filter(lambda path: path != "-", paths):
        folder = Path(path)
        names = manifest_files(folder, lambda _: None) if folder.is_dir() else [folder]
        for name in names:
            with suppress(MistakesError):
                objects = read_objects([name]).workloads
                found |= {(key[0] or "default", *key[1:]): w for key, w in objects.items()}
    return found


def _of_hpa(
    item: CheckedEntry,
    hpa: HPA,
    profile: Profile,
    targets: Mapping[WorkloadKey, Sequence[HPA]],
    workloads: Mapping[WorkloadKey, WorkloadObject],
) -> Iterator[tuple[str, Any]]:
    """Yield id and sentence of each finding of an HPA; one of several HPAs stands at each."""
    yield from (("deprecated_api", text) for text in item.warnings if _UNSERVED in text)
    analysis = analyze_hpa(as_stored(hpa.spec, profile), ControllerFlags(), profile)
    yield from ((r.code, r.text) for r in remarks(analysis) if r.code not in ASSUMED)
    key = _target(hpa)
    rivals = sorted({other.name for other in targets[key]} - {hpa.name})  # (twice: one HPA)
    if rivals:
        is_keda = {one.api_version.startswith(GROUP) for one in targets[key]}
        name = "keda_and_hpa" if len(is_keda) == 2 else "same_target"
        yield name, f"{listed(rivals)} scale{'s' * (len(rivals) == 1)} {key[1]}/{key[2]}, too"
    own = workloads.get(key)
    if own is None:
        return
    others = sorted(
        other[2]
        for other, workload in workloads.items()
        if other != key and other in targets and other[0] == key[0] and _counts(own, workload)
    )
    if others:
        yield "overlapping_selectors", f"the selector of {key[2]} matches pods of {listed(others)}"
    yield from _requests(hpa, own)


def _counts(own: WorkloadObject, other: WorkloadObject) -> bool:
    """Say whether the selector of a workload matches the pods of another."""
    selector = "" if own.scale is None else own.scale.selector
    with suppress(ValueError):
        return bool(selector) and parse_selector(selector).matches(other.labels)
    return False


def _requests(hpa: HPA, own: WorkloadObject) -> Iterator[tuple[str, str]]:
    """Yield resources with a utilization target that a container does not request."""
    for metric in hpa.spec.metrics:
        resource = metric.resource
        if resource is None or resource.target.average_utilization is None:
            continue
        if resource.name in (own.template.pod_level or {}):
            continue
        without = [
            container.requests.name
            for container in own.template.containers
            if resource.name not in container.requests.requests
        ]
        if without:
            of = f"container {listed(without)} of {own.kind}/{own.name}"
            yield "missing_request", f"{of} requests no {resource.name}, so the metric fails"
