"""Publishing of a replay's decisions: one Parquet file, or a folder of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from hpabatch._json import decode_json
from hpabatch.history.files import atomic_folder, atomic_path, read_small
from hpabatch.history.replaced import check_replaced
from hpabatch.jobs.folder import PUBLISHED, JobFolder
from hpabatch.jobs.parquet import EVIDENCE_KEY, evidence_metadata

EVIDENCE_FILE: Final = "evidence.json"


@dataclass(frozen=True, slots=True)
class Destination:
    """A file, or a folder of parts."""

    path: Path
    is_folder: bool = False

    @property
    def real_path(self) -> Path:
        """The path without links on the way; a link that stands there is replaced, not followed."""
        named = self.path.name not in ("", "..")
        parent = Path(os.path.realpath(self.path.parent if named else self.path))
        return parent / self.path.name if named else parent

    @property
    def job_path(self) -> Path:
        """The job folder, beside it."""
        return self.real_path.with_name(f".{self.real_path.name}.job")


class _Evidence(msgspec.Struct):
    parts: list[str]
    evidence: dict[str, str] = msgspec.field(name=EVIDENCE_KEY)


def is_result_folder(path: Path) -> bool:
    """Say whether a folder holds nothing but the parts of a replay."""
    try:
        if not any(path.iterdir()):
            return True
        parts = decode_json(read_small(path / EVIDENCE_FILE), _Evidence).parts
        return {p.name for p in path.iterdir()} <= {EVIDENCE_FILE, *parts}
    except (OSError, ValueError):
        return False


def publish(
    destination: Destination, folder: JobFolder, parts: Iterable[Path], evidence: Mapping[str, str]
) -> None:
    """Put the decisions of all shards to their place; what was there before stays until then.

    They are put together in the job folder, flushed to disk and then renamed.

    Raises:
        UsageError: the place cannot be written.
    """
    final, temporary = destination.real_path, folder.path / PUBLISHED
    if destination.is_folder:
        with atomic_folder(final, is_result_folder, temporary) as new:
            names = []
            for k, part in enumerate(parts):
                names.append(f"part-{k:05}.parquet")
                _link(part, new / names[-1])
            text = {EVIDENCE_KEY: dict(evidence), "parts": names}
            (new / EVIDENCE_FILE).write_text(json.dumps(text, indent=1, sort_keys=True))
    else:
        from hpabatch.jobs.joining import join_parquet

        check_replaced(final, "parquet")
        with atomic_path(final, temporary) as new:
            join_parquet(parts, evidence_metadata(evidence), new)


def _link(source: Path, target: Path) -> None:
    """Give a file a second name; where a file system cannot, copy it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
