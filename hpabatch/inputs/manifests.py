"""Kubernetes manifests: HPAs of files, folders and standard input, with source, line and check.

No content of a file raises an error. A document that cannot be read is an entry with an `error`;
the others are read. Of a ScaledObject that is the HPA that KEDA makes of it. Documents of other
kinds are counted; where there is no HPA, those that hold the settings of one are errors.

The check is that of defaults and of the API server's rules. Warnings are for a key given twice, an
HPA given twice in one input tree, a DaemonSet target, API versions that are no longer served,
fields that the server drops, and a target whose type is not that of its value. They refuse a
document only with `strict`.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from hpabatch.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNREADABLE
from hpabatch.history.files import open_regular
from hpabatch.inputs import keda
from hpabatch.inputs.documents import decode_text, place_of
from hpabatch.inputs.keda import hpa_of_scaled_object, in_fields_of
from hpabatch.inputs.kubernetes_yaml import end_line, start_line
from hpabatch.inputs.manifest_documents import (
    DocumentError,
    TemplateError,
    expand,
    find_template,
    holds_template,
    parse_documents,
    split_documents,
)
from hpabatch.model.objects.decode import KIND, decode_hpa
from hpabatch.model.objects.decode_fields import Problem, Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.stored import as_stored
from hpabatch.model.objects.validate import (
    drop_disabled_fields,
    dropped_fields,
    other_targets,
    validate_hpa,
)
from hpabatch.model.versions import Profile

STDIN = "stdin"
SUFFIXES = (".yaml", ".yml", ".json")
MAX_BYTES = 256 * 2**20
_SETTINGS = re.compile(r"autoscal|hpa", re.IGNORECASE)
_FIX = "give the HPA that is made of it, as `kubectl get hpa -o yaml` prints it"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One HPA document, or one place that cannot be read (`error`; then `hpa` is None).

    `tree` is the command-line argument that led here, `line` counts from 1. `problems` are wrong
    JSON types and unknown fields, `duplicates` sentences about repeated keys.
    """

    source: str
    line: int
    tree: str
    hpa: HPA | None = None
    problems: tuple[Problem, ...] = ()
    duplicates: tuple[str, ...] = ()
    error: str | None = None

    @property
    def place(self) -> str:
        """Return `source:line`."""
        return f"{self.source}:{self.line}"


@dataclass(slots=True)
class Manifests:
    """HPAs and unreadable documents in order; other kinds counted.

    `settings` are skipped custom resources that hold the settings of an HPA, with their kind.
    """

    entries: list[ManifestEntry] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    files: int = 0
    settings: list[tuple[str, ManifestEntry]] = field(default_factory=list)


def load_manifests(paths: Sequence[str | Path], stdin: BinaryIO | None = None) -> Manifests:
    """Read files, folders (recursively: .yaml, .yml and .json) and `-` for standard input.

    HPAs are decoded, neither defaulted nor validated. Raises nothing about the input.
    """
    found = Manifests()
    stdin_used = False
    for path in paths:
        tree = str(path)
        if tree != "-":
            _read_path(Path(path), tree, found)
        elif stdin_used:
            _fail(found, STDIN, "-", "standard input was read already: give `-` once")
        else:
            stdin_used = True
            _read_stream(stdin or sys.stdin.buffer, STDIN, "-", found, required=True)
    if all(entry.hpa is None for entry in found.entries):
        found.entries += [entry for _, entry in found.settings]
        found.skipped -= Counter(kind for kind, _ in found.settings)
    return found


def _fail(found: Manifests, source: str, tree: str, error: str, line: int = 1) -> None:
    found.entries.append(ManifestEntry(source, line, tree, error=error))


def _read_path(path: Path, tree: str, found: Manifests) -> None:
    try:
        is_folder = path.is_dir()
    except OSError as error:
        _fail(found, tree, tree, _os_error(error))
        return
    if not is_folder:
        _read_file(path, tree, found, required=True)
        return
    count = 0

    def refuse(error: OSError) -> None:
        _fail(found, str(error.filename or path), tree, _os_error(error))

    for name in manifest_files(path, refuse):
        count += 1
        _read_file(name, tree, found, required=False)
    if not count and not any(entry.tree == tree for entry in found.entries):
        kinds = ", ".join(SUFFIXES)
        _fail(found, tree, tree, f"this folder holds no manifest ({kinds}): name another")


