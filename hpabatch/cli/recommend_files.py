"""Files of `hpabatch recommend`: a folder that is whole or not there, and edited manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from hpabatch._json import decode_json
from hpabatch.engine.advise.run import Recommendation, edited_since, withhold_edited
from hpabatch.engine.advise.specs import profile_of
from hpabatch.engine.advise.unit import Key
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNREADABLE, RefusedError, UsageError
from hpabatch.history.files import atomic_folder, read_regular, read_small
from hpabatch.inputs.manifest_edit import OtherSpecError, edit_manifest
from hpabatch.inputs.manifests import ManifestEntry, load_manifests
from hpabatch.report.recommend import Advice
from hpabatch.report.recommend_files import INDEX, MANIFESTS, index_file, recommendation_files

_BOM = "\ufeff"
A = TypeVar("A", bound=Advice)


def check_folder(folder: Path) -> None:
    """Refuse a place that holds anything else than earlier recommendations.

    Raises:
        UsageError: what is there, and what to do.
    """
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise UsageError(f"--patches {folder} is a file; name a folder")
        foreign = _foreign(folder)
    except OSError as error:
        raise UsageError(f"--patches {folder}: {error.strerror}; name another folder") from error
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise UsageError(
            f"--patches {folder} holds {foreign[0]}{more}, which is no earlier recommendation: "
            "name a new or empty folder"
        )


def _foreign(folder: Path) -> list[str]:
    """Return the files of a folder that no earlier run says it wrote."""
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
    return sorted(there - {INDEX} - _listed(folder / INDEX))


class _Index(msgspec.Struct):
    files: list[str]


def _listed(index: Path) -> set[str]:
    """Return the files that an earlier run says it wrote."""
    if not index.is_file():
        return set()
    try:
        return set(decode_json(read_small(index), _Index).files)
    except ValueError:
        return set()


def write_files(
    advice: A, patches: str, review: Path | None = None, hpas: Sequence[str] = ()
) -> tuple[A, int]:
    """Write patches, certificates and edited copies; return what is told, and the exit code.

    Patches of medium confidence that are not written go to `review`. `hpas` are the manifests.

    Raises:
        UsageError: a place cannot be written.
    """
    told = [*_told_withheld(advice.found.items)]
    edited = edit_files(advice, hpas) if hpas else _Edited()
    for item in advice.found.items:
        if item.was_edited:
            edited.warn(f"{'/'.join(item.key[1:])}: {item.withheld}: no patch", EXIT_REFUSED)
    advice = replace(advice, found=withhold_edited(advice.found, edited.others))
    written = list(advice.written)
    texts, reviewed = recommendation_files(advice.found, Path(patches).name)
    files = {name: text.encode() for name, text in texts.items()}
    copies = zip(_copies(edited, hpas), edited.texts.values(), strict=True)
    files |= {f"{MANIFESTS}/{name}": text for name, text in copies}
    files[INDEX] = index_file(advice.found, list(files)).encode()
    _write_folder(Path(patches), files)
    changes = advice.found.written()
    withheld = sum(item.withheld != "" for item in changes)
    counts = {"patches": len(changes) - withheld, "certificates": len(advice.found.items)}
    counts |= {"changes without a patch": withheld} if withheld else {}
    counts |= {"manifests": len(edited.texts)} if hpas else {}
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    written.append(f"written to {patches}: {listed}")
    if review is not None:
        files = {name: text.encode() for name, text in reviewed.items()}
        files[INDEX] = index_file(advice.found, list(files)).encode()
        _write_folder(review, files)
        written += [f"written to {review}: patches {len(reviewed)}"] if reviewed else []
    warnings = (*advice.warnings, *told, *edited.warnings)
    return replace(advice, written=written, warnings=warnings), edited.code


def _told_withheld(items: Sequence[Recommendation]) -> Iterator[str]:
    """Yield a sentence on the changes of HPAs that something else writes."""
    owned = [item for item in items if item.withheld and not item.was_edited]
    if owned:
        more = f" (and {len(owned) - 1} more)" if len(owned) > 1 else ""
        yield f"no patch of {'/'.join(owned[0].key[1:])}{more}: {owned[0].withheld}"


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    # What a link points to is replaced, and `a/../b` needs no `a`.
    with atomic_folder(folder.resolve(), lambda old: not _foreign(old)) as new:
        for name, text in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_bytes(text)


# ---- manifests ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Edited:
    """The new bytes of files, by path; what could not be edited, and the exit code of that.

    `others` are the HPAs whose manifest has another spec than the judged one, and how.
    """

    texts: dict[Path, bytes] = field(default_factory=dict)
    trees: dict[Path, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    others: dict[Key, str] = field(default_factory=dict)
    code: int = EXIT_OK

    def warn(self, text: str, code: int) -> None:
        """Note what could not be done; an unreadable file wins over a refused edit."""
        self.warnings.append(text)
        self.code = EXIT_UNREADABLE if EXIT_UNREADABLE in (code, self.code) else code


def edit_files(advice: Advice, paths: Sequence[str]) -> _Edited:
    """Return the files of manifests with all changes in them; nothing is written."""
    if "-" in paths:
        raise UsageError("--hpas -: only files can be edited; name them")
    edited = _Edited()
    entries = load_manifests(paths).entries
    for entry in entries:
        if entry.error is not None:
            edited.warn(f"{entry.place}: {entry.error}", EXIT_UNREADABLE)
    for item in advice.found.written():
        in_manifest = item.source is None or item.source.as_manifest
        if in_manifest and not item.was_edited:
            _edit(item, advice, list(_entries_of(item, entries)), edited)
    return edited


def _entries_of(item: Recommendation, entries: Sequence[ManifestEntry]) -> Iterator[ManifestEntry]:
    _, namespace, name = item.key
    for entry in entries:
        hpa = entry.hpa
        if hpa is not None and hpa.name == name and hpa.namespace in ("", namespace):
            yield entry


def _edit(
    item: Recommendation, advice: Advice, entries: Sequence[ManifestEntry], edited: _Edited
) -> None:
    """Edit the one manifest of an HPA, on top of what was edited in its file before."""
    _, namespace, name = item.key
    named = [e for e in entries if e.hpa is not None and e.hpa.namespace] or list(entries)
    if len(named) != 1:
        places = ", ".join(entry.place for entry in named)
        how = f"has {len(named)} manifests ({places})" if named else "has no manifest there"
        edited.warn(f"{namespace}/{name} {how}: not edited", EXIT_REFUSED)
        return
    path = Path(named[0].source)
    specs = advice.found.specs
    assert item.wanted is not None
    try:
        data = edited.texts.get(path) or read_regular(path)
        text = data.decode("utf-8")
        mark = _BOM if text.startswith(_BOM) else ""
        after = edit_manifest(
            text.removeprefix(_BOM),
            namespace,
            name,
            specs.today(item.key),
            item.wanted,
            profile_of(advice.found.result),
        )
    except UnicodeDecodeError:
        edited.warn(f"{path}: not UTF-8 text: not edited", EXIT_REFUSED)
    except OSError as error:
        edited.warn(f"{path}: cannot be read: {error.strerror}", EXIT_UNREADABLE)
    except OtherSpecError as error:
        edited.others[item.key] = edited_since(error.differences)
        edited.warn(f"{path}: {error}", EXIT_REFUSED)
    except RefusedError as error:
        edited.warn(f"{path}: {error}", EXIT_REFUSED)
    else:
        edited.texts[path] = (mark + after).encode()
        edited.trees[path] = named[0].tree


def _copies(edited: _Edited, hpas: Sequence[str]) -> Iterator[str]:
    """Yield the names of edited copies: as below the folder that was given, each one once."""
    several = len(hpas) > 1
    for path in edited.texts:
        tree = Path(edited.trees[path])
        inside = path.relative_to(tree) if tree.is_dir() else Path(path.name)
        number = list(hpas).index(edited.trees[path]) + 1
        named = f"{number}-{tree.resolve().name}" if tree.is_dir() else str(number)
        folder = f"{named}/" if several else ""
        yield f"{folder}{inside.as_posix()}"
