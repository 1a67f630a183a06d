"""Trusted folders: those that only this user and root can change.

Compiled code is run as it is found, and an import reads its intermediate files again, also those
of an interrupted one, so both are read only from such a folder. "This user" includes, besides the
user's number, what containers use in its place:

* the user's private group (of the same name, with no other member): the umask 002 of many
  distributions makes folders writable by it;
* group 0, as images for OpenShift have it: their folders belong to group 0 and are writable by it,
  and the container runs under any number, in group 0. On hosts only root is in that group.

Standard library only.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def why_not_ours(folder: Path, top: Path | None = None) -> str | None:
    """Return why others could change what a folder holds; None: they cannot, or it is not there.

    Looks at all that is in the folder and at every folder above it, since whoever can write there
    can put another one in its place.

    Args:
        folder: an absolute path without links (os.path.realpath).
        top: this folder and those above it are believed unseen.
    """
    if (fault := why_replaceable(folder, top)) is not None:
        return fault
    found = (_fault_of(place) for place in _below(folder))
    return next((fault for fault in found if fault is not None), None)


def why_replaceable(folder: Path, top: Path | None = None) -> str | None:
    """Return why others could put another folder in the place of one; None: they cannot.

    Args:
        folder: an absolute path without links (os.path.realpath); it need not be there.
        top: this folder and those above it are believed unseen.
    """
    above = [p for p in reversed(folder.parents) if top is None or p.is_relative_to(top)]
    found = (_fault_of(p, is_above=True) for p in (above if top is None else above[1:]))
    return next((fault for fault in found if fault is not None), None)


def why_not_private(folder: Path) -> str | None:
    """Return why others could change a folder itself; None: they cannot, or it is not there."""
    return _fault_of(folder)


def make_folder(folder: Path, mode: int = 0o755) -> None:
    """Make a folder with those above it, never writable by others, however wide the umask is.

    Raises:
        OSError: it cannot be made.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode)


def _below(folder: Path) -> Iterator[Path]:
    yield folder
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def _fault_of(path: Path, *, is_above: bool = False) -> str | None:
    """Return what is wrong with the owner or the mode of a file or folder."""
    try:
        found = path.lstat()
    except OSError:  # not there, or not to be seen: then nothing is read from it either
        return None
    name = str(path) if str(path).isprintable() else repr(str(path))
    if stat.S_ISLNK(found.st_mode):
        return f"{name} is a link"
    users = (0, os.geteuid())
    if found.st_uid not in users and not (found.st_gid == 0 and _stands_for_group_0()):
        return f"{name} belongs to user {found.st_uid}"
    if is_above and found.st_mode & stat.S_ISVTX:
        return None  # as /tmp: nobody but the owner of what is in there can rename it
    if found.st_mode & stat.S_IWOTH:
        return f"{name} can be written by everybody"
    if found.st_mode & stat.S_IWGRP and found.st_gid != 0 and not _is_private(found.st_gid):
        return f"{name} can be written by group {found.st_gid}"
    return None


def _stands_for_group_0() -> bool:
    """Whether this process is known by its group 0 and not by its user, as on OpenShift."""
    return os.geteuid() != 0 and 0 in (os.getegid(), *os.getgroups())


def _is_private(group: int) -> bool:
    try:
        user, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user and set(found.gr_mem) <= {user}
