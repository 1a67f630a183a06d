"""Edit of a manifest: a recommended spec in the manifest of its HPA, in any API version.

Only fields that change are edited; comments, order, quotes and all other documents stay as they
are, character by character. The result is read again: an edit is refused unless it has exactly the
recommended spec and changes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from yaml.nodes import Node

from hpabatch.errors import RefusedError
from hpabatch.inputs.manifest_documents import (
    DocumentError,
    expand,
    parse_documents,
    split_documents,
)
from hpabatch.inputs.yaml_splice import Path, SpliceError, delete_key, set_value
from hpabatch.model.objects.decode import KIND, V1, V2, V2ALPHA1, V2BETA1, V2BETA2, decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.decode_legacy import BEHAVIOR_ANNOTATION
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.stored import as_stored, stored_order
from hpabatch.model.objects.validate import drop_disabled_fields
from hpabatch.model.settings.differences import spec_differences
from hpabatch.model.settings.patch import spec_patch
from hpabatch.model.versions import Profile

_MEMBERS: Final = ("resource", "containerResource", "pods", "object", "external")
_TARGET_FIELDS: Final = ("averageUtilization", "averageValue", "value")
# By member and field of v2 the field of v2beta1.
_OLD_TARGETS: Final = {
    ("resource", "averageUtilization"): "targetAverageUtilization",
    ("resource", "averageValue"): "targetAverageValue",
    ("containerResource", "averageUtilization"): "targetAverageUtilization",
    ("containerResource", "averageValue"): "targetAverageValue",
    ("pods", "averageValue"): "targetAverageValue",
    ("object", "value"): "targetValue",
    ("object", "averageValue"): "averageValue",
    ("external", "value"): "targetValue",
    ("external", "averageValue"): "targetAverageValue",
}
_V1_TARGET: Final = "targetCPUUtilizationPercentage"
_AFTER: Final = {
    "minReplicas": ("scaleTargetRef",),
    "metrics": ("maxReplicas",),
    _V1_TARGET: ("maxReplicas",),
    "behavior": ("metrics", "maxReplicas"),
}
_MOST_EDITS: Final = 100


@dataclass(frozen=True, slots=True)
class _Found:
    """An HPA in a text: the piece that it is in, where that begins, and its place in it."""

    start: int
    piece: str
    index: int
    value: Mapping[str, Any]
    node: Node | None
    hpa: HPA


class OtherSpecError(RefusedError):
    """A manifest that says something else than what was judged, with each field, judged to now."""

    def __init__(self, label: str, differences: list[str]) -> None:
        """Take the HPA's name and the differences."""
        told = ", ".join(differences)
        super().__init__(f"{label}: the manifest is not what was judged ({told}): not edited")
        self.differences = differences


_Edit = tuple[Path, object]
"""A path below an HPA's document and its new value; None: the key goes."""


def edit_manifest(
    text: str,
    namespace: str,
    name: str,
    today: HPASpec,
    wanted: HPASpec,
    profile: Profile,
) -> str:
    """Return a file's text in which one HPA has the wanted spec.

    `today` and `wanted` are specs as the API server stores them. A manifest without a namespace is
    taken for any. A spec that is there already leaves the text as it is.

    Raises:
        RefusedError: the HPA is not there or there twice, the manifest says something else than
            `today`, or its version or form has no place for the change.
    """
    label = f"{namespace}/{name}"
    found = _find(text, namespace, name)
    if len(found) != 1:
        how = "is not in this file" if not found else f"is in this file {len(found)} times"
        raise RefusedError(f"{label} {how}")
    there = found[0]
    spec = stored_spec(there.hpa, profile)
    if _same(spec, wanted):
        return text
    if not _same(spec, today):
        raise OtherSpecError(label, spec_differences(today, _as(spec, today)))
    try:
        piece = _edited(there, wanted, profile)
    except SpliceError as error:
        raise RefusedError(
            f"{label}: the manifest cannot be edited ({error}): use the patch"
        ) from error
    if not _is_right(there, piece, wanted, profile):
        raise RefusedError(
            f"{label}: the manifest cannot be edited without changing something else: use the patch"
        )
    return text[: there.start] + piece + text[there.start + len(there.piece) :]


def stored_spec(hpa: HPA, profile: Profile) -> HPASpec:
    """Return the spec that an API server makes of a document."""
    return as_stored(default_hpa(drop_disabled_fields(hpa, profile)).spec, profile)