def manifest_files(folder: Path, refuse: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the manifests below a folder in order; hidden files and folders are skipped.

    `refuse` gets the error of a folder that cannot be read.
    """
    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield Path(root, name)


def _read_file(path: Path, tree: str, found: Manifests, required: bool) -> None:
    try:
        with open_regular(path, pipes=required) as stream:
            _read_stream(stream, str(path), tree, found, required)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        _fail(found, str(path), tree, _os_error(error))


def _os_error(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot be read: {reason[:1].lower()}{reason[1:]}"


def _read_stream(
    stream: BinaryIO, source: str, tree: str, found: Manifests, required: bool
) -> None:
    """Read one file; with `required`, a file without any document is an error."""
    data = stream.read(MAX_BYTES + 1)
    found.files += 1
    if len(data) > MAX_BYTES:
        _fail(found, source, tree, f"larger than {MAX_BYTES // 2**20} MiB: split it")
        return
    try:
        text = decode_text(data)
    except ValueError as error:
        _fail(found, source, tree, str(error))
        return
    before = len(found.entries) + found.skipped.total()
    template_told = False  # (of the pieces that are templates only the first is reported)
    for piece, offset in split_documents(text):
        try:
            for entry in _read_piece(piece, source, tree, offset, found):
                found.entries.append(entry)
        except DocumentError as error:
            is_template = isinstance(error, TemplateError)
            if not (is_template and template_told):
                line = error.line + offset + 1
                _fail(found, source, tree, error.describe(offset), line)
            template_told = template_told or is_template
    if required and before == len(found.entries) + found.skipped.total():
        what = "standard input" if source == STDIN else "this file"
        _fail(found, source, tree, f"{what} holds no document: it is empty or all comments")


def _read_piece(
    piece: str, source: str, tree: str, offset: int, found: Manifests
) -> Iterator[ManifestEntry]:
    """Yield the HPAs of one piece.

    Raises:
        DocumentError: not YAML, a template, or not a manifest.
    """
    for document in parse_documents(piece):
        if document.value is None:
            continue
        if not isinstance(document.value, Mapping | list):
            kind = "text" if isinstance(document.value, str) else "a number or a boolean"
            text = f"not a manifest: expected a mapping, found only {kind}"
            raise DocumentError(text, start_line(document.node))
        objects = list(expand(document.value, document.node))
        if not objects:
            found.skipped["empty list"] += 1
        for value, node in objects:
            if isinstance(value, str):
                place = start_line(document.node) + offset + 1
                yield ManifestEntry(source, place, tree, error=value)
                continue
            line = start_line(node)
            is_scaled_object = value.get("kind") == keda.KIND
            if not (is_scaled_object or _is_hpa(value)):
                kind = _kind(value)
                found.skipped[kind] += 1
                if path := _hpa_settings(value):
                    error = f"expected an HPA, got {kind} with settings of one ({path}); {_FIX}"
                    entry = ManifestEntry(source, line + offset + 1, tree, error=error)
                    found.settings.append((kind, entry))
                continue
            if holds_template(value):
                raise find_template(piece) or TemplateError("{{ … }}")
            if is_scaled_object:
                hpa, problems = hpa_of_scaled_object(place_of(value, node, source, offset))
            else:
                hpa, problems = decode_hpa(value)
            duplicates = tuple(
                f'duplicate key "{key}" in line {at + offset + 1}, column {column + 1} '
                f"(first in line {first + offset + 1}): the last one counts"
                for key, at, column, first in document.duplicates
                if line <= at <= end_line(node)
            )
            yield ManifestEntry(source, line + offset + 1, tree, hpa, tuple(problems), duplicates)


def _kind(value: Mapping[str, object]) -> str:
    kind = value.get("kind")
    return kind if isinstance(kind, str) and kind else "(no kind)"


def _is_hpa(value: Mapping[str, object]) -> bool:
    version = value.get("apiVersion")
    if value.get("kind") == KIND:
        return True
    return not value.get("kind") and isinstance(version, str) and version.startswith("autoscaling/")


def _hpa_settings(value: Mapping[str, object]) -> str:
    """Return the path of settings that a custom resource holds for an HPA, "" without any.

    Such as `spec.autoscaling` of an application, or of a chart's values in a HelmRelease.
    """
    stack: list[tuple[str, object]] = [("spec", value.get("spec"))]
    while stack:
        path, part = stack.pop()
        if not isinstance(part, Mapping):
            continue
        is_named = _SETTINGS.search(path.rpartition(".")[2]) is not None
        is_hpa = is_named or _kind(value).endswith(KIND)
        if is_hpa and "maxReplicas" in part and part.get("enabled") is not False:
            return path
        stack.extend((f"{path}.{key}", member) for key, member in part.items())
    return ""


VALID = "valid"
REFUSED = "refused"
UNREADABLE = "unreadable"
_UNSERVED_SINCE: Final = {
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler"): 25,
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): 26,
    ("extensions/v1beta1", "Deployment"): 16,
    ("extensions/v1beta1", "ReplicaSet"): 16,
}
"""Release 1.N without an API version of a kind (Kubernetes' deprecated API migration guide).

Of a target the controller looks up group and kind alone: apps/v1beta1 and apps/v1beta2 still work.
"""


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """A manifest entry with its verdict; `hpa` is defaulted, None unless the result is valid."""

    entry: ManifestEntry
    result: str
    hpa: HPA | None = None
    complaints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_manifests(
    entries: Iterable[ManifestEntry], profile: Profile, strict: bool = False
) -> list[CheckedEntry]:
    """Default and validate every entry, in order; with `strict` warnings are complaints."""
    first: dict[tuple[str, str, str], str] = {}
    return [_check(entry, profile, strict, first) for entry in entries]


def exit_code(checked: Iterable[CheckedEntry]) -> int:
    """Return 0, 2 if anything was unreadable, else 3 if anything was refused."""
    results = {item.result for item in checked}
    if UNREADABLE in results:
        return EXIT_UNREADABLE
    return EXIT_REFUSED if REFUSED in results else EXIT_OK


def _check(
    entry: ManifestEntry, profile: Profile, strict: bool, first: dict[tuple[str, str, str], str]
) -> CheckedEntry:
    if entry.hpa is None:
        return CheckedEntry(entry, UNREADABLE, complaints=(entry.error or "unreadable",))
    hpa = default_hpa(drop_disabled_fields(entry.hpa, profile))
    complaints = [str(item) for item in entry.problems if item.severity is Severity.error]
    if not complaints:  # the server decodes before it validates
        complaints = [in_fields_of(hpa, str(error)) for error in validate_hpa(hpa, profile)]
    warnings = [str(item) for item in entry.problems if item.severity is Severity.warning]
    warnings += [*entry.duplicates, *_beyond_the_server(entry, hpa, first)]
    warnings += _unserved(entry.hpa, profile)
    warnings += [in_fields_of(hpa, text) for text in dropped_fields(entry.hpa, profile)]
    warnings += other_targets(hpa, profile)
    if strict:
        complaints, warnings = complaints + warnings, []
    warnings += [str(item) for item in entry.problems if item.severity is Severity.note]
    result = REFUSED if complaints else VALID
    return CheckedEntry(
        entry, result, None if complaints else hpa, tuple(complaints), tuple(warnings)
    )


def _beyond_the_server(
    entry: ManifestEntry, hpa: HPA, first: dict[tuple[str, str, str], str]
) -> list[str]:
    warnings: list[str] = []
    if hpa.name:
        key = (entry.tree, hpa.namespace, hpa.name)
        if key in first:
            warnings.append(f"metadata.name: this HPA is given twice, first at {first[key]}")
        first.setdefault(key, entry.place)
    if hpa.spec.scale_target_ref.kind == "DaemonSet":
        warnings.append(
            "spec.scaleTargetRef.kind: a DaemonSet cannot be scaled, it has no scale subresource"
        )
    return warnings


def _unserved(hpa: HPA, profile: Profile) -> list[str]:
    """Return a warning for each API version that the release no longer serves."""
    target = hpa.spec.scale_target_ref
    never = "the HPA fails with FailedGetScale and never acts; use apps/v1"
    stated = (
        ("", hpa.api_version, KIND, "the server refuses it; use autoscaling/v2"),
        ("spec.scaleTargetRef.", target.api_version, target.kind, never),
    )
    return [
        f"{path}apiVersion: {version} of {kind} is not served since Kubernetes 1.{since}: {why}"
        for path, version, kind, why in stated
        if (since := _UNSERVED_SINCE.get((version, kind))) is not None and profile.minor >= since
    ]


def stored_spec(hpa: HPA, profile: Profile) -> HPASpec:
    """Return the spec that an API server makes of a document."""
    return as_stored(default_hpa(drop_disabled_fields(hpa, profile)).spec, profile)
