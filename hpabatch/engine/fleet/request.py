"""Options that use cases share: which HPAs, which rules, when syncs come, how samples arrive."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.inputs.request import Gates
from hpabatch.model.options import Request, option
from hpabatch.model.versions import DEFAULT_K8S

MIN_SYNC_PERIOD_MS = 1000
NO_LENS = "none"
AUTO_LENS = "auto"
RATIO_LENS = "ratio"


@dataclass(frozen=True, kw_only=True)
class ChosenHpas(Request):
    """Which HPAs of a history are meant; all without any of these."""

    names: tuple[str, ...] = option(
        "texts",
        "Only these HPAs; with CLUSTER/ in front where several clusters have one of that name.",
        (),
        metavar="[NAMESPACE/]HPA…",
        positional=True,
    )
    namespace: tuple[str, ...] = option(
        "texts",
        "Only HPAs of this namespace; may be repeated.",
        (),
        metavar="NAME",
        short="-n",
    )
    where: str | None = option(
        "text",
        "Only HPAs for which this condition is true (docs/expressions.md).",
        metavar="CONDITION",
    )


@dataclass(frozen=True, kw_only=True)
class GivenHpas(Request):
    """HPAs of manifests in place of the recorded ones."""

    hpas: tuple[str, ...] = option(
        "paths",
        "Manifests (files or folders) instead of the recorded HPAs; may be repeated.",
        (),
        metavar="PATH",
    )


@dataclass(frozen=True, kw_only=True)
class StatedRequests(Request):
    """Requests of containers in place of the recorded ones."""

    requests: tuple[str, ...] = option(
        "texts",
        "Requests in place of the recorded ones, such as web=250m or "
        "shop/web/app=cpu=250m,memory=512Mi; may be repeated.",
        (),
        metavar="[NAMESPACE/]WORKLOAD[/CONTAINER]=QUANTITY",
    )


@dataclass(frozen=True, kw_only=True)
class Rules(Gates):
    """Which version's rules decide."""

    k8s: str | None = option(
        "text",
        "Kubernetes version whose rules apply.",
        metavar="VERSION",
        unset=f"as recorded, else {DEFAULT_K8S}",
    )


@dataclass(frozen=True, kw_only=True)
class Syncs(Request):
    """When the controller decides, and its other flags."""

    sync_period_ms: int | None = option(
        "duration",
        "Time between two syncs.",
        metavar="TIME",
        minimum=MIN_SYNC_PERIOD_MS,
        unset="as recorded, else 15s",
    )
    phase_ms: int | None = option(
        "duration",
        "Time by which syncs come after full sync periods.",
        metavar="TIME",
        unset="estimated from what was recorded, else 0s",
    )
    tolerance: float | None = option(
        "real",
        "Tolerance of the controller, for HPAs without one.",
        metavar="SHARE",
        minimum=0,
        unset="as recorded, else 0.1",
    )
    cpu_initialization_period_ms: int | None = option(
        "duration",
        "Time after a pod's start in which its cpu may be left out.",
        metavar="TIME",
        unset="as recorded, else 5m",
    )
    initial_readiness_delay_ms: int | None = option(
        "duration",
        "Time after a pod's start in which it counts as not yet Ready when its readiness changes.",
        metavar="TIME",
        unset="as recorded, else 30s",
    )
    downscale_stabilization_ms: int | None = option(
        "duration",
        "Stabilization window of the controller, for HPAs without one.",
        metavar="TIME",
        unset="as recorded, else 5m",
    )


@dataclass(frozen=True, kw_only=True)
class Pipeline(Request):
    """How long samples take until the controller sees them, and how long they count."""

    delay_ms: int | None = option(
        "duration",
        "Time from a sample until it is visible, where its fetch was not recorded.",
        metavar="TIME",
        unset="0s",
    )
    max_age_ms: int | None = option(
        "duration",
        "Time that a sample counts without a newer one.",
        metavar="TIME",
        minimum=1,
        unset="estimated from the samples; none where a recorder says until when each counted",
    )


@dataclass(frozen=True, kw_only=True)
class Lensed(Request):
    """What lies between recorded samples and those that the controller saw."""

    lens: str = option(
        "path",
        "How the controller saw recorded samples: none (as they are), auto (lag, smoothing and "
        "scale are estimated), ratio (the same; where targets are alike, usage is multiplied by "
        "the ratio of scale to targets, even if few HPAs show it), or a lens file "
        "(docs/fidelity.md).",
        NO_LENS,
        metavar="none|auto|ratio|FILE",
    )


def lens_file(request: Lensed) -> str | None:
    """Return the lens file that a request names, None without one."""
    return None if request.lens in (NO_LENS, AUTO_LENS, RATIO_LENS) else request.lens


@dataclass(frozen=True, kw_only=True)
class Budgets(Request):
    """Which size changes count."""

    events: str = option(
        "choice",
        "Size changes that spend the budgets of scaling policies.",
        "recorded",
        values=("recorded", "decided"),
    )


@dataclass(frozen=True, kw_only=True)
class Instants(Request):
    """At which points of time decisions are made."""

    instants: str = option(
        "choice",
        "Decide at every sync (grid), when the controller was recorded to (recorded), or at the "
        "passes of the live loop that recorded the history (passes).",
        "grid",
        values=("grid", "recorded", "passes"),
    )


@dataclass(frozen=True, kw_only=True)
class UntilThen(Request):
    """Up to which time there are decisions."""

    at: str | None = option(
        "time",
        "Time: RFC 3339, '2026-10-07 14:03' (UTC), 14:03, 'yesterday 14:03', or -2h (before the "
        "history's end).",
        metavar="TIME",
        unset="the last sync",
    )
