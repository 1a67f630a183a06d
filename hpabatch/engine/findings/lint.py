"""Findings of manifests alone: HPAs by themselves, beside each other and beside their workloads."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any, Final

from hpabatch.engine.analyze.remarks import remarks
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.engine.findings.ignores import Annotated, Judged, judge
from hpabatch.engine.findings.run import ASSUMED
from hpabatch.engine.fleet.candidates import IGNORE
from hpabatch.inputs.cluster_objects import WorkloadKey, WorkloadObject, read_objects
from hpabatch.inputs.documents import MistakesError, read_text
from hpabatch.inputs.keda import GROUP
from hpabatch.inputs.manifest_documents import DocumentError, parse_documents
from hpabatch.inputs.manifests import MAX_BYTES, CheckedEntry, manifest_files
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.printable import listed
from hpabatch.model.selectors import parse_selector
from hpabatch.model.versions import ControllerFlags, Profile

SIDECAR_SHARE: Final = 0.25
"""Part of a pod's requests from which on other containers than the largest hide its usage."""

_UNSERVED = "is not served since"  # (`inputs.manifests`)
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml")


def lint(
    checked: Sequence[CheckedEntry], paths: Sequence[str], profile: Profile, stdin: bytes = b""
) -> Judged:
    """Return the findings of valid HPAs and of the workloads in the same files, the worst first.

    Workloads of a file with an object that cannot be decoded are left out. `stdin` is what `-`
    among the paths had.
    """
    valid = [(item, item.hpa) for item in checked if item.hpa is not None]
    objects = _Objects({}, {}, [])
    for item, hpa in valid:
        objects.scalers.setdefault(_target(hpa), []).append((hpa, normpath(item.entry.source)))
    with tempfile.NamedTemporaryFile(suffix=".yaml") as copy:
        copy.write(stdin)
        copy.flush()
        _read([copy.name if path == "-" else path for path in paths], objects)
    rows, annotated = [], {}
    for item, hpa in valid:
        key = ("", hpa.namespace, hpa.shown_name)
        place = {"source": item.entry.source, "line": item.entry.line}
        evidence, told = json.dumps(place, separators=(",", ":")), f" ({item.entry.place})"
        if text := dict(hpa.annotations).get(IGNORE, ""):
            annotated[key] = Annotated(text, evidence, told)
        for name, why in _of_hpa(item, hpa, profile, objects):
            rows.append(
                dict(zip(("cluster", "namespace", "hpa"), key, strict=True))
                | {"finding": name, "why": why + told, "evidence": evidence}
            )
    return judge(rows, annotated)


@dataclass(frozen=True, slots=True)
class _Objects:
    """All HPAs with their files by what they scale, all workloads, and files that belong together.

    These are the files that one kustomization lists.
    """

    scalers: dict[WorkloadKey, list[tuple[HPA, str]]]
    workloads: dict[WorkloadKey, WorkloadObject]
    together: list[Collection[str]]


def _target(hpa: HPA) -> WorkloadKey:
    target = hpa.spec.scale_target_ref
    return hpa.namespace or "default", target.kind, target.name


def _read(paths: Sequence[str], objects: _Objects) -> None:
    """Take the workloads and kustomizations of all files that can be read."""
    for path in paths:
        folder = Path(path)
        names = manifest_files(folder, lambda _: None) if folder.is_dir() else [folder]
        for name in names:
            with suppress(MistakesError):
                found = read_objects([name]).workloads
                objects.workloads.update({(k[0] or "default", *k[1:]): w for k, w in found.items()})
            if name.name in _KUSTOMIZATIONS:
                with suppress(MistakesError, DocumentError):
                    for document in parse_documents(read_text(name, "", MAX_BYTES)):
                        value = document.value
                        given = value.get("resources") if isinstance(value, Mapping) else None
                        own = given if isinstance(given, list) else ()
                        objects.together.append({normpath(name.parent / str(one)) for one in own})


