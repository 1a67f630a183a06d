"""Options of a static analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpabatch.engine.fleet.request import MIN_SYNC_PERIOD_MS, ChosenHpas, Rules
from hpabatch.errors import UsageError
from hpabatch.inputs.request import Manifests
from hpabatch.model.options import Request, option
from hpabatch.model.quantity import Quantity

MAX_BASE_PCT = 1000
ONLY_METRIC = "*"
"""The metric of an HPA that has no other, in `AssumedPods.base_pct`."""


@dataclass(frozen=True, kw_only=True)
class AssumedPods(Request):
    """Facts about pods that no manifest states."""

    base: tuple[str, ...] = option(
        "texts",
        "Usage of a pod without any work, in % of its request (or of another target), by metric, "
        "such as cpu=15; an HPA's only metric needs no name; may be repeated.",
        (),
        metavar="[METRIC=]PCT",
        unset="0",
    )
    request: tuple[str, ...] = option(
        "texts",
        "Request of a pod; may be repeated.",
        (),
        metavar="RESOURCE=QUANTITY",
        unset="cpu=1, memory=1Gi",
    )

    def check(self) -> None:
        """Refuse a request that is no quantity, and a base that is no percentage (UsageError)."""
        super().check()
        _ = self.request_milli, self.base_pct

    @property
    def base_pct(self) -> Mapping[str, int]:
        """The stated bases in percent, by metric; ONLY_METRIC without a name."""
        return dict(map(_base, self.base))

    @property
    def request_milli(self) -> Mapping[str, int]:
        """The stated requests in milli-units, by resource."""
        return dict(map(_request, self.request))


@dataclass(frozen=True, kw_only=True)
class AnalyzeRequest(AssumedPods, Manifests):
    """An analysis of the HPAs of manifests."""

    hpa: str | None = option(
        "text", "Only the HPA of this name, on a screen of its own.", metavar="[NAMESPACE/]NAME"
    )
    at_size: int | None = option(
        "number",
        "Number of pods for which the smallest changes are shown; with --hpa.",
        metavar="N",
        minimum=0,
        unset="the middle of the range",
    )
    sync_period_ms: int = option(
        "duration", "Time between two syncs.", 15_000, metavar="TIME", minimum=MIN_SYNC_PERIOD_MS
    )
    tolerance: float = option(
        "real",
        "Tolerance of the controller, for HPAs without one.",
        0.1,
        metavar="SHARE",
        minimum=0,
    )
    downscale_stabilization_ms: int = option(
        "duration",
        "Stabilization window of the controller, for HPAs without one.",
        300_000,
        metavar="TIME",
    )


@dataclass(frozen=True, kw_only=True)
class AnalyzeRecordedRequest(AssumedPods, Rules, ChosenHpas):
    """An analysis of recorded HPAs, under the recorded flags of their controllers."""


def _base(text: str) -> tuple[str, int]:
    """Return a metric and its base in percent (UsageError: the string and what is expected)."""
    metric, _, number = text.rpartition("=")
    if not (number.isascii() and number.isdigit() and len(number) < 6):
        raise UsageError(f"--base {text}: expected METRIC=PCT in whole percents, such as cpu=15")
    if int(number) > MAX_BASE_PCT:
        raise UsageError(f"--base {text}: expected at most {MAX_BASE_PCT} percent")
    return metric or ONLY_METRIC, int(number)


def _request(text: str) -> tuple[str, int]:
    """Return a resource and its milli-units (UsageError: the string and what is wrong with it)."""
    resource, equals, amount = text.partition("=")
    expected = "expected RESOURCE=QUANTITY, at least 1m, such as cpu=250m"
    try:
        milli = Quantity.parse(amount).milli()
    except ValueError as error:
        raise UsageError(f"--request {text}: {error}; {expected}") from None
    if not resource or not equals or milli < 1:
        raise UsageError(f"--request {text}: {expected}")
    return resource, milli
