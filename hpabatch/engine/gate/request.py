"""Options of a gate."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fit.request import PlantFiles
from hpabatch.engine.fleet.request import Rules, Syncs
from hpabatch.engine.simulate.request import Prices
from hpabatch.errors import UsageError
from hpabatch.model.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class GateRequest(PlantFiles, Prices, Syncs, Rules):
    """A comparison of two sets of manifests that fails beyond limits."""

    base: tuple[str, ...] = option(
        "paths",
        "Manifests as they are: a file, a folder, or - for stdin; may be repeated.",
        REQUIRED,
        metavar="PATH",
    )
    head: tuple[str, ...] = option(
        "paths",
        "Manifests as they are to be: a file, a folder, or - for stdin; may be repeated.",
        REQUIRED,
        metavar="PATH",
    )
    history: str | None = option(
        "path",
        "History on whose workloads both sets are simulated.",
        metavar="HISTORY",
        unset="none: findings and settings only",
    )
    fail_on: tuple[str, ...] = option(
        "texts",
        "Limit of any HPA, such as 'saturated_minutes>+10' or 'total:cost>+5%'; may be repeated.",
        (),
        metavar="LIMIT",
    )
    allow_unknown: bool = option(
        "flag", "Let HPAs pass of which nothing trustworthy can be said.", False
    )
    allow_empty: bool = option("flag", "Let base or head have no HPA.", False)
    seed: int = option("number", "Seed of all random draws.", 0, metavar="N", minimum=0)

    def check(self) -> None:
        """Refuse limits that are none, and what only a simulation uses (UsageError)."""
        from hpabatch.engine.gate.limits import parse_limit  # (loads polars)

        super().check()
        limits = [parse_limit(text) for text in self.fail_on]
        if [*self.base, *self.head].count("-") > 1:
            raise UsageError("--base - and --head -: expected one of them from stdin, got both")
        costs = [limit.text for limit in limits if limit.measure == "cost"]
        if costs and self.history is not None and self.prices is None:
            raise UsageError(f"{costs[0]}: without prices nothing costs; give --prices")
        if self.history is None:
            needed = [limit.text for limit in limits if not limit.is_of_findings]
            needed += [f"--{name}" for name in ("plant", "prices") if getattr(self, name)]
            if needed:
                raise UsageError(f"{needed[0]}: without a history nothing is simulated; give "
                                 "--history, or leave it out")  # fmt: skip
