"""HPAs of a history at an instant, for the commands that show some of them as kubectl does."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpabatch.cli.arguments import parse_at, parse_duration, selection
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import Events
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    import polars as pl

    from hpabatch.engine.explain.moment import Key, Metadata, Moment
    from hpabatch.engine.fleet.candidates import Candidate
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.engine.fleet.plan import ReplayPlan

_MIN_SYNC_PERIOD_MS = 1000
_MOST_PARTS = 3  # of a name: cluster, namespace, HPA


@dataclass(frozen=True, slots=True)
class MomentRequest:
    """What the command line asked for; texts as given."""

    history: str
    names: tuple[str, ...]
    namespace: str | None
    where: str | None
    at: str | None
    manifests: tuple[str, ...]
    k8s: str | None
    feature_gates: str
    events: Events
    sync_period: str | None
    phase: str | None
    delay: str | None
    max_age: str | None


@dataclass(slots=True)
class MomentReader:
    """The HPAs that were asked for.

    `code` is the exit code of what was left out, whole once all are read. `named`: each was asked
    for by its name.
    """

    plan: ReplayPlan
    metadata: Metadata
    at_ms: int
    code: int
    named: bool

    def read(self) -> Iterator[Moment]:
        """Yield every HPA that there is at the instant, after its last sync; tell of the others."""
        from hpabatch.engine.explain.moment import planned_moments

        total = len(self.plan.chosen)
        shown: set[Key] = set()
        with share_on_stderr() as progress:
            for found, moment in enumerate(planned_moments(self.plan), 1):
                progress("deciding", found / total)
                if _exists(moment.candidate, self.at_ms):
                    shown.add(_key(moment.candidate))
                    yield moment
        self._tell([c for c in self.plan.chosen if _key(c) not in shown])

    def _tell(self, absent: Sequence[Candidate]) -> None:
        """Tell of HPAs that are not shown: without a status, or asked for and not there.

        Of all HPAs kubectl shows those that there are.
        """
        from hpabatch.model.times import show_instant

        at = show_instant(self.at_ms)
        for candidate in absent:
            if _exists(candidate, self.at_ms):
                reason = f"no sync of it until {at}, so there is no status to show"
            elif self.named:
                reason = f"there was no such HPA at {at}"
            else:
                continue
            say(f"{printable(_label(self.plan, _key(candidate)))}: {reason}")
            self.code = self.code or EXIT_REFUSED
        if len(absent) == len(self.plan.chosen) and self.code == EXIT_OK:
            say(f"there was no HPA at {at}")


def _exists(candidate: Candidate, at_ms: int) -> bool:
    return any(period.from_ms <= at_ms < period.to_ms for period in candidate.periods)


def _key(candidate: Candidate) -> Key:
    return candidate.cluster, candidate.namespace, candidate.name


def _label(plan: ReplayPlan, key: Key) -> str:
    """Return the name of an HPA, with its cluster where there are several."""
    from hpabatch.report.texts import label

    return label(*key, with_cluster=len({c.cluster for c in plan.everyone}) > 1)


def open_moments(request: MomentRequest) -> MomentReader:
    """Plan what was asked for.

    Raises:
        UsageError: an argument that is none, or no HPA of that name.
        RefusedError: none of them can be replayed.
        HistoryError: the history cannot be read.
    """
    from hpabatch.engine.explain.moment import Metadata
    from hpabatch.engine.fleet.plan import plan_replay
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.history.reader import open_history

    parameters = _parameters(request)
    asked = _Asked(request)
    history = open_history(request.history, None if request.manifests else "replay")
    manifests, code = None, EXIT_OK
    if request.manifests:
        profile = history_profile(history, request.k8s, request.feature_gates)
        manifests, code = load_hpas(request.manifests, profile)
    plan = plan_replay(history, parameters, manifests, asked, whole=True)
    skipped = {(s.cluster, s.namespace, s.hpa): s.reason for s in plan.skipped}
    asked.check(skipped)
    for key in filter(asked.is_meant, skipped):
        say(f"skipped: {printable(_label(plan, key))}: {skipped[key]}")
        code = code or EXIT_REFUSED
    at_ms = plan.clocks.to_ms if parameters.until_ms is None else parameters.until_ms
    for warning in (*plan.versions.warnings, *_late(plan, at_ms)):
        say(f"warning: {warning}")
    if not plan.chosen:
        raise RefusedError(f"{request.history}: no HPA can be replayed")
    return MomentReader(plan, Metadata(history, manifests), at_ms, code, bool(request.names))


def _late(plan: ReplayPlan, at_ms: int) -> tuple[str, ...]:
    """Return what to say of an instant that the recording does not reach."""
    from hpabatch.model.times import show_instant

    if at_ms - plan.clocks.to_ms < plan.settled.sync_period_ms:
        return ()
    return (f"the recording ends at {show_instant(plan.clocks.to_ms)}: this is how it was then",)


def _parameters(request: MomentRequest) -> ReplayParameters:
    from hpabatch.engine.fleet.parameters import ReplayParameters

    def time(text: str | None, option: str, minimum_ms: int = 0) -> int | None:
        return None if text is None else parse_duration(text, option, minimum_ms)

    return ReplayParameters(
        k8s=request.k8s,
        feature_gates=request.feature_gates,
        events=request.events.value,
        sync_period_ms=time(request.sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
        phase_ms=time(request.phase, "--phase"),
        delay_ms=time(request.delay, "--delay"),
        max_age_ms=time(request.max_age, "--max-age", 1),
        until_ms=None if request.at is None else parse_at(request.at),
    )


class _Asked:
    """Which HPAs are asked for: of a namespace, of a condition, of names."""

    def __init__(self, request: MomentRequest) -> None:
        """Check the condition (UsageError: it is none)."""
        self.namespace, self.names = request.namespace, request.names
        self._where = None if request.where is None else selection(request.where)
        self.condition = getattr(self._where, "condition", None)  # see engine.plan
        self._found: list[Key] = []
        self._known: list[Key] = []

    def __call__(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """Return the candidates that are asked for."""
        import polars as pl

        self._known = _keys(candidates)
        if self.namespace is not None:
            candidates = candidates.filter(pl.col("namespace") == self.namespace)
        if self._where is not None:
            candidates = self._where(candidates)
        meant = [self.is_meant(key) for key in _keys(candidates)]
        candidates = candidates.filter(pl.Series(meant, dtype=pl.Boolean))
        self._found = _keys(candidates)
        return candidates

    def is_meant(self, key: Key) -> bool:
        """Say whether an HPA is of the namespace, and of a name if there are any."""
        here = self.namespace is None or key[1] == self.namespace
        return here and (not self.names or any(_is_named(key, name) for name in self.names))

    def check(self, skipped: Collection[Key]) -> None:
        """Refuse a namespace or name of which there is no HPA at all, replayed or skipped.

        Raises:
            UsageError: what there is instead.
        """
        there = [*self._found, *filter(self.is_meant, skipped)]
        if self.namespace is not None and not any(key[1] == self.namespace for key in there):
            known = sorted({key[1] for key in self._known})
            if self.namespace not in known:
                raise UsageError(
                    f"-n {self.namespace}: there is no HPA of that namespace; namespaces: "
                    f"{', '.join(known)}"
                )
        for name in self.names:
            if not any(_is_named(key, name) for key in there):
                raise UsageError(f"{name}: {self._instead_of(name)}")

    def _instead_of(self, name: str) -> str:
        """Return why there is nothing of a name, and the names that are like it."""
        if any(_is_named(key, name) for key in self._known):
            return "not among the HPAs that -n and --where leave; change one of them"
        parts = min(name.count("/") + 1, _MOST_PARTS)
        names = {"/".join(key[-parts:]): "/".join(key[-max(parts, 2) :]) for key in self._known}
        near = difflib.get_close_matches(name, names, 3, 0.5) or sorted(names)[:3]
        listed = ", ".join(names[text] for text in near)
        return f"there is no such HPA; there is {listed}" if near else "there is no HPA at all"


def _keys(candidates: pl.DataFrame) -> list[Key]:
    rows = candidates.select("cluster", "namespace", "hpa").iter_rows()
    return [(str(cluster), str(namespace), str(hpa)) for cluster, namespace, hpa in rows]


def _is_named(key: Key, name: str) -> bool:
    """Say whether an HPA has the name `[[CLUSTER/]NAMESPACE/]HPA`."""
    parts = tuple(name.split("/"))
    return len(parts) <= _MOST_PARTS and key[-len(parts) :] == parts
