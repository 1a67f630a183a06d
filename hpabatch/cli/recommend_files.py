"""Files of `hpabatch recommend`: a folder that is whole or not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from hpabatch._json import decode_json
from hpabatch.engine.advise.run import Recommendation
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.history.files import atomic_folder, read_small
from hpabatch.report.recommend import Advice
from hpabatch.report.recommend_files import INDEX, index_file, recommendation_files

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


def write_files(advice: A, patches: str, review: Path | None = None) -> tuple[A, int]:
    """Write patches and certificates; return what is told, and the exit code.

    Patches of medium confidence that are not written go to `review`.

    Raises:
        UsageError: a place cannot be written.
    """
    told = [*_told_withheld(advice.found.items)]
    code, written = EXIT_OK, list(advice.written)
    for item in advice.found.items:
        if item.was_edited:
            told.append(f"{'/'.join(item.key[1:])}: {item.withheld}: no patch")
            code = EXIT_REFUSED
    texts, reviewed = recommendation_files(advice.found, Path(patches).name)
    files = {name: text.encode() for name, text in texts.items()}
    files[INDEX] = index_file(advice.found, list(files)).encode()
    _write_folder(Path(patches), files)
    changes = advice.found.written()
    withheld = sum(item.withheld != "" for item in changes)
    counts = {"patches": len(changes) - withheld, "certificates": len(advice.found.items)}
    counts |= {"changes without a patch": withheld} if withheld else {}
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    written.append(f"written to {patches}: {listed}")
    if review is not None:
        files = {name: text.encode() for name, text in reviewed.items()}
        files[INDEX] = index_file(advice.found, list(files)).encode()
        _write_folder(review, files)
        written += [f"written to {review}: patches {len(reviewed)}"] if reviewed else []
    return replace(advice, written=written, warnings=(*advice.warnings, *told)), code


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
