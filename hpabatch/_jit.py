"""The only place that configures numba: the decorators `rule` and `kernel`, and the cache.

Numba's own cache looks at one file's contents and does not notice an edited rule in another file:
it would run old machine code without a word. So compiled code lives in a folder named by a digest
of every source that can end up in it, and old folders are pruned. The folder is looked for

1. where `HPABATCH_CACHE_DIR` says,
2. inside the package (`_kernels/`), if it is writable or was filled before the package was made
   read-only (a container image): then it is read in place and never written,
3. in the user's cache folder.

Without any of them every process compiles anew, and says so once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).resolve().parent
# All that compiled code can see, by the import contract; an edit elsewhere compiles nothing.
_COMPILED_SOURCES = ("_jit.py", "layout", "rules", "kernels")
_KEEP_FOLDERS = 3
_FOLDER_NAME = re.compile("[0-9a-f]{16}")  # nothing else in a named folder is ours to remove


def source_digest() -> str:
    """Return a digest (hex, 16 characters) of all sources that compiled code may contain."""
    digest = hashlib.sha256(numba.__version__.encode())
    for name in _COMPILED_SOURCES:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(PACKAGE).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _user_caches() -> list[Path]:
    """Return the user's cache, if it can be told whose that is."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return [(Path(base) if base else Path.home() / ".cache") / "hpabatch"]
    except RuntimeError:  # no HOME, and no name for the user's number, as in many containers
        return []


def _prune(base: Path, keep: Path) -> None:
    """Remove all but the newest folders; another process's folder may vanish meanwhile."""
    try:
        folders = [p for p in base.iterdir() if _FOLDER_NAME.fullmatch(p.name) and p.is_dir()]
        folders.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    except OSError:
        return
    for folder in folders[_KEEP_FOLDERS:]:
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)


def choose_cache_folder(digest: str) -> tuple[Path | None, bool]:
    """Return (folder or None, may it be written), by the order in the module's text."""
    named = os.environ.get("HPABATCH_CACHE_DIR")
    bases = [Path(named)] if named else [PACKAGE / "_kernels", *_user_caches()]
    for base in bases:
        folder = base / digest
        if _is_writable(folder):
            _prune(base, folder)
            return folder, True
        if folder.is_dir() and any(folder.rglob("*.nbi")):
            return folder, False
    return None, False


_INTERPRETED: bool = getattr(numba.config, "DISABLE_JIT", 0) != 0
_DIGEST = source_digest()
_FOLDER: Path | None
_FOLDER, _WRITABLE = (None, False) if _INTERPRETED else choose_cache_folder(_DIGEST)


class _PackageLocator(caching._CacheLocator):
    """Sends the compiled code of this package's functions to the chosen folder."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._line = py_func.__code__.co_firstlineno
        parent = Path(py_file).resolve().parent.relative_to(PACKAGE)
        self._path = str((_FOLDER or PACKAGE) / parent)

    def ensure_cache_path(self) -> None:
        # No probe file: the folder was tried once, when it was chosen.
        if _WRITABLE:
            Path(self._path).mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return _DIGEST

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _PackageLocator | None:
        inside = _FOLDER is not None and Path(py_file).resolve().is_relative_to(PACKAGE)
        return cls(py_func, py_file) if inside else None


if _FOLDER is not None:
    caching.CacheImpl._locator_classes.insert(0, _PackageLocator)
elif not _INTERPRETED:
    warnings.warn(
        "hpabatch: no folder for compiled code can be written, so every start compiles again "
        "(name one with HPABATCH_CACHE_DIR)",
        RuntimeWarning,
        stacklevel=2,
    )


def has_compiled(name: str) -> bool:
    """Say whether the cache holds compiled code of a function, so that a call starts at once."""
    if _INTERPRETED:
        return True  # there is nothing to compile
    return _FOLDER is not None and any(_FOLDER.rglob(f"*.{name}-*.nbi"))


def _compile(function: F, *, parallel: bool, inline: bool = True) -> F:
    # Rules never allocate, so they are compiled without reference counting: with it each call
    # counts every array up and down (measured: a tick of 20 pods 1.1 µs with,
    # 0.5 without). Forced inlining at machine level (0.12 µs) saves passing some hundred words a
    # call; it is not numba's `inline`, which would break writes inside prange.
    options: dict[str, Any] = (
        {} if parallel else {"_nrt": False, "no_cfunc_wrapper": True, "forceinline": inline}
    )
    compiled: Any = numba.njit(
        function,
        cache=_FOLDER is not None,
        nogil=True,
        error_model="numpy",  # division by zero gives Inf or NaN, as Go's floats do
        fastmath=False,  # it may move a ceil across an operation
        parallel=parallel,
        **options,
    )
    if _FOLDER is not None and not _WRITABLE:
        compiled._cache._save_overload = lambda sig, data: None
    return compiled  # type: ignore[no-any-return]


def rule(function: F) -> F:
    """Compile a scalar rule or a serial lane: no allocation, no exception, no clock."""
    return _compile(function, parallel=False)


def rare(function: F) -> F:
    """Compile what a lane does now and then as a function of its own.

    A call costs the time of passing some hundred words; inlined at every place where it is called,
    rare code makes compiling a kernel several times as long.
    """
    return _compile(function, parallel=False, inline=False)


def kernel(function: F) -> F:
    """Compile a loop over lanes with `prange`; its body must be one call of a serial function.

    Inside a `prange` body a write to an array that is a NamedTuple's attribute is lost without a
    word (measured with numba 0.68), and inlining brings that back, so neither is done here.
    """
    return _compile(function, parallel=True)
