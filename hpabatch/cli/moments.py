"""HPAs of a history at a time, for the commands that show some of them as kubectl does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hpabatch.cli.manifests import open_with_hpas
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.talk import say, tell
from hpabatch.errors import EXIT_REFUSED
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.api.statuses import HpasThen
    from hpabatch.engine.explain.request import GetRequest
    from hpabatch.report.kubectl.describe import Descriptions
    from hpabatch.report.kubectl.get import HpaStatuses

R = TypeVar("R", "HpaStatuses", "Descriptions")


def hpas_at(
    path: str, request: GetRequest, read: Callable[[HpasThen, Progress], R]
) -> tuple[R, int]:
    """Read the HPAs that a request means; say which are left out, and return the exit code of that.

    Raises:
        UsageError: an option is not possible, or there is no HPA of that name.
        RefusedError: none of them can be replayed.
        HistoryError: the history cannot be read.
    """
    from hpabatch.api.statuses import hpas_then
    from hpabatch.model.times import show_instant

    history, manifests, code = open_with_hpas(path, request)
    then = hpas_then(history, request, manifests)
    tell(then.warnings)
    with progress_on_stderr() as progress:
        found = read(then, progress)
    tell(found.left_out, "skipped")
    if not found and not found.left_out:
        say(f"there was no HPA at {show_instant(found.at_ms)}")
    return found, EXIT_REFUSED if found.left_out else code
