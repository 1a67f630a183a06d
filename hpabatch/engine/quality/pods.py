"""Pods of a recording, for its quality: lives, restarts, requests, limits, membership."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import integers, keyed, milliseconds, unkeyed
from hpabatch.engine.fleet.membership import Place, Selections, selects
from hpabatch.layout.records import I64

POD_COLUMNS: Final = (
    "namespace",
    "target",
    "uid",
    "pod",
    "labels",
    "created",
    "started",
    "deletion_requested",
    "gone",
    "origin",
)
STATE_COLUMNS: Final = ("uid", "ts", "phase", "ready")
REQUEST_COLUMNS: Final = (
    "uid",
    "container",
    "kind",
    "valid_from",
    "cpu_milli",
    "memory_milli",
    "cpu_limit_milli",
)
_ENDED: Final = ("Succeeded", "Failed")
_RUNS: Final = ("app", "sidecar")  # kinds of containers that run as long as the pod


@dataclass(frozen=True, slots=True)
class Lives:
    """Stretches of time in which something ran; none of one owner's overlap.

    Sorted by owner and time; `owner` is a pod's or a target's number. Times in ms, from < to.
    """

    owner: I64
    from_ms: I64
    to_ms: I64


@dataclass(frozen=True, slots=True)
class ShardPods:
    """The pods of a shard's targets, numbered by uid; targets are numbered by (namespace, name).

    `numbers` leads from uid to pod, `targets` from (namespace, target) to target. By pod: its
    target `target_of`, its life or -1 `life_of`. `together` is when a target had any pod,
    `together_of` the place therein of each of `lives`. `limits` has pod p, container, valid_from
    and the cpu limit, by time. `facts` has a row per target (see `_facts`).
    """

    numbers: pl.DataFrame
    targets: pl.DataFrame
    target_of: I64
    lives: Lives
    life_of: I64
    together: Lives
    together_of: I64
    limits: pl.DataFrame
    facts: pl.DataFrame


def shard_pods(
    pods: pl.DataFrame,
    states: pl.DataFrame,
    requests: pl.DataFrame,
    targets: pl.DataFrame,
) -> ShardPods:
    """Return the pods of some targets.

    Args:
        pods: rows of `pods` (`POD_COLUMNS`), sorted by the table's key; of rows with one uid the
            last counts; those of other targets are left out.
        states, requests: rows of `pod_states` and `pod_requests`; those of other pods are left out.
        targets: namespace, target, number `g` from 0 on, and `since_ms` and `until_ms`, the first
            and last instant of its recording, to which lives are cut.
    """
    own = pods.unique("uid", keep="last", maintain_order=True)
    own = own.join(targets, on=["namespace", "target"], maintain_order="left")
    own = own.with_row_index("p").with_columns(pl.col("p").cast(pl.Int64))
    numbers = own.select("uid", "p")
    shown = states.join(numbers, on="uid").sort("p", "ts", maintain_order=True)
    asked = requests.filter(pl.col("kind").is_in((*_RUNS, "pod"))).join(numbers, on="uid")
    ended = shown.filter(pl.col("phase").is_in(_ENDED)).group_by("p").agg(pl.col("ts").min())
    own = own.join(ended.rename({"ts": "ended"}), on="p", how="left", maintain_order="left")
    target_of = integers(own["g"])
    lives, life_of = _lives(own)
    together, together_of = _merged(Lives(target_of[lives.owner], lives.from_ms, lives.to_ms))
    return ShardPods(
        numbers=numbers,
        targets=targets,
        target_of=target_of,
        lives=lives,
        life_of=life_of,
        together=together,
        together_of=together_of,
        limits=asked.filter(pl.col("kind").is_in(_RUNS))
        .sort("valid_from", maintain_order=True)
        .select("p", "container", "valid_from", limit="cpu_limit_milli"),
        facts=_facts(own, shown, asked, lives),
    )


def _lives(own: pl.DataFrame) -> tuple[Lives, I64]:
    """Return the pods' lives within the recording, and each pod's life or -1."""
    start = np.maximum(milliseconds(own["started"]), integers(own["since_ms"]))
    ends = [milliseconds(own[name]) for name in ("deletion_requested", "gone", "ended")]
    end = np.minimum.reduce([*ends, integers(own["until_ms"])])
    lived = np.flatnonzero(start < end).astype(np.int64)
    life_of = np.full(own.height, -1, np.int64)
    life_of[lived] = np.arange(lived.size)
    return Lives(lived, start[lived], end[lived]), life_of


def _merged(lives: Lives) -> tuple[Lives, I64]:
    """Return when at least one life of an owner went on, and the place of each life in that."""
    order = np.argsort(keyed(lives.owner, lives.from_ms), kind="stable")
    starts = keyed(lives.owner, lives.from_ms)[order]
    # Ends so far, per owner: in (owner, time) keys the running maximum does not cross owners.
    reached = np.maximum.accumulate(keyed(lives.owner, lives.to_ms)[order])
    fresh = np.ones(order.size, bool)
    fresh[1:] = starts[1:] > reached[:-1]
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], order.size)[: first.size] - 1
    place = np.zeros(order.size, np.int64)
    place[order] = np.cumsum(fresh) - 1
    owner, from_ms = unkeyed(starts[first])
    return Lives(owner, from_ms, unkeyed(reached[last])[1]), place


def _facts(
    own: pl.DataFrame, shown: pl.DataFrame, asked: pl.DataFrame, lives: Lives
) -> pl.DataFrame:
    """Return per target g: pods, generated, recreated, unready_again, requests, life.

    `no_requests`: pods without a row; `no_cpu`, `no_memory`: pods with a container (or the pod as
    a whole) whose first row has no request of it; `life_ms`: the lives' sum.
    """
    by_pod = own.select("p", "g", "origin", name=pl.struct("namespace", "target", "pod"))
    by_pod = by_pod.join(_first_requests(asked), on="p", how="left", maintain_order="left")
    life = pl.DataFrame({"p": lives.owner, "life_ms": lives.to_ms - lives.from_ms})
    by_pod = by_pod.join(life, on="p", how="left", maintain_order="left")
    again = pl.col("p").is_in(_lost_readiness(own, shown).implode())
    number = pl.len().cast(pl.Int64)
    return by_pod.group_by("g", maintain_order=True).agg(
        pods=number,
        generated=(pl.col("origin") == "generated").sum().cast(pl.Int64),
        recreated=number - pl.col("name").n_unique().cast(pl.Int64),
        unready_again=again.sum().cast(pl.Int64),
        no_requests=pl.col("no_cpu").is_null().sum().cast(pl.Int64),
        no_cpu=pl.col("no_cpu").sum().cast(pl.Int64),
        no_memory=pl.col("no_memory").sum().cast(pl.Int64),
        life_ms=pl.col("life_ms").sum(),
    )


def _first_requests(asked: pl.DataFrame) -> pl.DataFrame:
    """Return per pod with request rows whether its first ones lack cpu or memory."""
    first = asked.sort("valid_from", maintain_order=True).unique(
        ["p", "kind", "container"], keep="first", maintain_order=True
    )
    runs, whole = pl.col("kind").is_in(_RUNS), pl.col("kind") == "pod"
    amounts = {"no_cpu": pl.col("cpu_milli"), "no_memory": pl.col("memory_milli")}
    return first.group_by("p").agg(
        ((amount.is_null() & runs).any() & (amount.is_not_null() & whole).any().not_()).alias(name)
        for name, amount in amounts.items()
    )


def _lost_readiness(own: pl.DataFrame, shown: pl.DataFrame) -> pl.Series:
    """Return the pods that were ready and then not, before their deletion or end."""
    ends = own.select("p", end=pl.min_horizontal("deletion_requested", "gone", "ended"))
    rows = shown.join(ends, on="p", how="left", maintain_order="left")
    ready = pl.col("ready").eq_missing(pl.lit("True"))
    before = ready.shift(1, fill_value=False) & (pl.col("p") == pl.col("p").shift(1))
    inside = (pl.col("ts") < pl.col("end")).fill_null(value=True)
    return rows.filter(before & ready.not_() & inside)["p"].unique()


LabelCounts = dict[Place, list[tuple[str, int]]]
"""By namespace and target: the distinct labels of its pods, and how many have them."""


def label_counts(pods: pl.DataFrame) -> LabelCounts:
    """Return the labels of pods (`POD_COLUMNS`), whoever owns them."""
    counted = pods.unique("uid", keep="last", maintain_order=True)
    counted = counted.group_by("namespace", "target", "labels", maintain_order=True).len()
    found: LabelCounts = {}
    for namespace, owner, labels, number in counted.iter_rows():
        found.setdefault((namespace, owner), []).append((labels, number))
    return found


def membership(
    candidate: Candidate, selections: Selections, counts: LabelCounts
) -> tuple[str | None, int, int]:
    """Return how an HPA's pods are known, and how many are not whose they seem.

    The first is "selector", "owner" (the selector was not recorded), "both" (at times), or None
    (the scale was not recorded). The second counts pods that a recorded selector matches though
    they are another target's, or nobody's; the third the target's own that none matches.
    """
    texts = selections.selectors.get(candidate.target)
    if texts is None:
        return None, 0, 0
    known = [text for text in texts if text is not None]
    if not known:
        return "owner", 0, 0
    _, namespace, _, target = candidate.target
    foreign = unmatched = 0
    for place in selections.places(candidate):
        for labels, number in counts.get(place, []):
            matched = any(selects(text, target, place[1], labels) for text in known)
            if matched and place != (namespace, target):
                foreign += number
            if not matched and place == (namespace, target):
                unmatched += number
    return "selector" if len(known) == len(texts) else "both", foreign, unmatched
