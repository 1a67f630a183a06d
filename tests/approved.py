"""Approved outputs: what people read, kept as files whose changes are reviewed as a diff."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).with_name("approved")


def hold_approved(name: str, text: str) -> None:
    """Hold that a text is the approved one; HPABATCH_APPROVE=1 approves it (then read the diff)."""
    path = _FOLDER / f"{name}.txt"
    if os.environ.get("HPABATCH_APPROVE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path} is not what is shown: HPABATCH_APPROVE=1 renews it"
