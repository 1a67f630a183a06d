"""Names of a simulated run's pods as a cluster gives them: uids, pods, owners, labels, nodes."""

from __future__ import annotations

import uuid
from hashlib import blake2b

import polars as pl

from data.generator.fleet import Workload
from data.generator.loop import CLUSTER, Span, rollout_ms
from hpabatch.importers.synth.fleet import compact_json

# The alphabet of Kubernetes' generated names: no vowels, nothing that looks like something else.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NODES = 12


def digest(*parts: object) -> bytes:
    """Return sixteen bytes that stand for something by its name."""
    return blake2b("/".join(map(str, parts)).encode(), digest_size=16).digest()


def uid_of(*parts: object) -> str:
    """Return an object's uid."""
    return str(uuid.UUID(bytes=digest(*parts), version=4))


def word(length: int, *parts: object) -> str:
    """Return a generated part of a name."""
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest(*parts)[:length])


def revision_of(work: Workload, number: int) -> str:
    """Return the hash of a revision of the pod template."""
    return word(9, work.namespace, work.name, "revision", number)


def named_pods(pods: pl.DataFrame, work: Workload, span: Span) -> pl.DataFrame:
    """Return a workload's rows of `pods` with `old_uid` beside the names that a cluster gives.

    A pod that was created after the beginning of a rollout is of its revision.
    """
    begun = [rollout_ms(span, day, hour) for day, hour in work.rollouts]
    rows = []
    taken: dict[int, int] = {}  # by ordinal: until when it is taken
    for row in pods.sort("created", "uid").iter_rows(named=True):
        created_ms = int(row["created"].timestamp() * 1000)
        revision = sum(at <= created_ms for at in begun)
        rows.append(_named(row, work, revision, taken))
    return pods.sort("created", "uid").with_columns(
        old_uid="uid",
        cluster=pl.lit(CLUSTER),
        **{
            name: pl.Series([row[name] for row in rows], dtype=pl.String())
            for name in ("uid", "pod", "owner", "labels", "node")
        },
    )


def _named(
    row: dict[str, object], work: Workload, revision: int, taken: dict[int, int]
) -> dict[str, str | None]:
    number = str(row["uid"]).rsplit("-", 1)[1]
    labels = dict(work.labels)
    if work.kind == "StatefulSet":
        name = f"{work.name}-{_ordinal(row, taken)}"
        owner = f"StatefulSet/{work.name}"
        labels["statefulset.kubernetes.io/pod-name"] = name
    else:
        template = revision_of(work, revision)
        name = f"{work.name}-{template}-{word(5, work.namespace, work.name, number)}"
        owner = f"ReplicaSet/{work.name}-{template}"
        labels["pod-template-hash"] = template
    node = digest(work.namespace, work.name, number, "node")[0] % _NODES + 1
    return {
        "uid": uid_of(work.namespace, work.name, "pod", number),
        "pod": name,
        "owner": owner,
        "labels": compact_json(labels),
        "node": f"node-{node:02d}" if row["started"] is not None else None,
    }


def _ordinal(row: dict[str, object], taken: dict[int, int]) -> int:
    """Return the lowest ordinal that no living pod has."""
    created, gone = row["created"], row["gone"]
    since = int(created.timestamp() * 1000)  # type: ignore[attr-defined]
    ordinal = next(k for k in range(len(taken) + 1) if taken.get(k, 0) <= since)
    taken[ordinal] = 2**62 if gone is None else int(gone.timestamp() * 1000)  # type: ignore[attr-defined]
    return ordinal
