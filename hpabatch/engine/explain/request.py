"""Options of explanations and statuses: one sync of one HPA, or HPAs at a time."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import (
    Budgets,
    ChosenHpas,
    GivenHpas,
    Instants,
    Pipeline,
    Rules,
    StatedRequests,
    Syncs,
    UntilThen,
)
from hpabatch.errors import UsageError
from hpabatch.model.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class ExplainRequest(
    Pipeline, Syncs, Instants, Budgets, Rules, StatedRequests, GivenHpas, UntilThen
):
    """An explanation of an HPA's last sync at or before a time."""

    name: str = option(
        "text",
        "The HPA; with CLUSTER/ in front where several clusters have one of that name.",
        REQUIRED,
        metavar="[NAMESPACE/]HPA",
        positional=True,
    )
    namespace: str | None = option(
        "text", "Namespace of the HPA, if its name has none.", metavar="NAME", short="-n"
    )

    def check(self) -> None:
        """Refuse two namespaces (UsageError)."""
        super().check()
        if self.namespace is not None and "/" in self.name:
            raise UsageError(
                f"-n {self.namespace} and {self.name}: expected one namespace; leave out -n"
            )

    @property
    def hpa(self) -> str:
        """The name with the namespace, if one is given."""
        alone = self.namespace is None or "/" in self.name
        return self.name if alone else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class GetRequest(
    Pipeline, Syncs, Instants, Budgets, Rules, StatedRequests, GivenHpas, ChosenHpas, UntilThen
):
    """HPAs as `kubectl get hpa` would have shown them at a time."""


@dataclass(frozen=True, kw_only=True)
class DescribeRequest(GetRequest):
    """HPAs as `kubectl describe hpa` would have described them at a time."""

    events_for_ms: int = option(
        "duration", "Length of time before that whose events are shown.", 3_600_000, metavar="TIME"
    )
