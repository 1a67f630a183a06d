"""Core install, as `make demo` makes it: the package without any extra."""

from __future__ import annotations

import os
import re
from importlib.metadata import distributions, requires
from pathlib import Path

_BLOCK = """
import sys
from importlib.machinery import PathFinder

class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if path is None and name in {names!r}:
            return None
        return super().find_spec(name, path, target)

sys.meta_path = [Core if finder is PathFinder else finder for finder in sys.meta_path]
"""


def core_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process in which only the core's packages can be imported."""
    (folder / "sitecustomize.py").write_text(_BLOCK.format(names=sorted(_outside())))
    return {**os.environ, "PYTHONPATH": str(folder)}


def _outside() -> set[str]:
    """Return the packages and modules that only an extra or a tool brings."""
    core, found = _core(), set[str]()
    kept = {"pip", "setuptools"}
    for distribution in distributions():
        name = _normal(distribution.name)
        tops = {str(file).partition("/")[0] for file in distribution.files or ()}
        tops = {top.removesuffix(".py") for top in tops if "." not in top or top.endswith(".py")}
        kept |= tops if name in core else set()
        found |= tops if name not in core else set()
    return {name for name in found - kept if name.isidentifier()}


def _core() -> set[str]:
    """Return the distributions that hpabatch needs without an extra."""
    found, todo = set[str](), ["hpabatch"]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        try:
            lines = requires(name) or []
        except ModuleNotFoundError:  # not on this platform
            continue
        plain = [line for line in lines if "extra ==" not in line]
        todo += [_normal(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in plain]
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
