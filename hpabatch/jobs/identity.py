"""What a replay's results depend on, as one digest: under another one, nothing is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import hpabatch
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.jobs.folder import Identity
from hpabatch.model.objects.hpa import HPA

_WRITERS = ("numpy", "polars", "pyarrow")  # whose versions may show in the bytes of a part


@cache
def code_digest() -> str:
    """Return a digest of this package's sources: an edited rule must not be resumed into."""
    root = Path(hpabatch.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def replay_identity(
    plans: Sequence[ReplayPlan], manifests: Sequence[HPA] | None, extra: Mapping[str, str]
) -> Identity:
    """Return the identity of a replay.

    Args:
        plans: of all settings, the first as asked for. Their evidence holds the digests of the
            history's tables and all parameters.
        manifests: the HPAs that stand in for the recorded ones; None: none do.
        extra: what else the tasks' files depend on.
    """
    first = plans[0]
    parts = [
        hpabatch.__version__,
        code_digest(),
        [f"{name} {version(name)}" for name in _WRITERS],
        first.evidence,
        [(c.cluster, c.namespace, c.name) for c in first.chosen],
        None if manifests is None else [repr(hpa) for hpa in manifests],
        [[plan.shards, repr(plan.settled), repr(plan.clocks.grid)] for plan in plans],
        dict(extra),
    ]
    fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    facts = {**first.evidence, "HPAs": str(len(first.chosen)), **extra}
    return Identity(fingerprint, facts)
