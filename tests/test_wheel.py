"""The wheel with compiled kernels: installed, commands compile nothing and need no numba."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hpabatch import _code
from hpabatch._prebuild import all_kernels, build

ROOT = Path(__file__).parents[1]
DEMO = str(ROOT / "data" / "demo")
HPA = "shop/checkout"
# Numba cannot be imported: neither by a command nor by a process that would compile.
NO_NUMBA = 'import sys; sys.modules["numba"] = None\n'

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel installed, as `make wheel` makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    build(folder / "kernels")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    own = {**os.environ, "HPABATCH_KERNELS": str(folder / "kernels")}
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(wheel, env=own, check=True)
    (made,) = folder.glob("*.whl")
    assert made.name.endswith(f"-py3-none-manylinux_2_17_{platform.machine()}.whl")
    place = folder / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place), str(made)], check=True)
    (place / "sitecustomize.py").write_text(NO_NUMBA)
    return place


def test_a_link_to_the_package_leads_to_the_same_code(site: Path) -> None:
    (site / "linked").symlink_to(site)
    loaded = "from hpabatch._prebuild import all_kernels; [k.code for k in all_kernels()]"
    own = {"PYTHONPATH": str(site / "linked"), "HPABATCH_CACHE_DIR": str(site / "own")}
    subprocess.run([sys.executable, "-P", "-c", loaded], env={**os.environ, **own}, check=True)
    assert not list((site / "own").rglob("*.o"))


def run(site: Path, *words: str) -> str:
    """Run a command of the installed wheel, of a user who has compiled nothing; return stdout."""
    done = subprocess.run(
        [sys.executable, str(site / "bin" / "hpabatch"), *words],
        env={**os.environ, "PYTHONPATH": str(site), "HPABATCH_CACHE_DIR": str(site / "own")},
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_it_has_the_code_of_all_kernels_as_it_is_compiled_here(site: Path) -> None:
    codes = {
        _code.file_of(kernel.function.__name__): _code.code_of(kernel.function)
        for kernel in all_kernels()
    }
    assert codes == {
        path.name: _code.read(path, _code.DIGEST)
        for path in (site / "hpabatch" / "_kernels").iterdir()
    }


@pytest.mark.parametrize(
    "command",
    [
        ["--version"],
        ["replay", DEMO, HPA, "--out", "decisions.parquet"],
        ["advise", DEMO, HPA, "--grid", "target=x0.9,x1.1", "--no-fidelity", "--out", "advice"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_compiles_or_needs_numba(command: list[str], site: Path) -> None:
    shown = run(site, *command)
    assert command[0] != "--version" or "kernels: prebuilt\n" in shown
    assert not list((site / "own").rglob("*.o"))


def test_code_that_is_of_another_version_is_not_used(site: Path) -> None:
    """The version that is told is of all files: none is used if one does not fit."""
    path = site / "hpabatch" / "_kernels" / _code.file_of("replay_newest")
    whole = path.read_bytes()
    _code.keep(path, "0" * 16, b"code")
    try:
        told = f"kernels: compiled (prebuilt ones: {path.name} of another version)\n"
        assert told in run(site, "--version")
    finally:
        path.write_bytes(whole)


def test_code_for_another_kind_of_machine_needs_no_linker_and_no_such_machine() -> None:
    """An object for AArch64: ELF of 64 bits, little endian, type 1, machine 183."""
    (kernel,) = (k for k in all_kernels() if k.function.__name__ == "count_kept")
    code = _code.code_of(kernel.function, "aarch64")
    assert code[:6] == b"\x7fELF\x02\x01"
    assert struct.unpack_from("<HH", code, 16) == (1, 183)
