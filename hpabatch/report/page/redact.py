"""Names replaced by others, the same one everywhere: `shop/checkout` becomes `ns3/hpa12`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hpabatch.model.printable import printable

_KEPT: Final = {
    *("finding", "severity", "group", "grade", "answer", "confidence", "kind", "rules"),
    *("timelines", "moment_fields", "target_kind", "minimize", "currency", "name", "unit"),
}
"""Keys whose values are words of ours."""


def redacted(document: Mapping[str, Any], names: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the document with other names; `names` has those to replace by kind.

    A name is replaced wherever it stands between characters that are no letters or digits, so also
    at the begin of a pod's name. That replaces a word of a sentence that is a name, too.
    """
    new: dict[str, str] = {}
    for kind, some in names.items():
        for number, name in enumerate(sorted(set(some)), start=1):
            for spelled in (name, printable(name)):
                if spelled:
                    new.setdefault(spelled, f"{kind}{number}")
    if not new:
        return dict(document)
    longest = sorted(new, key=lambda name: (-len(name), name))
    pattern = re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")

    def replaced(value: Any, key: str = "") -> Any:
        match value:
            case str():
                return pattern.sub(lambda found: new[found[0]], value)
            case dict():
                return {k: v if k in _KEPT else replaced(v, k) for k, v in value.items()}
            case list():
                return [replaced(part) for part in value]
        return value

    return replaced(document)  # type: ignore[no-any-return]
