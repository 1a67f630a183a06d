"""Cache of compiled code: its folder, and entries that are complete or count as missing.

Numba's own cache looks at one file's contents and does not notice an edited rule in another file:
it would silently run old machine code. So compiled code is kept in a folder named by a digest of
every source that can end up in it, and old folders are pruned. Candidates for the folder:

1. `HPABATCH_CACHE_DIR`,
2. `_kernels/` inside the package, if it is writable or was filled before the package was made
   read-only (a container image): then it is read in place and never written,
3. the user's cache folder.

A folder that other users could change is refused with a warning (`_trust`), and the next one is
tried: code found there is run. Folders above the package are not checked: whoever can change those
can change the sources too. Without any folder every process compiles again, with a warning. An
entry that cannot be read, or is not what was written, is compiled again and replaced; after an
entry that cannot be written (a full disk) there is a warning, and no more entries are written.

This file is not part of the digest: an edit here recompiles nothing, unless it changes _FORMAT.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import secrets
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, serialize

from hpabatch._trust import make_folder, why_not_ours

PACKAGE = Path(__file__).resolve().parent
# All that compiled code can see, by the import contract; an edit elsewhere compiles nothing.
_COMPILED_SOURCES = ("_jit.py", "layout", "rules", "kernels")
_FORMAT = b"2"
_KEEP_FOLDERS = 3
_FOLDER_NAME = re.compile("[0-9a-f]{16}")  # nothing else in a named folder is ours to remove
_CHECKSUM_BYTES = hashlib.sha256().digest_size


def source_digest() -> str:
    """Return a digest (hex, 16 characters) of all sources that compiled code may contain."""
    digest = hashlib.sha256(_FORMAT + numba.__version__.encode())
    for name in _COMPILED_SOURCES:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(PACKAGE).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        make_folder(folder)
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
    inside = PACKAGE / "_kernels"
    for base in [*([Path(named)] if named else []), inside, *_user_caches()]:
        folder = Path(os.path.realpath(base)) / digest
        top = PACKAGE if base == inside else None
        was_there = os.path.isdir(folder)
        refusal, writable = why_not_ours(folder, top), False
        if refusal is None:
            writable = _is_writable(folder)
        if refusal is None and not was_there:  # another process may have made it first
            refusal = why_not_ours(folder, top)
        if refusal is not None:
            _warn(
                f"expected a folder for compiled code that only this user and root can change, got "
                f"{base}, which is not used: {refusal}; correct that (chown, chmod go-w) or name "
                "another folder with HPABATCH_CACHE_DIR"
            )
        elif writable:
            _prune(folder.parent, folder)
            return folder, True
        elif any(folder.rglob("*.nbc")):
            return folder, False
        elif named:
            break
    return None, False


def _warn(message: str) -> None:
    warnings.warn(f"hpabatch: {message}", RuntimeWarning, stacklevel=3)


INTERPRETED: bool = getattr(numba.config, "DISABLE_JIT", 0) != 0
DIGEST = source_digest()
FOLDER: Path | None
FOLDER, WRITABLE = (None, False) if INTERPRETED else choose_cache_folder(DIGEST)
if FOLDER is None and not INTERPRETED:
    _warn(
        "no folder for compiled code can be written, so every start compiles again "
        "(name one with HPABATCH_CACHE_DIR)"
    )


def has_compiled(name: str) -> bool:
    """Say whether the cache holds compiled code of a function, so that a call starts at once."""
    if INTERPRETED:
        return True  # there is nothing to compile
    return FOLDER is not None and any(FOLDER.rglob(f"*.{name}-*.nbc"))


class _PackageLocator(caching._CacheLocator):
    """Sends the compiled code of this package's functions to the chosen folder."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._line = py_func.__code__.co_firstlineno
        parent = Path(py_file).resolve().parent.relative_to(PACKAGE)
        self._path = (FOLDER or PACKAGE) / parent

    def ensure_cache_path(self) -> None:
        # No probe file: the folder was tried once, when it was chosen.
        make_folder(self._path)

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return DIGEST

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _PackageLocator:
        return cls(py_func, py_file)


class _Code(caching.CompileResultCacheImpl):
    _locator_classes = [_PackageLocator]  # noqa: RUF012  (numba's own attribute)


class _Entries:
    """The entries of one function: a file for each signature and processor, named after them.

    Numba's own has an index, which is another file to be whole, and for which processes race: one
    could get the code of another signature.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = Path(folder), name

    def _path(self, key: object) -> Path:
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self._folder / f"{self._name}.{name}.nbc"

    def load(self, key: object) -> Any:
        """Return an entry, None if there is none that is whole."""
        try:
            # (opening a named pipe would wait for its writer)
            handle = os.open(self._path(key), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(handle, "rb") as stream:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    return None
                data = stream.read()
        except OSError:
            return None
        checksum, packed = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
        if hashlib.sha256(packed).digest() != checksum:
            return None
        kept, code = pickle.loads(packed)  # noqa: S301  (the folder is this user's or root's)
        return code if kept == key else None

    def save(self, key: object, code: object) -> None:
        """Write an entry whole or not at all, in place of whatever has its name.

        Raises:
            OSError: it cannot be written.
        """
        packed = serialize.dumps((key, code))  # type: ignore[no-untyped-call]
        path = self._path(key)
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            # Not flushed to disk: what a crash of the machine cuts off, the checksum shows.
            with open(handle, "wb") as stream:
                stream.write(hashlib.sha256(packed).digest() + packed)
            if path.is_dir():
                shutil.rmtree(path)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


class KernelCache(caching.FunctionCache):
    """Numba's cache of a function, over our folder and entries; it never fails a call."""

    _impl_class = _Code

    def __init__(self, function: Callable[..., Any]) -> None:
        """Take a function of this package."""
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file: Any = _Entries(self._cache_path, self._impl.filename_base)

    def load_overload(self, sig: object, target_context: object) -> Any:
        """Return compiled code, None if there is none that can be used."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001  (of another numpy, say: unpickling can raise anything)
            return None

    def save_overload(self, sig: object, data: object) -> None:
        """Keep compiled code if the folder may be written; a failure is one warning a process."""
        global WRITABLE
        if not WRITABLE:
            return
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            WRITABLE = False
            _warn(
                f"compiled code cannot be kept in {FOLDER}: {error.strerror or error}; the work "
                "goes on, and the next start compiles again: make room there or name another "
                "folder with HPABATCH_CACHE_DIR"
            )
