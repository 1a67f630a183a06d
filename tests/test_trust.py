"""Tests of trusted folders: owners, modes, links, the folders above, group 0."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hpabatch._trust import make_folder, why_not_ours, why_not_private

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
STRANGER = 4711


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a file in it, a folder below another one."""
    folder = tmp_path / "above" / "folder"
    make_folder(folder)
    (folder / "entry").write_text("")
    (folder / "entry").chmod(0o644)
    return folder


def test_a_folder_of_our_own_is_ours_and_so_is_one_that_is_not_there(place: Path) -> None:
    assert why_not_ours(place) is None
    assert why_not_ours(place / "new" / "newer") is None
    assert why_not_ours(place / "entry" / "below") is None  # nothing can be there


@pytest.mark.parametrize("name", ["above", "above/folder", "above/folder/entry"])
def test_what_everybody_can_write_is_not_ours(place: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).chmod(0o757)
    expected = f"{tmp_path / name} can be written by everybody"
    assert why_not_ours(place) == expected
    assert why_not_private(tmp_path / name) == expected


def test_folders_up_to_the_top_are_not_looked_at(place: Path, tmp_path: Path) -> None:
    (tmp_path / "above").chmod(0o777)
    assert why_not_ours(place, tmp_path / "above") is None
    assert why_not_ours(place, tmp_path) is not None


def test_a_sticky_folder_above_lets_nobody_rename_but_must_not_hold_entries(place: Path) -> None:
    place.parent.chmod(0o1777)
    assert why_not_ours(place) is None
    assert why_not_ours(place.parent) is not None


def test_a_link_is_not_followed(place: Path) -> None:
    (place / "link").symlink_to(place / "entry")
    assert why_not_ours(place) == f"{place / 'link'} is a link"


def test_a_name_that_another_user_chose_does_not_drive_the_terminal(place: Path) -> None:
    (place / "\x1b[31mred\n").symlink_to(place / "entry")
    assert why_not_ours(place) == f"'{place}/\\x1b[31mred\\n' is a link"


def test_the_mask_of_new_files_opens_no_new_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b")
        make_folder(tmp_path / "a" / "c", 0o700)
    finally:
        os.umask(before)
    assert why_not_ours(tmp_path / "a" / "b") is None
    assert stat.S_IMODE((tmp_path / "a" / "c").stat().st_mode) == 0o700


@needs_root
def test_what_another_user_owns_is_not_ours(place: Path) -> None:
    os.chown(place / "entry", STRANGER, STRANGER)
    assert why_not_ours(place) == f"{place / 'entry'} belongs to user {STRANGER}"
    os.chown(place.parent, STRANGER, STRANGER)
    assert why_not_ours(place) == f"{place.parent} belongs to user {STRANGER}"
    place.parent.chmod(0o1777)
    assert why_not_ours(place) is not None  # the owner of a sticky folder can rename as well
    os.chown(place.parent, STRANGER, 0)
    assert why_not_ours(place) is not None  # root is known by its number


@needs_root
def test_another_group_must_not_write_and_group_0_may(place: Path) -> None:
    place.chmod(0o775)
    assert why_not_ours(place) is None
    os.chown(place, 0, STRANGER)
    assert why_not_ours(place) == f"{place} can be written by group {STRANGER}"


def named_user() -> tuple[int, int]:
    """Return the numbers of a user, and of its group of the same name without other members."""
    for user in pwd.getpwall():
        group = grp.getgrgid(user.pw_gid) if user.pw_uid else None
        if group is not None and group.gr_name == user.pw_name and not group.gr_mem:
            return user.pw_uid, user.pw_gid
    raise AssertionError("no user has a private group here")


AS_USERS = """
import os, sys
from pathlib import Path
from hpabatch._trust import why_not_ours
for user, group in [map(int, pair.split(":")) for pair in sys.argv[2:]]:
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        print(f"{user}:{group}", why_not_ours(Path(sys.argv[1])), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Return a folder that every user can look into, with a file in it."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name, "folder")
        folder.mkdir()
        (folder / "entry").write_text("")
        yield folder


def reasons(folder: Path, *pairs: str) -> dict[str, str]:
    """Return what each user and group has against a folder."""
    run = subprocess.run(
        [sys.executable, "-c", AS_USERS, str(folder), *pairs],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.partition(" ") for line in run.stdout.splitlines())
    return {pair: why for pair, _, why in lines}


@needs_root
def test_an_image_for_openshift_is_its_users_whatever_their_number(open_place: Path) -> None:
    """Made by one user for group 0 (chgrp -R 0, chmod -R g=u), run by another one in group 0."""
    for path in (open_place, open_place / "entry"):
        os.chown(path, 1001, 0)
        path.chmod(0o775)
    found = reasons(open_place, "1000650000:0", "1001:1001", "1000650000:1000")
    assert found == {
        "1000650000:0": "None",
        "1001:1001": "None",  # its own, and only group 0 can write there
        "1000650000:1000": f"{open_place} belongs to user 1001",
    }
    (open_place / "entry").chmod(0o777)
    found = reasons(open_place, "1000650000:0")
    assert "can be written by everybody" in found["1000650000:0"]


@needs_root
def test_a_users_private_group_may_write(open_place: Path) -> None:
    user, group = named_user()
    os.chown(open_place, user, group)
    open_place.chmod(0o775)
    found = reasons(open_place, f"{user}:{group}", "0:0", f"{STRANGER}:{group}")
    assert found == {
        f"{user}:{group}": "None",
        "0:0": f"{open_place} belongs to user {user}",
        f"{STRANGER}:{group}": f"{open_place} belongs to user {user}",
    }
