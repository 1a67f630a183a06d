"""Edit of a manifest: a recommended spec in the autoscaling/v2 manifest of its HPA.

Scalars are replaced in their place and whole blocks inserted, so comments, order, quotes and all
other documents stay as they are, character by character; for everything else there is the patch.
The result is read again: an edit is refused unless it has exactly the recommended spec and changes
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
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
from hpabatch.inputs.manifests import stored_spec
from hpabatch.model.objects.decode import KIND, V2, decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.stored import stored_order
from hpabatch.model.objects.validate import drop_disabled_fields
from hpabatch.model.settings.patch import spec_differences, spec_patch
from hpabatch.model.versions import Profile

_MEMBERS: Final = ("resource", "containerResource", "pods", "object", "external")
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


def _same(left: HPASpec, right: HPASpec) -> bool:
    """Whether two specs are equal, whatever they scale."""
    return left == replace(right, scale_target_ref=left.scale_target_ref)


def _find(text: str, namespace: str, name: str) -> list[_Found]:
    """Return every place of an HPA; documents that cannot be read are passed over."""
    found: list[_Found] = []
    start = 0
    for piece, _ in split_documents(text):
        start = text.index(piece, start)
        try:
            objects = _objects(piece) if name in piece else []
        except DocumentError:
            objects = []
        for index, (value, node) in enumerate(objects):
            hpa = _hpa_of(value) if value.get("kind") == KIND else None
            if hpa is not None and hpa.name == name and hpa.namespace in ("", namespace):
                found.append(_Found(start, piece, index, value, node, hpa))
        start += len(piece)
    return found


def _objects(piece: str) -> list[tuple[Mapping[str, Any], Node | None]]:
    return [
        (value, node)
        for document in parse_documents(piece)
        if isinstance(document.value, Mapping | list)
        for value, node in expand(document.value, document.node)
        if isinstance(value, Mapping)
    ]


def _hpa_of(value: Mapping[str, Any]) -> HPA | None:
    """Return the HPA of a document, None of one that a server would not read."""
    hpa, problems = decode_hpa(value)
    return None if any(problem.severity is Severity.error for problem in problems) else hpa


def _edited(there: _Found, wanted: HPASpec, profile: Profile) -> str:
    """Return the piece with the wanted spec."""
    if there.hpa.api_version != V2:
        raise _NoPlaceError(f"it is of {there.hpa.api_version}, not of {V2}")
    if there.node is None:
        raise _NoPlaceError("its JSON is not YAML")
    text, old = there.piece, there.value["spec"]
    node = {key.value: part for key, part in there.node.value}["spec"]
    new = _wanted(there.hpa, old, wanted, profile)
    parts, position = [], 0
    cuts = list(_cuts(text, there.node, node, old, new, "spec"))
    for start, end, words in sorted(cuts, key=lambda cut: cut[:2]):
        parts += [text[position:start], words]
        position = end
    return "".join([*parts, text[position:]])


def _wanted(hpa: HPA, old: Mapping[str, Any], wanted: HPASpec, profile: Profile) -> Any:
    """Return a manifest's spec with what changes; a metric added by default is written out."""
    spec, new = stored_spec(hpa, profile), deepcopy(dict(old))
    if spec.min_replicas != wanted.min_replicas:
        new["minReplicas"] = wanted.min_replicas
    if spec.max_replicas != wanted.max_replicas:
        new["maxReplicas"] = wanted.max_replicas
    if len(spec.metrics) != len(wanted.metrics):
        raise _NoPlaceError("metrics would be added or removed")
    places = stored_order(default_hpa(drop_disabled_fields(hpa, profile)).spec, profile)
    before: Any = encode_spec(spec)["metrics"]
    after: Any = encode_spec(wanted)["metrics"]
    for place, now, metric in zip(places, before, after, strict=True):
        if now != metric and (place is None or not hpa.spec.metrics):
            new["metrics"] = [metric]
        elif now != metric:
            member = next(name for name in _MEMBERS if name in metric)
            # (a quantity that stays is left as it is written)
            goal, was = metric[member]["target"], now[member]["target"]
            if goal.keys() != was.keys():
                raise _NoPlaceError("the kind of a target would change")
            changed = {name: value for name, value in goal.items() if was[name] != value}
            new["metrics"][place][member]["target"] |= changed
    patch: Any = spec_patch(hpa.spec, wanted)
    if "behavior" in patch:
        behavior = old.get("behavior", {})
        if behavior is None or None in behavior.values():
            raise _NoPlaceError("its behavior has a key without a value")
        new["behavior"] = _merged(behavior, patch["behavior"])
    return new


def _merged(old: Any, patch: Any) -> Any:
    """Return a value with a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _cuts(
    text: str, root: Node, node: Any, old: Any, new: Any, name: str
) -> Iterator[tuple[int, int, str]]:
    """Yield the start and end of what is replaced in a text, and the new text.

    `node` has the value `old`, which becomes `new`. A missing key is a new block of lines.
    """
    if old == new:
        return
    if isinstance(node, MappingNode) and isinstance(new, Mapping):
        parts = {key.value: part for key, part in node.value}
        for key in old:
            if key not in new:
                raise _NoPlaceError(f"{key} would be removed")
        for key, value in new.items():
            if key not in old:
                yield _insertion(text, root, node, key, value)
            else:
                yield from _cuts(text, root, parts.get(key), old[key], value, key)
    elif isinstance(node, SequenceNode) and isinstance(new, list):
        if len(old) != len(new):
            raise _NoPlaceError(f"{name} would be added or removed")
        for part, was, value in zip(node.value, old, new, strict=True):
            yield from _cuts(text, root, part, was, value, name)
    elif isinstance(node, ScalarNode) and not isinstance(new, Mapping | list):
        words = str(new)
        if node.style:
            words = f"'{words}'" if node.style == "'" else f'"{words}"'
        yield node.start_mark.index, node.end_mark.index, words
    else:
        raise _NoPlaceError(f"{name} is of another form")


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


def _is_right(there: _Found, piece: str, wanted: HPASpec, profile: Profile) -> bool:
    """Whether the text has the wanted spec and is otherwise unchanged."""
    try:
        before, after = _objects(there.piece), _objects(piece)
    except DocumentError:
        return False
    if len(before) != len(after):
        return False
    others = [pair for k, pair in enumerate(zip(before, after, strict=True)) if k != there.index]
    new = after[there.index][0]
    hpa = _hpa_of(new)
    return (
        all(old[0] == other[0] for old, other in others)
        and hpa is not None
        and _same(stored_spec(hpa, profile), wanted)
        and {**new, "spec": None} == {**there.value, "spec": None}
        and hpa.spec.scale_target_ref == there.hpa.spec.scale_target_ref
    )
