"""Place of the traces, which are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "HPABATCH_TRACES"


def traces_folder() -> Path:
    """Return the folder that the environment names.

    Raises:
        SystemExit: it names none.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise SystemExit(f"set {VARIABLE} to the folder of the traces")
    return Path(folder)
