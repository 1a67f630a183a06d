"""Options of an import of tables."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.errors import UsageError
from hpabatch.importers.common.request import Destination
from hpabatch.model.options import REQUIRED, option
from hpabatch.model.times import parse_date_ms


@dataclass(frozen=True, kw_only=True)
class TableRequest(Destination):
    """An import of any tidy CSV or Parquet."""

    inputs: tuple[str, ...] = option(
        "paths", "Files, folders or patterns.", REQUIRED, metavar="INPUT…", positional=True
    )
    map: str | None = option(
        "path", "Map file: meaning and units of the columns (YAML).", metavar="FILE"
    )
    init: bool = option(
        "flag", "Propose a map from the inputs: into the new file --map, else on stdout.", False
    )
    objects: tuple[str, ...] = option(
        "paths",
        "Objects of the cluster, as kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml prints "
        "them; may be repeated.",
        (),
        metavar="FILE",
    )
    start: str | None = option(
        "time",
        "Time at which a column of relative times (seconds, minutes) was 0, such as "
        "2026-10-07T12:00:00Z; it counts instead of the map's columns.time.start.",
        metavar="TIME",
        unset="as in the map",
    )
    dry_run: bool = option("flag", "Write nothing; show what would be done.", False)

    @property
    def start_ms(self) -> int | None:
        """When relative times were 0, in ms since 1970 (UsageError: it is no date and time)."""
        if self.start is None:
            return None
        try:
            return parse_date_ms(self.start)
        except ValueError as error:
            raise UsageError(f"--start: {error}") from None

    def check(self) -> None:
        """Refuse an import without a map or a place, and a proposal that imports (UsageError)."""
        if self.init:
            if self.out is not None or self.dry_run:
                given = "--out" if self.out is not None else "--dry-run"
                raise UsageError(
                    f"--init and {given}: expected one of them, got both; propose the map first "
                    "and import with it then"
                )
            return
        super().check()
        if self.dry_run == (self.out is not None):
            given = "both" if self.dry_run else "neither"
            raise UsageError(
                f"--out and --dry-run: expected one of them, got {given}; name the store that gets "
                "the rows with --out, or only look with --dry-run"
            )
        if self.map is None:
            raise UsageError(
                "--map: expected a map file, got none; `hpabatch import table INPUT --init` "
                "proposes one"
            )
