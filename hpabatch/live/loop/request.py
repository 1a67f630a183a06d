"""Options of a live loop: cluster, period, log, record."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hpabatch.engine.fleet.request import Rules
from hpabatch.errors import UsageError
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.model.options import REQUIRED, Request, option

MIN_PERIOD_MS = 100


@dataclass(frozen=True, kw_only=True)
class ClusterLogin(Request):
    """The cluster, and how to reach it."""

    kubeconfig: str | None = option(
        "path", "Kubeconfig file.", metavar="FILE", unset="$KUBECONFIG, else ~/.kube/config"
    )
    context: str | None = option(
        "text", "Context of the kubeconfig.", metavar="NAME", unset="its current context"
    )
    in_cluster: bool = option(
        "flag", "Log in with the service account of the pod that hpabatch runs in.", False
    )
    cluster: str | None = option(
        "text",
        "Name of the cluster in the output.",
        metavar="NAME",
        unset="its name in the context",
    )
    namespace: tuple[str, ...] = option(
        "texts", "Only HPAs of this namespace; may be repeated.", (), metavar="NAME", short="-n"
    )


@dataclass(frozen=True, kw_only=True)
class WatchRequest(ClusterLogin, Rules):
    """Passes over a cluster, one after the other."""

    every_ms: int | None = option(
        "duration",
        "Time between two passes.",
        metavar="TIME",
        minimum=MIN_PERIOD_MS,
        unset="the sync period, 15s",
    )
    k8s: str | None = option(
        "text",
        "Kubernetes version whose rules apply.",
        metavar="VERSION",
        unset="that of the API server",
    )
    flag: tuple[str, ...] = option(
        "texts",
        "Flag of the cluster's controller, such as tolerance=0.2 or downscale-stabilization=2m; "
        "may be repeated.",
        (),
        metavar="NAME=VALUE",
        unset="those of Kubernetes",
    )
    segment_ms: int = option(
        "duration",
        "Time after which recorded rows are written; a kill loses the rows since then.",
        300_000,
        metavar="TIME",
        minimum=1000,
    )
    metrics_addr: str | None = option(
        "text", "Address that serves /metrics, /healthz and /readyz.", metavar="[HOST]:PORT"
    )
    log_format: str = option("choice", "Form of the lines.", "text", values=("text", "json"))
    fetch_budget_ms: int = option(
        "duration",
        "Time for all requests for metrics of a pass.",
        10_000,
        metavar="TIME",
        minimum=100,
    )
    fetch_at_once: int = option(
        "number", "Requests for metrics at once, at most.", 8, metavar="N", minimum=1, maximum=64
    )


@dataclass(frozen=True, kw_only=True)
class LiveRequest(WatchRequest, ApplyOptions):
    """Decisions beside those of the cluster's own controller."""

    once: bool = option("flag", "Make one pass, and print it like `kubectl get hpa`.", False)
    record: str | None = option(
        "path", "Store that gets what is seen: a folder or URL.", metavar="HISTORY"
    )
    state: str | None = option(
        "path",
        "File that keeps the controller memory.",
        metavar="FILE",
        unset="in the user's state folder",
    )
    stateless: bool = option("flag", "Forget the controller memory at every start.", False)

    def check(self) -> None:
        """Refuse options that exclude each other (UsageError)."""
        super().check()
        if self.once and (self.record is not None or self.metrics_addr is not None):
            raise UsageError(
                "--once excludes --record and --metrics-addr: one pass is only printed"
            )
        self.check_apply()
        if self.apply and (self.once or self.record is not None):
            raise UsageError(
                "--apply excludes --once and --record: one pass is only printed; to record, run "
                "`hpabatch record` beside it"
            )
        if self.stateless and self.state is not None:
            raise UsageError("--stateless excludes --state: give one of them")


@dataclass(frozen=True, kw_only=True)
class RecordRequest(WatchRequest):
    """A recording of what HPAs, their pods and metrics do."""

    out: str = option(
        "path",
        "Store that gets what is seen: a folder or URL, made where there is none.",
        REQUIRED,
        metavar="HISTORY",
    )

    def as_live(self) -> LiveRequest:
        """Return the loop that records."""
        shared = {one.name: getattr(self, one.name) for one in fields(WatchRequest)}
        return LiveRequest(**shared, record=self.out, stateless=True)
