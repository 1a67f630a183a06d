"""HPAs of a history at an instant, for the commands that show some of them as kubectl does."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from hpabatch.cli.arguments import parse_at, parse_duration, selection
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import Events
from hpabatch.cli.progress import share_on_stderr
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError

if TYPE_CHECKING:
    import polars as pl

    from hpabatch.engine.moment import Metadata, Moment
    from hpabatch.engine.plan import ReplayPlan

_MIN_SYNC_PERIOD_MS = 1000


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
    """The HPAs that were asked for; `code` is the exit code of what was left out."""

    plan: ReplayPlan
    metadata: Metadata
    at_ms: int
    code: int

    def read(self) -> Iterator[Moment]:
        """Yield every HPA after its last sync."""
        from hpabatch.engine.moment import planned_moments

        total = len(self.plan.chosen)
        with share_on_stderr() as progress:
            for found, moment in enumerate(planned_moments(self.plan), 1):
                progress("deciding", found / total)
                yield moment


def open_moments(request: MomentRequest) -> MomentReader:
    """Plan what was asked for.

    Raises:
        UsageError: an argument that is none, or no HPA of that name.
        HistoryError: the history cannot be read.
    """
    from hpabatch.engine.moment import Metadata
    from hpabatch.engine.parameters import ReplayParameters
    from hpabatch.engine.plan import plan_replay
    from hpabatch.engine.versions import history_profile
    from hpabatch.history.reader import open_history

    def time(text: str | None, option: str, minimum_ms: int = 0) -> int | None:
        return None if text is None else parse_duration(text, option, minimum_ms)

    parameters = ReplayParameters(
        k8s=request.k8s,
        feature_gates=request.feature_gates,
        events=request.events.value,
        sync_period_ms=time(request.sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
        phase_ms=time(request.phase, "--phase"),
        delay_ms=time(request.delay, "--delay"),
        max_age_ms=time(request.max_age, "--max-age", 1),
        until_ms=None if request.at is None else parse_at(request.at),
    )
    history = open_history(request.history, None if request.manifests else "replay")
    manifests, code = None, EXIT_OK
    if request.manifests:
        profile = history_profile(history, request.k8s, request.feature_gates)
        manifests, code = load_hpas(request.manifests, profile)
    plan = plan_replay(history, parameters, manifests, _selection(request), whole=True)
    for skipped in plan.skipped:
        typer.echo(f"{skipped.namespace}/{skipped.hpa}: {skipped.reason}", err=True)
        code = code or EXIT_REFUSED
    for warning in plan.versions.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if not plan.chosen:
        raise RefusedError(f"{request.history}: no HPA can be replayed")
    at_ms = plan.clocks.to_ms if parameters.until_ms is None else parameters.until_ms
    return MomentReader(plan, Metadata(history, manifests), at_ms, code)


def _selection(request: MomentRequest) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return what keeps the candidates that were asked for."""
    chosen = None if request.where is None else selection(request.where)

    def select(frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if request.namespace is not None:
            known = sorted(set(frame["namespace"].to_list()))
            frame = frame.filter(pl.col("namespace") == request.namespace)
            if not frame.height:
                raise UsageError(
                    f"-n {request.namespace}: no HPA of that namespace can be replayed; "
                    f"namespaces: {', '.join(known)}"
                )
        if chosen is not None:
            frame = chosen(frame)
        return named(frame, request.names) if request.names else frame

    return select


def named(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the candidates named `[[CLUSTER/]NAMESPACE/]NAME`, in the frame's order.

    Raises:
        UsageError: there is none of a name; similar ones are told.
    """
    import polars as pl

    keys = [tuple(map(str, row)) for row in frame.select("cluster", "namespace", "hpa").rows()]
    kept = [False] * len(keys)
    for name in names:
        parts = tuple(name.split("/"))
        found = [k for k, key in enumerate(keys) if key[-len(parts) :] == parts and len(parts) < 4]
        if not found:
            whole = ["/".join(key[-max(len(parts), 2) :]) for key in keys]
            near = difflib.get_close_matches(name, whole, 3, 0.5) or sorted(set(whole))[:3]
            raise UsageError(
                f"{name}: no HPA of that name can be replayed; there is {', '.join(near)}"
            )
        for k in found:
            kept[k] = True
    return frame.filter(pl.Series(kept))
