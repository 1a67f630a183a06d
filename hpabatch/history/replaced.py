"""Files that a command may replace: those of the kind that it writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular

_ENDS: Final = 8192
_KINDS: Final = {
    "parquet": ("Parquet file", b"PAR1"),
    "html": ("page of `hpabatch report`", b"<title>HPAs of "),
    "json": ("JSON of `hpabatch report`", b'"kind": "hpabatch report"'),
    "markdown": ("Markdown of `hpabatch report`", b"made by: hpabatch report"),
    "sums": ("CSV of `hpabatch plan`", b"growth,scope,"),
}
"""Name and mark of each kind that has one; a mark is near the beginning or the end of a file."""


def check_replaced(path: Path | str, kind: str, option: str = "") -> None:
    """Refuse to replace a file of another kind, such as a table that was meant to be read.

    An empty file is of any kind, and of a kind without a mark every file is.

    Raises:
        UsageError: the file and what to do.
    """
    if kind not in _KINDS or not os.path.isfile(path):
        return
    name, mark = _KINDS[kind]
    named = f"{option} {path}".lstrip()
    try:
        with open_regular(path) as file:
            begin = file.read(_ENDS)
            file.seek(max(os.fstat(file.fileno()).st_size - _ENDS, 0))
            end = file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{named} cannot be replaced: {reason}; name another file") from None
    if begin and mark not in begin and mark not in end:
        raise UsageError(
            f"{named} is there already and is no {name}; name another file, or remove it"
        )
