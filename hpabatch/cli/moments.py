"""HPAs of a history at a time, for the commands that show some of them as kubectl does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.talk import say, tell
from hpabatch.errors import EXIT_OK, EXIT_REFUSED

if TYPE_CHECKING:
    from hpabatch.api.statuses import HpasThen
    from hpabatch.engine.explain.request import GetRequest


def read_hpas_then(path: str, request: GetRequest) -> tuple[HpasThen, int]:
    """Return the HPAs that a request means, and the exit code of its manifests.

    Raises:
        UsageError: an option is not possible, or there is no HPA of that name.
        RefusedError: none of them can be replayed.
        HistoryError: the history cannot be read.
    """
    from hpabatch.api.statuses import hpas_then
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.history.reader import open_history

    # Manifests stand in for the table of HPAs; every other table is still asked for when read.
    history = open_history(path, None if request.hpas else "replay")
    manifests, code = None, EXIT_OK
    if request.hpas:
        profile = history_profile(history, request.k8s, request.feature_gates)
        manifests, code = load_hpas(request.hpas, profile)
    then = hpas_then(history, request, manifests)
    tell(then.warnings)
    return then, code


def tell_left_out(left_out: Sequence[str], any_shown: bool, at_ms: int) -> int:
    """Write what is not shown to stderr; return the exit code of it."""
    from hpabatch.model.times import show_instant

    for text in left_out:
        say(f"skipped: {text}")
    if not any_shown and not left_out:
        say(f"there was no HPA at {show_instant(at_ms)}")
    return EXIT_REFUSED if left_out else EXIT_OK