def _of_hpa(
    item: CheckedEntry, hpa: HPA, profile: Profile, objects: _Objects
) -> Iterator[tuple[str, Any]]:
    """Yield id and sentence of each finding of an HPA; one of several HPAs stands at each."""
    yield from (("deprecated_api", text) for text in item.warnings if _UNSERVED in text)
    analysis = analyze_hpa(as_stored(hpa.spec, profile), ControllerFlags(), profile)
    yield from ((r.code, r.text) for r in remarks(analysis) if r.code not in ASSUMED)
    yield from _rivals(hpa, normpath(item.entry.source), objects)
    key = _target(hpa)
    own = objects.workloads.get(key)
    if own is None:
        return
    others = sorted(
        other[2]
        for other, workload in objects.workloads.items()
        if other != key and other in objects.scalers and other[0] == key[0]
        if _counts(own, workload)
    )
    if others:
        yield "overlapping_selectors", f"the selector of {key[2]} matches pods of {listed(others)}"
    yield from _requests(hpa, own)


def _rivals(hpa: HPA, source: str, objects: _Objects) -> Iterator[tuple[str, str]]:
    """Yield the other HPAs on the target of an HPA.

    Those in its file, or in its kustomization, are applied with it. Others may be alternatives, as
    examples and overlays are.
    """
    key = _target(hpa)
    near, far, is_keda = set[str](), set[str](), {hpa.api_version.startswith(GROUP)}
    for other, file in objects.scalers[key]:
        if other.shown_name == hpa.shown_name:  # (twice: one HPA)
            continue
        if file == source or any({file, source} <= set(files) for files in objects.together):
            near.add(other.shown_name)
            is_keda.add(other.api_version.startswith(GROUP))
        else:
            far.add(other.shown_name)
    for name, rivals in (("same_target", near), ("same_target_apart", far)):
        if rivals and not (rivals is far and near):
            told = f"{listed(sorted(rivals))} scale{'s' * (len(rivals) == 1)} {key[1]}/{key[2]}"
            if rivals is far:
                yield name, f"{told}, too, in another file: if both are applied, neither can act"
            else:
                yield "keda_and_hpa" if len(is_keda) == 2 else name, f"{told}, too"


def _counts(own: WorkloadObject, other: WorkloadObject) -> bool:
    """Say whether the selector of a workload matches the pods of another."""
    selector = "" if own.scale is None else own.scale.selector
    with suppress(ValueError):
        return bool(selector) and parse_selector(selector).matches(other.labels)
    return False


def _requests(hpa: HPA, own: WorkloadObject) -> Iterator[tuple[str, str]]:
    """Yield what keeps a utilization of all containers from being the usage of the main one."""
    sidecars = [one for one in own.template.init_containers if one.requests.is_sidecar]
    containers = [one.requests for one in (*own.template.containers, *sidecars)]
    for metric in hpa.spec.metrics:
        resource = metric.resource
        if resource is None or resource.target.average_utilization is None:
            continue
        if resource.name in (own.template.pod_level or {}):
            continue
        amounts = {c.name: c.requests[resource.name].milli() for c in containers
                   if resource.name in c.requests}  # fmt: skip
        without = [container.name for container in containers if container.name not in amounts]
        if without:
            of = f"container {listed(without)} of {own.kind}/{own.name}"
            told = f"requests no {resource.name}, so the metric fails unless a LimitRange fills it"
            yield "missing_request", f"{of} {told} in"
            continue
        main = max(amounts, key=lambda name: amounts[name], default="")
        share = 1 - amounts[main] / max(sum(amounts.values()), 1) if amounts else 0.0
        if share >= SIDECAR_SHARE:
            rest = listed([name for name in amounts if name != main])
            yield (
                "sidecars_count",
                (
                    f"{share:.0%} of the {resource.name} that {own.kind}/{own.name} requests is of "
                    f"{rest}: its utilization is not that of {main}"
                ),
            )
