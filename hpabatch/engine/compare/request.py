"""Options of a comparison of two versions, or of two sets of manifests."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import Budgets, ChosenHpas, Pipeline, Syncs
from hpabatch.errors import UsageError
from hpabatch.model.options import option
from hpabatch.model.versions import GATES

_RANGE = ".."
_MOST_SIDES = 2


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Pipeline, Syncs, Budgets, ChosenHpas):
    """A comparison of what HPAs decide on two sides."""

    k8s: str | None = option(
        "text",
        "The two Kubernetes versions, such as 1.32..1.37; with --hpas the one of both sides.",
        metavar="A..B",
        unset="as recorded",
    )
    hpas: tuple[str, ...] = option(
        "paths",
        "Manifests: given twice, one for each side; given once, compared with the recorded HPAs.",
        (),
        metavar="PATH",
    )
    feature_gates: str = option(
        "text",
        f"Feature gates that are not as in that version: {', '.join(GATES)}.",
        "",
        metavar="GATE=BOOL,…",
    )
    feature_gates_to: str = option(
        "text", "Feature gates of the second side only.", "", metavar="GATE=BOOL,…"
    )
    strict: bool = option(
        "flag", "Count the same decision for another reason as a difference.", False
    )

    @property
    def versions(self) -> tuple[str | None, str | None]:
        """The versions of both sides; None: as recorded."""
        if self.k8s is None or _RANGE not in self.k8s:
            return self.k8s, self.k8s
        before, _, after = self.k8s.partition(_RANGE)
        return before or None, after or None

    def check(self) -> None:
        """Refuse what states no comparison, or two at once (UsageError: what to give)."""
        super().check()
        ranged = self.k8s is not None and _RANGE in self.k8s
        if len(self.hpas) > _MOST_SIDES:
            raise UsageError(
                f"--hpas was given {len(self.hpas)} times: give it twice (one folder or file for "
                "each side), or once to compare the recorded HPAs with it"
            )
        if self.hpas and (ranged or self.feature_gates_to):
            given = f"--k8s {self.k8s}" if ranged else "--feature-gates-to"
            raise UsageError(
                f"{given} and --hpas: two versions and two sets of manifests cannot be compared at "
                "once; with --hpas name the one version of both with --k8s"
            )
        if len(set(self.hpas)) < len(self.hpas):
            raise UsageError(f"--hpas {self.hpas[0]}: both sides are the same; name two")
        if not self.hpas and not self.feature_gates_to:
            self._check_versions(ranged)

    def _check_versions(self, ranged: bool) -> None:
        if self.k8s is None:
            raise UsageError(
                "nothing to compare: give two versions (--k8s 1.32..1.37), feature gates of the "
                "second side (--feature-gates-to), or manifests (--hpas today/ --hpas proposed/)"
            )
        if not ranged:
            raise UsageError(
                f"--k8s {self.k8s}: two versions are compared, such as 1.32..1.37, or ..1.37 to "
                "begin with the recorded one"
            )
        if self.versions == (None, None):
            raise UsageError(
                f"--k8s {self.k8s}: names no version; give one or two, such as 1.32..1.37"
            )
