"""Rules and controller flags of a live loop; its files in the user's state folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpabatch.engine.fleet.flags import FEATURE_GATES, FLAGS, PREFIX, parse_flags
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.store.catalog import quote
from hpabatch.model.versions import ControllerFlags, Profile, profile_for


@dataclass(frozen=True, slots=True)
class Settings:
    """The rules and flags of a loop.

    Attributes:
        flags: the controller's.
        flags_named: those that were given, by their names, for the record.
        flags_source: given or assumed.
    """

    k8s: str
    profile: Profile
    flags: ControllerFlags
    flags_named: Mapping[str, str]
    flags_source: str


def settle(
    k8s: str | None,
    gates: str,
    given: Sequence[str],
    server_version: str,
    every_ms: int | None,
) -> Settings:
    """Return rules and flags: as given, else the server's version and Kubernetes' defaults.

    Args:
        k8s: a version, None: the server's.
        gates: feature gates.
        given: flags as NAME=VALUE.
        server_version: as the API server gives it, e.g. v1.31.2-gke.1.
        every_ms: time between two passes, if given.

    Raises:
        UsageError: an unknown version, gate or flag, or an invalid value.
    """
    named = dict(_given(given))
    if every_ms is not None:
        named[f"{PREFIX}sync-period"] = f"{every_ms}ms"
    try:
        flags = parse_flags(json.dumps(named))
    except HistoryError as error:
        text = str(error).removeprefix("controller.flags: ").partition("; correct")[0]
        raise UsageError(f"--flag: {text}") from error
    version = k8s or server_version
    return Settings(
        k8s=version,
        profile=profile_for(version, gates),
        flags=flags,
        flags_named=named | ({FEATURE_GATES: gates} if gates else {}),
        flags_source="given" if given else "assumed",
    )


def _given(flags: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in flags:
        name, equals, value = text.partition("=")
        short = name.lstrip("-").removeprefix(PREFIX)
        if not equals or short not in FLAGS:
            raise UsageError(
                f"--flag {text}: expected NAME=VALUE with NAME one of {', '.join(FLAGS)}"
            )
        found[PREFIX + short] = value
    return found


def state_file(environ: Mapping[str, str], cluster: str, server: str) -> Path:
    """Return the default file of a loop's controller memory of a cluster; raises as `log_file`."""
    fix = "the loop's state file: name a file with --state, or give --stateless"
    return _user_file(environ, f"live-{_name(cluster, server)}.json", fix)


def log_file(environ: Mapping[str, str], cluster: str, server: str) -> Path:
    """Return the default file of the log of writes to a cluster.

    Raises:
        UsageError: the user has no home, as in many containers.
    """
    fix = "the log of writes: name a file with --apply-log"
    return _user_file(environ, f"apply-{_name(cluster, server)}.jsonl", fix)


def _name(cluster: str, server: str) -> str:
    """Return a cluster's part of a file name; those of one name have different API servers."""
    return f"{quote(cluster)}-{hashlib.sha256(server.encode()).hexdigest()[:8]}"


def _user_file(environ: Mapping[str, str], name: str, fix: str) -> Path:
    named = environ.get("XDG_STATE_HOME")
    try:
        home = Path(environ.get("HOME") or "~").expanduser()
    except RuntimeError:
        if not named:
            raise UsageError(f"there is no HOME for {fix}") from None
    folder = Path(named) if named else home / ".local" / "state"
    return folder / "hpabatch" / name
