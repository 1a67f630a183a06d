"""Options of `live --apply`: scaled HPAs, limits of a pass, lease."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from hpabatch.errors import UsageError
from hpabatch.model.options import Request, option

MIN_LEASE_MS, MAX_LEASE_MS = 6_000, 60_000
_SPELLED: Final = {"lease_ms": "lease"}


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(Request):
    """Writes to the cluster; without `apply` there are none."""

    apply: bool = option("flag", "Scale the targets. Without it nothing is ever written.", False)
    manifests: tuple[str, ...] = option(
        "paths",
        "HPA documents to act on instead of the cluster's HPAs: a file or folder; may be repeated.",
        (),
        metavar="PATH",
    )
    take_over: bool = option(
        "flag",
        "Act on the HPAs of the cluster, whose built-in controller is switched off.",
        False,
    )
    dry_run: bool = option(
        "flag", "Let the API server check every write of a size, and store none.", False
    )
    own_namespace: str | None = option(
        "text",
        "Namespace of the lease, the kill switch, the probe HPA and the reports.",
        metavar="NAME",
        unset="the context's, in a pod its own",
    )
    apply_log: str | None = option(
        "path",
        "File that gets a line before every write of a size, and one after it.",
        metavar="FILE",
        unset="in the user's state folder",
    )
    most_replicas: int = option(
        "number", "Replicas that a pass adds and removes, at most.", 1000, metavar="N", minimum=1
    )
    most_removed: int = option(
        "number",
        "Share of a target's replicas, in percent, that is removed within ten minutes, at most; "
        "rounded up.",
        50,
        metavar="PERCENT",
        minimum=1,
        maximum=100,
    )
    most_removed_fleet: int = option(
        "number",
        "Share of the replicas of all targets together, in percent, that is removed within ten "
        "minutes, at most; never less than --most-removed allows for one target.",
        25,
        metavar="PERCENT",
        minimum=1,
        maximum=100,
    )
    write_rate: int = option(
        "number",
        "Requests for sizes a second, at most; as many for statuses and events.",
        50,
        metavar="N",
        minimum=1,
        maximum=10000,
    )
    lease_ms: int = option(
        "duration",
        "Time without renewal after which another instance takes over; the same for all instances.",
        15_000,
        metavar="TIME",
        minimum=MIN_LEASE_MS,
        maximum=MAX_LEASE_MS,
    )

    def check_apply(self) -> None:
        """Refuse options that exclude or need each other (UsageError)."""
        if not self.apply:
            given = self._given()
            if given:
                raise UsageError(f"{', '.join(given)}: give --apply, too, or leave that out")
            return
        if bool(self.manifests) == self.take_over:
            raise UsageError(
                "--apply needs either --manifests (own HPA documents, whose targets no HPA of the "
                "cluster names) or --take-over (the cluster's HPAs, with its own controller "
                "switched off): give one of them"
            )
        if self.lease_ms % 1000:
            raise UsageError(
                f"--lease: expected whole seconds, as a Lease has them, got {self.lease_ms / 1000}s"
            )

    def _given(self) -> list[str]:
        """Return the options that differ from their defaults, as the command line names them."""
        return [
            f"--{_SPELLED.get(one.name, one.name.replace('_', '-'))}"
            for one in fields(ApplyOptions)
            if one.name != "apply" and getattr(self, one.name) != one.default
        ]
