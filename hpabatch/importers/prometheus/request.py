"""Options of an import from Prometheus."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hpabatch.errors import UsageError
from hpabatch.importers.common.request import Destination
from hpabatch.model.options import REQUIRED, Request, option
from hpabatch.model.times import parse_time_ms

DEFAULT_CLUSTER = "default"
TOKEN_VARIABLE = "HPABATCH_PROMETHEUS_TOKEN"  # noqa: S105 - a name, no token
PASSWORD_VARIABLE = "HPABATCH_PROMETHEUS_PASSWORD"  # noqa: S105 - a name, no password


@dataclass(frozen=True, kw_only=True)
class LoginOptions(Request):
    """How a server is told who asks, and how it is known itself."""

    token_file: str | None = option(
        "path", "File with a bearer token.", metavar="FILE", unset=f"${TOKEN_VARIABLE}"
    )
    user: str | None = option("text", "User name for basic authentication.", metavar="NAME")
    password_file: str | None = option(
        "path", "File with the user's password.", metavar="FILE", unset=f"${PASSWORD_VARIABLE}"
    )
    ca: str | None = option(
        "path",
        "Certificates of the authorities that sign the server's (PEM).",
        metavar="FILE",
        unset="those of the system",
    )
    insecure: bool = option("flag", "Do not check the server's certificate.", False)
    tenant: str | None = option(
        "text", "Tenant whose data are read (header X-Scope-OrgID).", metavar="NAME"
    )


@dataclass(frozen=True, kw_only=True)
class Gentleness(Request):
    """Limits of what a server is asked."""

    max_samples: int = option(
        "number", "Samples of one response, about.", 500_000, metavar="N", minimum=1000
    )
    concurrency: int = option(
        "number", "Requests at once, at most.", 2, metavar="N", minimum=1, maximum=16
    )
    timeout_ms: int = option(
        "duration", "Time to wait for a response.", 120_000, metavar="TIME", minimum=1000
    )
    compress: bool = option(
        "flag", "Ask for compressed responses: a quarter of the bytes, more work for the server.",
        False,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PrometheusRequest(Gentleness, LoginOptions, Destination):
    """An import of what Prometheus recorded.

    Attributes:
        pods_at_once: pods that one query names, at most.
        spacing_ms: time between samples by which the sizes of responses are estimated.
    """

    url: str = option(
        "text", "Address of the server, with its path prefix, without user and password.", REQUIRED,
        metavar="URL",
    )  # fmt: skip
    start: str | None = option(
        "time",
        "Begin: RFC 3339, '2026-10-07 14:03' (UTC), 2026-10-07, or -7d (before now).",
        metavar="TIME",
        unset="with --resume, where the import ended",
    )
    end: str | None = option(
        "time", "End, written like --start.", metavar="TIME", unset="two --max-gap ago"
    )
    resume: bool = option("flag", "Continue an import, or append what has come since.", False)
    namespace: tuple[str, ...] = option(
        "texts", "Only HPAs of this namespace; may be repeated.", (), metavar="NAME", short="-n"
    )
    cluster: str = option(
        "text",
        "Name of the cluster; with --cluster-label, only the cluster of that name.",
        DEFAULT_CLUSTER,
        metavar="NAME",
    )
    cluster_label: str = option(
        "text", "Label that tells several clusters apart.", "", metavar="LABEL"
    )
    all_workloads: bool = option("flag", "Import pods that no HPA scales, too.", False)
    hpas: tuple[str, ...] = option(
        "paths",
        "Manifests of the HPAs (files or folders), for what is not exported; may be repeated.",
        (),
        metavar="PATH",
    )
    objects: tuple[str, ...] = option(
        "paths",
        "Objects of the cluster, as kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml prints "
        "them, for what is not exported; may be repeated.",
        (),
        metavar="FILE",
    )
    hpa_events: tuple[str, ...] = option(
        "paths",
        "Audit log or recorded watch of HPAs (docs/prometheus.md); may be repeated.",
        (),
        metavar="FILE",
    )
    mapping: tuple[str, ...] = option(
        "paths",
        "Custom metrics: ScaledObjects of KEDA or mapping files; may be repeated.",
        (),
        metavar="FILE",
    )
    queries: str | None = option(
        "path", "Other names of series and labels (YAML).", metavar="FILE", unset="the usual names"
    )
    max_gap_ms: int = option(
        "duration", "Time between two samples from which on it is a gap.", 300_000, metavar="TIME",
        minimum=180_000,
    )  # fmt: skip
    step_ms: int = option(
        "duration", "Time between two values of a custom metric.", 30_000, metavar="TIME",
        minimum=1000,
    )  # fmt: skip
    pods_at_once: int = 250
    spacing_ms: int = 30_000

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces, sorted; none: all."""
        return tuple(sorted(set(self.namespace)))

    def span_ms(self, now_ms: int) -> tuple[int | None, int | None]:
        """Return begin and end in ms; None: not given (UsageError: one is no time)."""
        return _time_ms("--start", self.start, now_ms), _time_ms("--end", self.end, now_ms)

    def source(self) -> str:
        """Return a name for what is read: runs of the same source continue one another.

        Files beside, limits of responses and the way to the server (a forwarded port) may change
        from one day to the next; that is no other source.
        """
        said = (
            list(self.namespaces),
            self.cluster,
            self.cluster_label,
            False,  # an option that is gone: imports that are begun keep their names
            self.all_workloads,
            self.tenant or "",
        )
        return hashlib.sha256(repr(said).encode()).hexdigest()[:12]


def _time_ms(name: str, text: str | None, now_ms: int) -> int | None:
    try:
        return None if text is None else parse_time_ms(text, now_ms)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
