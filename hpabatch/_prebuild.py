"""`python -m hpabatch._prebuild [FOLDER [MACHINE]]`: machine code of every kernel.

What is not kept yet is compiled, two kernels at a time; FOLDER gets the files that a wheel has.
MACHINE is the kind of machine as `uname -m` has it, such as aarch64; by default it is this one's.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hpabatch import _code, kernels
from hpabatch._jit import Compiled


def all_kernels() -> list[Compiled]:
    """Return what is compiled of the kernels, the slowest to compile first."""
    known: dict[str, Compiled] = {}
    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            code = getattr(value, "compiled", value)
            if isinstance(code, Compiled):
                name = code.function.__name__
                assert known.setdefault(name, code) is code, f"two kernels are called {name}"
    slow = ("simulate_fleet", "walk_observations", "replay_observations")
    return sorted(known.values(), key=lambda code: code.function.__name__ not in slow)


def build(folder: Path | None, machine: str = _code.MACHINE) -> None:
    """Compile what is not kept yet; write all of it to a folder, if there is one."""
    functions = [kernel.function for kernel in all_kernels()]
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda function: _code.code_of(function, machine), functions))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.o"):
            old.unlink()
        for function, code in zip(functions, codes, strict=True):
            path = folder / _code.file_of(function.__name__, machine)
            _code.keep(path, _code.DIGEST, code)
            _code.read(path, _code.DIGEST)  # (what cannot be kept is a warning only)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else None, *sys.argv[2:3])
