"""Files of machine code that are damaged, foreign, or cannot be written.

What becomes of a process with them is tested on a copy of the package, with the quickest rule to
compile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hpabatch import _code
from tests.test_jit import DIGEST, copy_package, package
from tests.test_trust import needs_root

__all__ = ["package"]

FILE, CODE = f"rule.{_code.MACHINE}.o", b"machine code" * 100


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def be_folder(path: Path) -> None:
    path.unlink()
    (path / "below").mkdir(parents=True)


def be_of_another_function(path: Path) -> None:
    other = path.with_name(f"other.{_code.MACHINE}.o")
    _code.keep(other, DIGEST, CODE)
    other.replace(path)


def be_of_other_sources(path: Path) -> None:
    _code.keep(path, DIGEST[::-1], CODE)


def be_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def be_link(path: Path) -> None:
    """Stand for the same bytes at a place whose owner nobody has looked at."""
    path.symlink_to(path.rename(path.parent.parent / "elsewhere"))


DAMAGES: list[Callable[[Path], object]] = [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"no object at all" * 9),
    Path.unlink,
    cut,
    flip,
    be_folder,
    be_pipe,
    be_link,
    be_of_another_function,
    be_of_other_sources,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_that_is_not_what_was_written_is_missing_and_replaced(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    path = folder / FILE
    _code.keep(path, DIGEST, CODE)
    assert _code.read(path, DIGEST) == CODE
    damage(path)
    with pytest.raises((_code.UnfitError, OSError)):
        _code.read(path, DIGEST)
    _code.keep(path, DIGEST, CODE)
    assert _code.read(path, DIGEST) == CODE
    assert list(folder.iterdir()) == [path]  # no temporary file is left


def test_new_entries_cannot_be_written_by_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _code.keep(tmp_path / FILE, DIGEST, CODE)
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644


# ---- code that comes with a wheel ----------------------------------------------------------------


def of_another_machine(path: Path) -> None:
    path.rename(path.with_name("rule.riscv64.o"))


def writable_by_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (Path.unlink, ""),
        (cut, f"{FILE}, which is damaged"),
        (flip, f"{FILE}, which is damaged"),
        (be_of_another_function, f"{FILE}, which is damaged"),
        (be_of_other_sources, f"{FILE} of another version"),
        (of_another_machine, f"only code for riscv64, and this machine is {_code.MACHINE}"),
        (writable_by_all, f"{FILE} can be written by everybody"),
    ],
)
def test_prebuilt_code_is_used_if_it_is_of_these_sources_for_this_machine_and_whole(
    spoil: Callable[[Path], object],
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_code, "DIGEST", DIGEST)
    monkeypatch.setattr(_code, "PACKAGE", tmp_path)
    monkeypatch.setattr(_code, "PREBUILT", tmp_path)
    _code.keep(tmp_path / FILE, DIGEST, CODE)
    assert _code.prebuilt.__wrapped__() == ({FILE: CODE}, "")
    spoil(tmp_path / FILE)
    codes, found = _code.prebuilt.__wrapped__()
    assert not codes
    assert found.endswith(fault)
    assert bool(found) == bool(fault)


# ---- folders of others ---------------------------------------------------------------------------


def test_a_folder_that_others_can_write_is_named_once_and_the_next_one_is_used(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named"
    named.mkdir()
    named.chmod(0o777)
    monkeypatch.setenv("HPABATCH_CACHE_DIR", str(named))
    with pytest.warns(RuntimeWarning) as told:
        chosen = _code.choose_cache_folder(DIGEST)
    assert chosen == (package / "_kernels" / DIGEST, True)
    (message,) = [str(one.message) for one in told]
    assert f"got {named}, which is not used: {named} can be written by everybody" in message
    assert "chmod go-w" in message
    assert list(named.iterdir()) == []


def test_what_lies_in_a_folder_counts_too(package: Path, tmp_path: Path) -> None:
    folder = package / "_kernels" / DIGEST
    folder.mkdir(parents=True)
    (folder / "add64.o").write_text("")
    (folder / "add64.o").chmod(0o666)
    with pytest.warns(RuntimeWarning, match="add64.o can be written by everybody"):
        chosen = _code.choose_cache_folder(DIGEST)
    assert chosen == (tmp_path / "user" / "hpabatch" / DIGEST, True)


def test_folders_above_the_package_are_as_good_as_its_sources(package: Path) -> None:
    package.parent.chmod(0o777)
    assert _code.choose_cache_folder(DIGEST) == (package / "_kernels" / DIGEST, True)


def test_folders_above_a_users_cache_count(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "_kernels").write_text("a file in the way, also for root")
    (tmp_path / "user").mkdir()
    (tmp_path / "user").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="user can be written by everybody"):
        assert _code.choose_cache_folder(DIGEST) == (None, False)
    (tmp_path / "link").symlink_to(tmp_path / "user")  # the same by another name
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    with pytest.warns(RuntimeWarning, match="user can be written by everybody"):
        assert _code.choose_cache_folder(DIGEST) == (None, False)


AS_USERS = """
import os, sys, warnings
from hpabatch import _code
warnings.simplefilter("error")
for pair in sys.argv[1:]:
    user, group = map(int, pair.split(":"))
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        try:
            found = _code.choose_cache_folder("0123456789abcdef")
        except RuntimeWarning as warning:
            found = warning
        print(pair, found, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@needs_root
def test_a_filled_folder_is_read_by_users_who_cannot_write_it_if_root_or_they_own_it() -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name, "cache", DIGEST)
        folder.mkdir(parents=True)
        (folder / "add64.o").write_text("")

        def chosen_by(*pairs: str) -> dict[str, str]:
            run = subprocess.run(
                [sys.executable, "-c", AS_USERS, *pairs],
                env=os.environ
                | {"HPABATCH_CACHE_DIR": str(folder.parent), "NUMBA_DISABLE_JIT": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
            return {line.partition(" ")[0]: line for line in run.stdout.splitlines()}

        read = chosen_by("65534:65534")
        assert read["65534:65534"] == f"65534:65534 ({folder!r}, False)"
        for path in (folder.parent, folder, folder / "add64.o"):
            os.chown(path, 1001, 0)
            path.chmod(0o775)
        found = chosen_by("0:0", "1001:1001", "1000650000:0", "65534:65534")
        for pair in ("0:0", "65534:65534"):
            assert f"{folder.parent} belongs to user 1001" in found[pair]
        # its owner; and by the convention of OpenShift, whoever is in group 0
        for pair in ("1001:1001", "1000650000:0"):
            assert found[pair] == f"{pair} ({folder!r}, True)"


# ---- processes -----------------------------------------------------------------------------------

SETUP = """
from pathlib import Path
from hpabatch import _code, _jit
from hpabatch.rules.numbers import add64

compiled, compile_it = [], _code._compiled
_code._compiled = lambda *order: compiled.append(order) or compile_it(*order)

def again():
    'Add as a process that has just begun; return how often that compiled.'
    before = len(compiled)
    _code.prebuilt.cache_clear()
    assert _jit.Compiled(add64)(2**62, 2**62) == -(2**63)
    return len(compiled) - before

def entries():
    return sorted(path for path in Path(_code.FOLDER).rglob("*") if path.is_file())
"""

DAMAGED = """
assert (again(), again()) == (1, 0)
(path,) = entries()
whole = path.read_bytes()
for part in (whole[:-1], b"garbage" * 30):
    path.write_bytes(part)
    assert (again(), again()) == (1, 0), part[:40]
    assert entries() == [path]
    assert path.read_bytes() == whole
"""

PREBUILT_DAMAGED = """
_code.PREBUILT.mkdir()
(_code.PREBUILT / _code.file_of("add64")).write_bytes(b"garbage")
assert (again(), again()) == (1, 0)
"""

FULL = """
import resource
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
assert (again(), again()) == (1, 1)
assert entries() == []
"""


def in_process(copy: Path, code: str, **environment: str) -> str:
    """Run code with the copy of the package; return its stderr."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HPABATCH", "NUMBA", "XDG"))}
    run = subprocess.run(
        [sys.executable, "-W", "always", "-c", SETUP + code],
        env=kept | {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        cwd=copy.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stderr


@pytest.mark.compiled
def test_a_process_compiles_again_what_is_damaged_and_says_nothing(tmp_path: Path) -> None:
    assert in_process(copy_package(tmp_path), DAMAGED) == ""


@pytest.mark.compiled
def test_a_process_names_prebuilt_code_that_is_damaged_and_compiles(tmp_path: Path) -> None:
    copy, own = copy_package(tmp_path), str(tmp_path / "own")
    talk = in_process(copy, PREBUILT_DAMAGED, HPABATCH_CACHE_DIR=own)
    assert talk.count("RuntimeWarning") == 1
    assert f"in {copy / '_kernels'}, got add64.{_code.MACHINE}.o, which is damaged" in talk


@pytest.mark.compiled
def test_a_full_disk_is_one_warning_and_the_work_goes_on(tmp_path: Path) -> None:
    """Files cannot grow beyond 100 bytes: a real write that really fails."""
    copy = copy_package(tmp_path)
    talk = in_process(copy, FULL)
    assert talk.count("RuntimeWarning") == 1
    assert f"cannot be kept in {copy / '_kernels'}" in talk
    assert "File too large" in talk
    assert "HPABATCH_CACHE_DIR" in talk
