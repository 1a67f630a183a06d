"""The folder of machine code: the digest of its sources, its choice, pruning.

What processes find there is tested on a copy of the package, with the quickest rule to compile.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hpabatch import _code

DIGEST = "0123456789abcdef"
COMPILED_LAYERS = ("layout", "rules", "kernels")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the package in a folder of its own, which `_code` takes for its own."""
    copy = copy_package(tmp_path)
    monkeypatch.setattr(_code, "PACKAGE", copy)
    monkeypatch.delenv("HPABATCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    return copy


def copy_package(folder: Path) -> Path:
    copy = folder / "site" / "hpabatch"
    ignored = shutil.ignore_patterns("_kernels", "__pycache__")
    shutil.copytree(Path(_code.__file__).parent, copy, ignore=ignored)
    return copy


# ---- the digest ----------------------------------------------------------------------------------


def test_the_digest_is_the_same_for_the_same_sources(package: Path) -> None:
    digest = _code.source_digest()
    assert digest == _code.DIGEST
    assert len(digest) == 16
    assert int(digest, 16) >= 0


@pytest.mark.parametrize("layer", COMPILED_LAYERS)
def test_an_edited_rule_in_any_compiled_layer_changes_the_digest(package: Path, layer: str) -> None:
    before = _code.source_digest()
    source = sorted((package / layer).glob("*.py"))[-1]
    text = source.read_text()
    source.write_text(text + "\n# edited\n")
    assert _code.source_digest() != before
    source.write_text(text)
    assert _code.source_digest() == before
    source.rename(source.with_name("renamed.py"))
    assert _code.source_digest() != before


@pytest.mark.parametrize("name", ["_jit.py", "_compile.py"])
def test_what_compiles_is_part_of_the_digest(package: Path, name: str) -> None:
    before = _code.source_digest()
    (package / name).write_text("")
    assert _code.source_digest() != before


def test_layers_that_compiled_code_cannot_see_do_not_matter(package: Path) -> None:
    before = _code.source_digest()
    (package / "cli" / "new.py").write_text("pass\n")
    (package / "model" / "validate.py").write_text("")
    (package / "packing" / "pack.py").write_text("")
    (package / "__init__.py").write_text("")
    assert _code.source_digest() == before


# ---- the choice ----------------------------------------------------------------------------------


def test_a_named_folder_comes_first(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPABATCH_CACHE_DIR", str(tmp_path / "named"))
    assert _code.choose_cache_folder(DIGEST) == (tmp_path / "named" / DIGEST, True)
    assert list((tmp_path / "named" / DIGEST).iterdir()) == []  # nothing is left of the try
    assert not (package / "_kernels").exists()


def test_a_named_folder_that_fails_is_not_replaced_by_another(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HPABATCH_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert _code.choose_cache_folder(DIGEST) == (None, False)
    assert not (package / "_kernels").exists()


def test_the_package_comes_second(package: Path) -> None:
    assert _code.choose_cache_folder(DIGEST) == (package / "_kernels" / DIGEST, True)


def test_the_users_cache_comes_last(package: Path, tmp_path: Path) -> None:
    (package / "_kernels").write_text("a file in the way, also for root")
    assert _code.choose_cache_folder(DIGEST) == (tmp_path / "user" / "hpabatch" / DIGEST, True)


def test_without_xdg_the_users_cache_is_in_the_home(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "_kernels").write_text("")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    expected = tmp_path / "home" / ".cache" / "hpabatch" / DIGEST
    assert _code.choose_cache_folder(DIGEST) == (expected, True)


def test_a_user_whose_home_nobody_knows_has_no_cache(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is in containers: a number without a name, and no HOME."""
    (package / "_kernels").write_text("")
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert _code.choose_cache_folder(DIGEST) == (None, False)


def test_nowhere_to_write_is_no_folder(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_code, "_is_writable", lambda folder: False)
    assert _code.choose_cache_folder(DIGEST) == (None, False)


def test_a_read_only_folder_is_used_if_it_was_filled(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_code, "_is_writable", lambda folder: "user" in str(folder))
    folder = package / "_kernels" / DIGEST
    folder.mkdir(parents=True)
    chosen, writable = _code.choose_cache_folder(DIGEST)
    assert chosen is not None
    assert (chosen.parent.name, writable) == ("hpabatch", True)  # an empty one is passed over
    (folder / "add64.0123.x86_64.o").write_text("")
    assert _code.choose_cache_folder(DIGEST) == (folder, False)


def test_writable_means_that_a_file_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _code._is_writable(tmp_path / "new" / "folder")
    (tmp_path / "file").write_text("")
    assert not _code._is_writable(tmp_path / "file" / "below")

    def refuse(**_: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert not _code._is_writable(tmp_path / "new" / "folder")


# ---- pruning -------------------------------------------------------------------------------------


def folder_names(count: int) -> list[str]:
    return [f"{k:016x}" for k in range(count)]


def test_pruning_keeps_the_newest_and_touches_nothing_else(tmp_path: Path) -> None:
    for age, name in enumerate(folder_names(6)):
        (tmp_path / name / "rules").mkdir(parents=True)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    others = ["notes", "0123456789abcdeX", "0123456789ABCDEF"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / "fedcba9876543210").write_text("a file")
    oldest = tmp_path / folder_names(6)[5]
    _code._prune(tmp_path, keep=oldest)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {*folder_names(3), oldest.name, *others, "fedcba9876543210"}


def test_choosing_a_folder_prunes_beside_it(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPABATCH_CACHE_DIR", str(tmp_path))
    for age, name in enumerate(folder_names(4)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    _code.choose_cache_folder(DIGEST)
    names = [name for name in [DIGEST, *folder_names(4)] if (tmp_path / name).exists()]
    assert names == [DIGEST, *folder_names(2)]


def test_a_folder_that_vanishes_meanwhile_is_no_error(tmp_path: Path) -> None:
    _code._prune(tmp_path / "gone", keep=tmp_path)


# ---- processes -----------------------------------------------------------------------------------

_ADD = """
import sys, tempfile
if "read-only" in sys.argv:
    def refuse(**_):
        raise PermissionError("read-only file system")
    tempfile.TemporaryFile = refuse
from hpabatch import _code, _jit
from hpabatch.rules.numbers import add64, sub64
compiled, compile_it = [], _code._compiled
_code._compiled = lambda *order: compiled.append(order) or compile_it(*order)
assert _jit.Compiled(add64)(2**62, 2**62) == -(2**63)
if "more" in sys.argv:
    assert _jit.Compiled(sub64)(-(2**63), 1) == 2**63 - 1
print(_code.FOLDER, _code.WRITABLE, len(compiled))
"""


def add_in_process(copy: Path, *words: str, **environment: str) -> tuple[str, bool, int, str]:
    """Return (folder, writable, functions compiled, stderr) of a process that adds two numbers."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HPABATCH", "NUMBA", "XDG"))}
    run = subprocess.run(
        [sys.executable, "-W", "always", "-c", _ADD, *words],
        env=kept | {"PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        cwd=copy.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    folder, writable, compiled = run.stdout.split()
    return folder, writable == "True", int(compiled), run.stderr


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below a folder with its time of change and contents."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.compiled
def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    copy, named = copy_package(tmp_path), str(tmp_path / "named")
    folder, writable, compiled, talk = add_in_process(copy, HPABATCH_CACHE_DIR=named)
    assert (Path(folder).parent, writable, compiled, talk) == (Path(named), True, 1, "")
    (kept,) = tree(Path(folder))
    assert kept == _code.file_of("add64")
    before = tree(Path(named))
    # It may be on a read-only file system: a further function is compiled and not written.
    again = add_in_process(copy, "read-only", "more", HPABATCH_CACHE_DIR=named)
    assert again == (folder, False, 1, "")
    assert tree(Path(named)) == before
    assert not (copy / "_kernels").exists()


@pytest.mark.compiled
def test_nowhere_to_write_is_one_warning_and_works(tmp_path: Path) -> None:
    copy = copy_package(tmp_path)
    (tmp_path / "file").write_text("")
    below = str(tmp_path / "file" / "below")
    folder, writable, compiled, talk = add_in_process(copy, HPABATCH_CACHE_DIR=below)
    assert (folder, writable, compiled) == ("None", False, 1)
    assert talk.count("RuntimeWarning") == 1
    assert "no folder for compiled code can be written" in talk
    assert "HPABATCH_CACHE_DIR" in talk
    assert not (copy / "_kernels").exists()


def test_interpreted_nothing_is_chosen_or_warned_of(tmp_path: Path) -> None:
    copy = copy_package(tmp_path)
    code = "from hpabatch import _code; from hpabatch.rules.numbers import add64; "
    code += "print(_code.FOLDER, add64(2**62, 2**62), type(add64).__name__)"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": str(copy.parent), "NUMBA_DISABLE_JIT": "1"},
        cwd=copy.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["None", "-9223372036854775808", "function"]
    assert run.stderr == ""
    assert not (copy / "_kernels").exists()
