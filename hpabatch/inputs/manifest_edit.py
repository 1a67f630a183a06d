"""Edit of a manifest: a recommended spec in the autoscaling/v2 manifest of its HPA.

Scalars are replaced in their place and whole blocks inserted, so comments, order, quotes and all
other documents stay as they are, character by character; for everything else there is the patch.
The result is read again: an edit is refused unless it has exactly the recommended spec and changes
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hpabatch.errors import RefusedError
from hpabatch.inputs.manifest_documents import (
    DocumentError,
    expand,
    parse_documents,
    split_documents,
)
from hpabatch.model.objects.decode import KIND, V2, decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.stored import as_stored, stored_order
from hpabatch.model.objects.validate import drop_disabled_fields
from hpabatch.model.settings.patch import spec_differences, spec_patch
from hpabatch.model.versions import Profile

_MEMBERS: Final = ("resource", "containerResource", "pods", "object", "external")
_TARGET_FIELDS: Final = ("averageUtilization", "averageValue", "value")
_AFTER: Final = {"minReplicas": "scaleTargetRef", "metrics": "maxReplicas", "behavior": "metrics"}


class _NoPlaceError(Exception):
    """A change that a manifest has no place for; the message says why."""


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
        told = ", ".join(differences)
        super().__init__(f"{label}: the manifest is not what was judged ({told}): not edited")
        self.differences = differences


_Edit = tuple[tuple[str | int, ...], object]
"""A path below an HPA's document and its new value."""


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
        written = replace(spec, scale_target_ref=today.scale_target_ref)
        raise OtherSpecError(label, spec_differences(today, written))
    try:
        piece = _edited(there, wanted, profile)
    except _NoPlaceError as error:
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
    if there.hpa.api_version != V2:
        raise _NoPlaceError(f"it is of {there.hpa.api_version}, not of {V2}")
    if there.node is None:
        raise _NoPlaceError("its JSON is not YAML")
    text, cuts = there.piece, []
    for path, value in _edits(there.hpa, there.value, wanted, profile):
        cuts.append(_cut(text, there.node, path, value))
    parts, position = [], 0
    for start, end, new in sorted(cuts, key=lambda cut: cut[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def _edits(
    hpa: HPA, value: Mapping[str, Any], wanted: HPASpec, profile: Profile
) -> Iterator[_Edit]:
    spec = stored_spec(hpa, profile)
    if spec.min_replicas != wanted.min_replicas:
        yield ("spec", "minReplicas"), wanted.min_replicas
    if spec.max_replicas != wanted.max_replicas:
        yield ("spec", "maxReplicas"), wanted.max_replicas
    if spec.metrics != wanted.metrics:
        yield from _metric_edits(hpa, spec, wanted, profile)
    patch: Any = spec_patch(hpa.spec, wanted)
    if "behavior" not in patch:
        return
    if patch["behavior"] is None:
        raise _NoPlaceError("the behavior would be removed")
    behavior: Any = value["spec"].get("behavior", {})
    if behavior is None or None in behavior.values():
        raise _NoPlaceError("its behavior has a key without a value")
    blocks = {way: rules for way, rules in patch["behavior"].items() if way not in behavior}
    if "behavior" not in value["spec"]:
        yield ("spec", "behavior"), {way: _set(rules) for way, rules in blocks.items()}
        return
    for way, rules in patch["behavior"].items():
        path = ("spec", "behavior", way)
        if way in blocks:
            yield path, _set(rules)
            continue
        for field, new in rules.items():
            if new is None:
                raise _NoPlaceError(f"{field} would be removed")
            old = behavior[way].get(field)
            if field == "policies" and old is not None:
                yield from _policy_edits((*path, field), old, new)
            else:
                yield (*path, field), new


def _set(rules: Mapping[str, object]) -> dict[str, object]:
    return {field: value for field, value in rules.items() if value is not None}


def _metric_edits(hpa: HPA, spec: HPASpec, wanted: HPASpec, profile: Profile) -> Iterator[_Edit]:
    """Yield changes of targets; a metric that a server adds by default is written out."""
    if len(spec.metrics) != len(wanted.metrics):
        raise _NoPlaceError("metrics would be added or removed")
    places = stored_order(default_hpa(drop_disabled_fields(hpa, profile)).spec, profile)
    before: Any = encode_spec(spec)["metrics"]
    after: Any = encode_spec(wanted)["metrics"]
    for place, old, new in zip(places, before, after, strict=True):
        if old == new:
            continue
        if place is None or not hpa.spec.metrics:
            yield ("spec", "metrics"), [new]
            continue
        member = next(name for name in _MEMBERS if name in old)
        for field in _TARGET_FIELDS:
            goal = new[member]["target"].get(field)
            if old[member]["target"].get(field) == goal:
                continue
            if goal is None:
                raise _NoPlaceError("the kind of a target would change")
            yield ("spec", "metrics", place, member, "target", field), goal


def _policy_edits(path: tuple[str, ...], old: Any, new: Any) -> Iterator[_Edit]:
    """Yield changes inside of a list of policies that keeps its length."""
    if not isinstance(old, list) or len(old) != len(new):
        raise _NoPlaceError("policies would be added or removed")
    for k, (before, after) in enumerate(zip(old, new, strict=True)):
        for field in after:
            if before.get(field) != after[field]:
                yield (*path, k, field), after[field]


def _cut(text: str, root: Node, path: tuple[str | int, ...], value: object) -> tuple[int, int, str]:
    """Return the start and end of what a value replaces in a text, and the new text.

    What is missing of the path is inserted as a block of lines.
    """
    node = root
    for depth, step in enumerate(path):
        if isinstance(node, SequenceNode) and isinstance(step, int):
            below = node.value[step]
        elif isinstance(node, MappingNode):
            below = {key.value: part for key, part in node.value}.get(step)
        else:
            raise _NoPlaceError(f"{step} is not in a mapping")
        if below is None and isinstance(node, MappingNode):
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            return _insertion(text, root, node, str(step), value)
        node = below
    if not isinstance(node, ScalarNode):
        raise _NoPlaceError(f"{path[-1]} is no single value")
    words = str(value)
    if node.style:
        words = f"'{words}'" if node.style == "'" else f'"{words}"'
    return node.start_mark.index, node.end_mark.index, words


def _insertion(
    text: str, root: Any, parent: MappingNode, name: str, value: object
) -> tuple[int, int, str]:
    """Return the place of a new key behind the one of `_AFTER`, else the last, and its lines."""
    if parent.flow_style or root.flow_style:
        raise _NoPlaceError(f"{name} would come into braces")
    by_name = {key.value: (key, part) for key, part in parent.value}
    last = by_name.get(_AFTER.get(name, ""), parent.value[-1])
    spec = next((key, part) for key, part in root.value if key.value == "spec")
    step = spec[1].start_mark.column - spec[0].start_mark.column
    lines = _block({name: value}, parent.start_mark.column, step)
    end = text.find("\n", _content_end(last)) + 1
    newline = "\r\n" if "\r\n" in text else "\n"
    if end:
        return end, end, "".join(line + newline for line in lines)
    return len(text), len(text), newline + newline.join(lines)


def _content_end(part: Any) -> Any:
    """Return where the text of a node, or of a key and its value, ends.

    The end mark of a block collection is beyond what follows it.
    """
    if isinstance(part, tuple):
        return max(part[0].end_mark.index, _content_end(part[1]))
    if isinstance(part, ScalarNode) or part.flow_style or not part.value:
        # A block scalar ends with its line.
        return part.end_mark.index - (getattr(part, "style", None) in ("|", ">"))
    return _content_end(part.value[-1])


def _block(value: Any, indent: int, step: int) -> list[str]:
    """Return the lines of a mapping or list in block style."""
    blank, lines = " " * indent, []
    if isinstance(value, list):
        for item in value:
            first, *others = _block(item, indent + 2, step)
            lines += [f"{blank}- {first.lstrip()}", *others]
        return lines
    for name, part in value.items():
        if isinstance(part, Mapping | list):
            below = indent if isinstance(part, list) else indent + step
            lines += [f"{blank}{name}:", *_block(part, below, step)]
        else:
            lines.append(f"{blank}{name}: {part}")
    return lines


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
    return {name: part for name, part in value.items() if name != "spec"}
