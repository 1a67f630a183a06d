"""Replays in Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from hpabatch.api.manifests import read_hpas
from hpabatch.api.result import Result
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.attention import rank_attention
from hpabatch.engine.replay.request import ReplayRequest, ReplayToRequest
from hpabatch.engine.replay.run import ReplayResult, join_results, replay_shards
from hpabatch.engine.replay.score import Score, score
from hpabatch.engine.replay.summary import FleetTotals, total
from hpabatch.engine.shards.observe import observe
from hpabatch.errors import UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.history.base import History
from hpabatch.jobs.parquet import write_parquet
from hpabatch.jobs.publish import Destination, is_result_folder
from hpabatch.jobs.replay import ReplayDone, ReplayJob, plan_of, replay_to_disk
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import counted


@dataclass(frozen=True, repr=False)
class Replay(Result):
    """A replay in memory.

    Attributes:
        plan: what was replayed, and under which assumptions.
        result: what came of it.
    """

    plan: ReplayPlan
    result: ReplayResult

    @property
    def verdict(self) -> str:
        """The number of HPAs and decisions."""
        told = f"{counted(self.result.hpas.height, 'HPA')} replayed: "
        told += counted(self.decisions.height, "decision")
        return told + (f", {len(self.result.skipped)} left out" if self.result.skipped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """The summary."""
        return self.summary

    @property
    def decisions(self) -> pl.DataFrame:
        """One row per HPA and tick; docs/output.md explains the columns."""
        return self.result.decisions

    @property
    def hpas(self) -> tuple[Candidate, ...]:
        """The HPAs that were replayed, with their specs."""
        return self.plan.chosen

    @property
    def evidence(self) -> dict[str, str]:
        """What the result rests on: version, profile, parameters and their sources, digests."""
        return self.result.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd."""
        return self.result.warnings

    @cached_property
    def skipped(self) -> pl.DataFrame:
        """HPAs that could not be replayed: cluster, namespace, hpa, reason."""
        rows = [(s.cluster, s.namespace, s.hpa, s.reason) for s in self.result.skipped]
        columns = ["cluster", "namespace", "hpa", "reason"]
        return pl.DataFrame(rows, dict.fromkeys(columns, pl.String()), orient="row")

    @property
    def summary(self) -> pl.DataFrame:
        """One row per HPA."""
        return self.result.summary

    @cached_property
    def totals(self) -> FleetTotals:
        """Sums over the summary."""
        return total(self.summary)

    @cached_property
    def score(self) -> Score:
        """How well the decided rescales meet the recorded ones: `hpas` and `events`."""
        return score(self.result.decisions, self.result.hpas)

    def attention(self, top: int = 20) -> pl.DataFrame:
        """Return the HPAs most worth a look: rank, key, rule, score, why."""
        return rank_attention(self.summary, top)

    def write(self, path: Path | str) -> None:
        """Write the decisions as Parquet, with the evidence; the file is whole or not there.

        Raises:
            UsageError: it cannot be written.
        """
        with atomic_path(path) as temporary:
            write_parquet(self.decisions, self.evidence, temporary)


def planned(history: History, request: ReplayRequest) -> tuple[ReplayPlan, list[HPA] | None]:
    """Return the plan, and the HPAs of manifests (RefusedError: one of them is not valid)."""
    if not request.hpas:
        history.require("replay")
    manifests = read_hpas(history, request.hpas, request.k8s, request.feature_gates)
    return plan_of(history, request, manifests), manifests


def replay(history: History, request: ReplayRequest) -> Replay:
    """Replay in memory; raises as `planned` does."""
    plan, _ = planned(history, request)
    return Replay(plan, join_results(plan, list(replay_shards(plan, range(len(plan.shards))))))


def replay_to(history: History, request: ReplayToRequest, out: Path | str) -> ReplayDone:
    """Replay to a Parquet file, or a folder of them if `out` ends with a slash."""
    if "://" in str(out):
        raise UsageError(f"out: expected a local file or folder, got {str(out)!r}")
    plan, manifests = planned(history, request)
    if Path(out).resolve().is_relative_to(history.path.resolve()):
        raise UsageError(f"{out} is inside the history that is replayed; name another place")
    is_folder = str(out).endswith("/") or (Path(out).is_dir() and is_result_folder(Path(out)))
    return replay_to_disk(ReplayJob(plan, Destination(Path(out), is_folder), manifests, request))


def observations(history: History, request: ReplayRequest) -> pl.DataFrame:
    """Return what the rules saw of one HPA: a row per tick, metric and pod.

    Raises:
        UsageError: not exactly one HPA is meant.
    """
    plan, _ = planned(history, request)
    if len(plan.chosen) + len(plan.skipped) != 1:
        count = len(plan.chosen) + len(plan.skipped)
        raise UsageError(f"expected one HPA, got {count}; name one as cluster/namespace/name")
    if not plan.chosen:
        raise UsageError(f"{request.names[0]}: {plan.skipped[0].reason}")
    return observe(plan, plan.chosen[0])
