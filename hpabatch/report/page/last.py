"""Documents of earlier pages: one is shown again, or compared with: what is new, fixed, worse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import UndefinedError

from hpabatch._json import decode_json
from hpabatch.errors import UsageError
from hpabatch.report.page.document import FORMAT, KIND, shown
from hpabatch.report.page.html import page_of

MOST_BYTES: Final = 256 * 2**20
WORSE: Final = 2.0
"""Points of a finding's score (of 100) from which on it is worse than before."""
_RANKS: Final = ("low", "medium", "high")


def read_document(path: str, name: str) -> dict[str, Any]:
    """Return the document of a page (UsageError: the file holds none); `name`: of the option."""
    wanted = f"{name}{path}: expected a report.json of `hpabatch report --format json`"
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise UsageError(f"{wanted}, got a larger file; name another")
        told = shown(decode_json(Path(path).read_bytes(), dict[str, Any], MOST_BYTES))
        if (told.get("kind"), told.get("format")) != (KIND, FORMAT):
            raise UsageError(f"{wanted} of this version, got something else; name another")
        page_of(told)
        if not told["redacted"]:
            compared(told, told)
    except OSError as error:
        raise UsageError(f"{wanted}: {error.strerror}; name another") from None
    except (ValueError, KeyError, TypeError, AttributeError, UndefinedError):
        raise UsageError(f"{wanted}, got a damaged one; make it again") from None
    return told  # type: ignore[no-any-return]


def compared(told: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is new, fixed and worse in a document, by HPA and finding.

    A finding is fixed where its HPA is still there and was judged; one that is ignored is not.

    Raises:
        UsageError: names of one of them were replaced, so HPAs cannot be told apart.
    """
    if told["redacted"] or last["redacted"]:
        raise UsageError("--compare: names are replaced in one of the pages; compare those before")
    now, before = (
        {(*item["key"], item["finding"]): item for item in one["findings"]} for one in (told, last)
    )
    hidden = {(*item["key"], item["finding"]) for item in told.get("ignored", ())}
    judged = {tuple(h["key"]) for h in told["hpas"] if h["undecided_share"] not in (None, 1)}
    there, were = ({tuple(h["key"]): h["hpa"] for h in one["hpas"]} for one in (told, last))
    both = [(item, before[key]) for key, item in now.items() if key in before]
    amounts = {item["name"]: item for item in last["amounts"]}
    return {
        "span": last["span"],
        "amounts": [
            {"name": item["name"], "was": amounts[item["name"]]["now"], "now": item["now"]}
            for item in told["amounts"]
            if item["name"] in amounts
        ],
        "new": [item for key, item in now.items() if key not in before],
        "worse": [item | {"was": old["why"]} for item, old in both if _is_worse(item, old)],
        "ignored": [item for key, item in before.items() if key in hidden],
        "fixed": [
            item
            for key, item in before.items()
            if key not in now and key not in hidden and key[:3] in judged
        ],
        "came": [hpa for key, hpa in there.items() if key not in were],
        "gone": [hpa for key, hpa in were.items() if key not in there],
    }


def _is_worse(item: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    rank, other = (_RANKS.index(one["severity"]) for one in (item, old))
    return rank > other or (item["score"] or 0.0) >= (old["score"] or 0.0) + WORSE
