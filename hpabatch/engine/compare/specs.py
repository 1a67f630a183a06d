"""Two specs of an HPA: the fields that differ in the API's words, and one with parts of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import Profile

PARTS: Final[dict[str, str]] = {
    "minReplicas": "min_replicas",
    "maxReplicas": "max_replicas",
    "metrics": "metrics",
    "behavior": "behavior",
}
"""The fields of a spec that make decisions, as the API calls them and as `HPASpec` does."""

_ABSENT: Final = "none"


def parts_that_differ(before: HPASpec, after: HPASpec) -> tuple[str, ...]:
    """Return which of `PARTS` differ."""
    return tuple(
        part for part, name in PARTS.items() if getattr(before, name) != getattr(after, name)
    )


def with_part(spec: HPASpec, part: str, other: HPASpec) -> HPASpec:
    """Return a spec with one of `PARTS` as in another one."""
    values = {PARTS[part]: getattr(other, PARTS[part])}
    return replace(spec, **values)


def is_valid(name: str, namespace: str, spec: HPASpec, profile: Profile) -> bool:
    """Say whether an API server would take a spec."""
    return not validate_hpa(HPA(name=name, namespace=namespace, spec=spec), profile)


def part_words(before: HPASpec, after: HPASpec, part: str) -> str:
    """Return what differs in one of `PARTS`, as `maxReplicas 10 -> 20`; empty: nothing does."""
    ours, theirs = (encode_spec(spec).get(part) for spec in (before, after))
    return ", ".join(f"{path} {a} -> {b}" for path, a, b in _leaves(part, ours, theirs))


def _leaves(path: str, before: object, after: object) -> Iterator[tuple[str, str, str]]:
    """Yield the path and both values of everything that differs, as deep as both have it."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            yield from _leaves(f"{path}.{name}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for k, (ours, theirs) in enumerate(zip(before, after, strict=True)):
            yield from _leaves(f"{path}[{k}]", ours, theirs)
    else:
        yield path, _text(before), _text(after)


def _text(value: object) -> str:
    """Return a value as YAML's flow form would have it, as far as an HPA's go."""
    if value is None:
        return _ABSENT
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)
