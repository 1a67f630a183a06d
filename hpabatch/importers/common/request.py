"""Options of all imports."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.errors import UsageError
from hpabatch.model.options import Request, option


@dataclass(frozen=True, kw_only=True)
class Destination(Request):
    """Where an import writes, if it does."""

    out: str | None = option(
        "path",
        "Store that gets the rows: a folder or URL, made where there is none.",
        metavar="HISTORY",
    )
    dry_run: bool = option("flag", "Write nothing; show what would be done.", False)
    replace: bool = option(
        "flag",
        "Replace what the store has of the same workloads and time; refused without.",
        False,
    )
    work: str | None = option(
        "path",
        "Folder for intermediate files.",
        metavar="FOLDER",
        unset="beside --out; of an object store: in TMPDIR",
    )

    def check(self) -> None:
        """Refuse a dry run that writes, and an import to nowhere (UsageError)."""
        super().check()
        if self.dry_run == (self.out is not None):
            given = "both" if self.dry_run else "neither"
            raise UsageError(
                f"--out and --dry-run: expected one of them, got {given}; name the store that gets "
                "the rows with --out, or only look with --dry-run"
            )