def _same(left: HPASpec, right: HPASpec) -> bool:
    """Say whether two specs are equal, whatever they scale."""
    return _compared(left) == _compared(right)


def _compared(spec: HPASpec) -> tuple[object, ...]:
    return spec.min_replicas, spec.max_replicas, spec.metrics, spec.behavior


def _as(spec: HPASpec, other: HPASpec) -> HPASpec:
    """Return a spec with another one's target."""
    return replace(spec, scale_target_ref=other.scale_target_ref)


# ---- finding ------------------------------------------------------------------------------------


def _find(text: str, namespace: str, name: str) -> list[_Found]:
    """Return every place of an HPA; documents that cannot be read are passed over."""
    found: list[_Found] = []
    for start, piece in _pieces(text):
        if name not in piece:
            continue
        try:
            objects = list(_objects(piece))
        except DocumentError:
            continue
        for index, (value, node) in enumerate(objects):
            if value.get("kind") != KIND:
                continue
            hpa, problems = decode_hpa(value)
            wrong = any(problem.severity is Severity.error for problem in problems)
            if hpa.name == name and hpa.namespace in ("", namespace) and not wrong:
                found.append(_Found(start, piece, index, value, node, hpa))
    return found


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a text and where each begins."""
    position = 0
    for piece, _ in split_documents(text):
        position = text.index(piece, position)
        yield position, piece
        position += len(piece)


def _objects(piece: str) -> Iterator[tuple[Mapping[str, Any], Node | None]]:
    for document in parse_documents(piece):
        if isinstance(document.value, Mapping | list):
            for value, node in expand(document.value, document.node):
                if isinstance(value, Mapping):
                    yield value, node


# ---- editing ------------------------------------------------------------------------------------


def _edited(there: _Found, wanted: HPASpec, profile: Profile) -> str:
    """Make one edit after the other, reading the text again in between."""
    piece = there.piece
    for _ in range(_MOST_EDITS):
        try:
            value, node = list(_objects(piece))[there.index]
        except (DocumentError, IndexError) as error:
            raise SpliceError("an edit broke it") from error
        if node is None:
            raise SpliceError("its JSON is not YAML")
        hpa, _ = decode_hpa(value)
        edit = next(_edits(hpa, value, wanted, profile), None)
        if edit is None:
            return piece
        path, new = edit
        after = _AFTER.get(str(path[-1]), ())
        piece = (
            delete_key(piece, node, path)
            if new is None
            else set_value(piece, node, path, new, after)
        )
    raise SpliceError("its fields do not take the change")


def _edits(
    hpa: HPA, value: Mapping[str, Any], wanted: HPASpec, profile: Profile
) -> Iterator[_Edit]:
    """Yield the remaining changes."""
    spec = stored_spec(hpa, profile)
    if spec.min_replicas != wanted.min_replicas:
        yield ("spec", "minReplicas"), wanted.min_replicas
    if spec.max_replicas != wanted.max_replicas:
        yield ("spec", "maxReplicas"), wanted.max_replicas
    if spec.metrics != wanted.metrics:
        yield from _metric_edits(hpa, value, spec, wanted, profile)
    if spec.behavior != wanted.behavior:
        yield from _behavior_edits(hpa, value, spec, wanted)


def _metric_edits(
    hpa: HPA, value: Mapping[str, Any], spec: HPASpec, wanted: HPASpec, profile: Profile
) -> Iterator[_Edit]:
    """Yield changes of targets; a metric that a server adds by default is written out."""
    if len(spec.metrics) != len(wanted.metrics):
        raise SpliceError("metrics would be added or removed")
    places = stored_order(default_hpa(drop_disabled_fields(hpa, profile)).spec, profile)
    for place, old, new in zip(places, _metrics(spec), _metrics(wanted), strict=True):
        if old == new:
            continue
        member = next(name for name in _MEMBERS if name in old)
        if hpa.api_version == V1:
            yield _v1_target(hpa, member, new)
        elif place is None or not hpa.spec.metrics:
            if hpa.api_version in (V2ALPHA1, V2BETA1):
                percent = new[member]["target"]["averageUtilization"]
                new = {
                    "type": "Resource",
                    "resource": {"name": "cpu", "targetAverageUtilization": percent},
                }
            yield ("spec", "metrics"), [new]
        else:
            yield from _target_edits(hpa.api_version, place, member, old, new)


def _metrics(spec: HPASpec) -> list[dict[str, Any]]:
    found: Any = encode_spec(spec)["metrics"]
    return list(found)


def _v1_target(hpa: HPA, member: str, new: Mapping[str, Any]) -> _Edit:
    percent = new[member]["target"].get("averageUtilization")
    if member != "resource" or new[member]["name"] != "cpu" or percent is None:
        raise SpliceError("autoscaling/v1 keeps this metric in an annotation")
    return ("spec", _V1_TARGET), percent


def _target_edits(
    version: str, place: int, member: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[_Edit]:
    before, after = old[member]["target"], new[member]["target"]
    for field in _TARGET_FIELDS:
        if before.get(field) == after.get(field):
            continue
        path: Path = ("spec", "metrics", place, member, "target", field)
        if version in (V2ALPHA1, V2BETA1):
            path = ("spec", "metrics", place, member, _OLD_TARGETS[(member, field)])
        if field not in after:
            raise SpliceError("the kind of a target would change")
        yield path, after[field]


def _behavior_edits(
    hpa: HPA, value: Mapping[str, Any], spec: HPASpec, wanted: HPASpec
) -> Iterator[_Edit]:
    """Yield changes of the behavior; versions without one keep it in an annotation."""
    if hpa.api_version not in (V2, V2BETA2):
        if wanted.behavior is None:
            yield ("metadata", "annotations", BEHAVIOR_ANNOTATION), None
        else:
            whole: Any = encode_spec(wanted)["behavior"]
            text = json.dumps(_go_names(whole), separators=(",", ":"))
            yield ("metadata", "annotations", BEHAVIOR_ANNOTATION), text
        return
    patch: Any = spec_patch(hpa.spec, wanted).get("behavior")
    if patch is None:
        yield ("spec", "behavior"), None
        return
    if hpa.spec.behavior is None and "behavior" not in value["spec"]:
        yield ("spec", "behavior"), {way: _set(rules) for way, rules in patch.items()}
    for way, rules in patch.items():
        for field, new in rules.items():
            if field == "tolerance" and hpa.api_version == V2BETA2:
                raise SpliceError("autoscaling/v2beta2 has no tolerance")
            path = ("spec", "behavior", way, field)
            yield from _policy_edits(value, path, new) or [(path, new)]


def _policy_edits(value: Mapping[str, Any], path: tuple[str, ...], new: Any) -> list[_Edit]:
    """Return changes inside of a list of policies that keeps its length, so comments stay."""
    old: Any = value
    for step in path:
        old = old.get(step) if isinstance(old, Mapping) else None
    if path[-1] != "policies" or not isinstance(old, list) or len(old) != len(new):
        return []
    return [
        ((*path, k, field), after[field])
        for k, (before, after) in enumerate(zip(old, new, strict=True))
        for field in after
        if before.get(field) != after[field]
    ]


def _set(rules: Mapping[str, object]) -> dict[str, object]:
    return {field: value for field, value in rules.items() if value is not None}


def _go_name(name: str) -> str:
    return name[:1].upper() + name[1:]


def _go_names(value: Any) -> Any:
    """Return a value with the field names of upstream's annotation, which are those of Go."""
    if isinstance(value, Mapping):
        return {_go_name(name): _go_names(part) for name, part in value.items()}
    return [_go_names(item) for item in value] if isinstance(value, list) else value


# ---- checking -----------------------------------------------------------------------------------


def _is_right(there: _Found, piece: str, wanted: HPASpec, profile: Profile) -> bool:
    """Whether the text has the wanted spec and is otherwise unchanged."""
    try:
        before, after = list(_objects(there.piece)), list(_objects(piece))
    except DocumentError:
        return False
    if len(before) != len(after):
        return False
    for index, ((old, _), (new, _)) in enumerate(zip(before, after, strict=True)):
        if index != there.index:
            if old != new:
                return False
            continue
        hpa, problems = decode_hpa(new)
        if any(problem.severity is Severity.error for problem in problems):
            return False
        if not _same(stored_spec(hpa, profile), wanted) or _rest(old) != _rest(new):
            return False
        if hpa.spec.scale_target_ref != there.hpa.spec.scale_target_ref:
            return False
    return True


def _rest(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything but the spec and the behavior's annotation."""
    rest = {name: part for name, part in value.items() if name not in ("spec", "metadata")}
    metadata = dict(value.get("metadata") or {})
    annotations = dict(metadata.pop("annotations", None) or {})
    annotations.pop(BEHAVIOR_ANNOTATION, None)
    return rest | {"metadata": metadata, "annotations": annotations}
