"""The HPAs of manifests that a command is given, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, ManifestError, RefusedError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from hpabatch.model.objects.hpa import HPA
    from hpabatch.model.versions import Profile


def load_hpas(paths: Sequence[str], profile: Profile) -> tuple[list[HPA] | None, int]:
    """Return the valid HPAs of manifests and the exit code of the others, which stderr names.

    Without any path: None.

    Raises:
        ManifestError, RefusedError: not one HPA is left.
    """
    if not paths:
        return None, EXIT_OK
    from hpabatch.inputs.manifest_checks import check_manifests, exit_code
    from hpabatch.inputs.manifests import load_manifests
    from hpabatch.report.validation import talk_lines

    checked = check_manifests(load_manifests(paths).entries, profile)
    for line in talk_lines(checked):
        say(line)
    code = exit_code(checked)
    found: dict[tuple[str, str], HPA] = {}
    places: dict[tuple[str, str], str] = {}
    for item in checked:
        if item.hpa is None:
            continue
        key, place = (item.hpa.namespace or "default", item.hpa.name), item.entry.place
        if key in found:
            told = f"given twice, first at {places[key]}: only that one is replayed"
            say(f"{place}: {printable('/'.join(key))}: {told}")
            code = code or EXIT_REFUSED
            continue
        found[key], places[key] = item.hpa, place
    if not found:
        error = RefusedError if code == EXIT_REFUSED else ManifestError
        raise error(f"--hpas {' '.join(paths)}: no HPA to replay; nothing is written")
    return list(found.values()), code
