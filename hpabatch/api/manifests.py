"""HPAs of manifests in place of recorded ones."""

from __future__ import annotations

from collections.abc import Sequence

from hpabatch.engine.fleet.versions import history_profile
from hpabatch.errors import RefusedError
from hpabatch.history.base import History
from hpabatch.inputs.manifests import check_manifests, load_manifests
from hpabatch.model.objects.hpa import HPA


def read_hpas(
    history: History, paths: Sequence[str], k8s: str | None, feature_gates: str
) -> list[HPA] | None:
    """Return the HPAs of manifests; None: no path was given.

    Raises:
        RefusedError: the first that is not valid.
    """
    if not paths:
        return None
    checked = check_manifests(
        load_manifests(paths).entries, history_profile(history, k8s, feature_gates)
    )
    for item in checked:
        if item.hpa is None:
            raise RefusedError(f"{item.entry.place}: {item.complaints[0]}")
    return [item.hpa for item in checked if item.hpa is not None]
