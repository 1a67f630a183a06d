"""The HPAs of manifests that a command is given, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, ManifestError, RefusedError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from hpabatch.engine.explain.request import ExplainRequest, GetRequest
    from hpabatch.engine.replay.request import ReplayRequest
    from hpabatch.history.reader import History
    from hpabatch.inputs.manifests import CheckedEntry
    from hpabatch.model.objects.hpa import HPA
    from hpabatch.model.versions import Profile


def open_with_hpas(
    path: str, request: ExplainRequest | GetRequest | ReplayRequest
) -> tuple[History, list[HPA] | None, int]:
    """Return a history, the HPAs of manifests (None: the recorded ones count) and their exit code.

    Manifests stand in for the table of HPAs; every other table is still asked for when read.

    Raises:
        HistoryError: the history cannot be read.
        ManifestError, RefusedError: not one HPA of the manifests is left.
    """
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.history.reader import open_history

    history = open_history(path, None if request.hpas else "replay")
    if not request.hpas:
        return history, None, EXIT_OK
    profile = history_profile(history, request.k8s, request.feature_gates)
    return history, *load_hpas(request.hpas, profile)


def load_hpas(paths: Sequence[str], profile: Profile) -> tuple[list[HPA] | None, int]:
    """Return the valid HPAs of manifests and the exit code of the others, which stderr names.

    Without any path: None.

    Raises:
        ManifestError, RefusedError: not one HPA is left.
    """
    if not paths:
        return None, EXIT_OK
    missing = f"--hpas {' '.join(paths)}: no HPA to replay; nothing is written"
    valid, code = valid_hpas(paths, profile, missing)
    found: dict[tuple[str, str], HPA] = {}
    places: dict[tuple[str, str], str] = {}
    for item in valid:
        assert item.hpa is not None
        key, place = (item.hpa.namespace or "default", item.hpa.name), item.entry.place
        if key in found:
            told = f"given twice, first at {places[key]}: only that one is replayed"
            say(f"{place}: {printable('/'.join(key))}: {told}")
            code = code or EXIT_REFUSED
            continue
        found[key], places[key] = item.hpa, place
    return list(found.values()), code


def valid_hpas(
    paths: Sequence[str], profile: Profile, missing: str, stdin: BinaryIO | None = None
) -> tuple[list[CheckedEntry], int]:
    """Return the valid documents and the exit code of the others, which stderr names.

    `stdin` is read in place of standard input.

    Raises:
        ManifestError, RefusedError: not one is left, as `missing` says.
    """
    from hpabatch.inputs.manifests import check_manifests, exit_code, load_manifests
    from hpabatch.report.validation import talk_lines

    checked = check_manifests(load_manifests(paths, stdin).entries, profile)
    for line in talk_lines(checked):
        say(line)
    code = exit_code(checked)
    valid = [item for item in checked if item.hpa is not None]
    if not valid:
        raise (RefusedError if code == EXIT_REFUSED else ManifestError)(missing)
    return valid, code
