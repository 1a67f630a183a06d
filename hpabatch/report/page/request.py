"""Options of the page."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.errors import UsageError
from hpabatch.model.options import option


@dataclass(frozen=True, kw_only=True)
class ReportRequest(ReplayRequest):
    """A page on a history: verdict, findings, fleet, timelines."""

    why: bool = field(default=False, init=False)  # (no option: a page has no columns)
    advice: str | None = option(
        "path",
        "Folder that `hpabatch advise` wrote: what to change, and what that saves.",
        metavar="FOLDER",
    )
    plan: str | None = option(
        "path", "Folder that `hpabatch plan --out` wrote: a capacity plan.", metavar="FOLDER"
    )
    compare: str | None = option(
        "path", "Earlier report.json: the page says what is new, fixed, worse.", metavar="FILE"
    )
    redact: bool = option(
        "flag", "Replace names by others, and leave out what may hold some.", False
    )

    def check(self) -> None:
        """Refuse a comparison of names that are replaced (UsageError)."""
        super().check()
        if self.redact and self.compare is not None:
            raise UsageError("--compare needs the names that --redact replaces: give one of them")
