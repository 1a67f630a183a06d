"""Machine code of kernels: the folder where it is kept, its files, and how it is loaded.

A file is one function for one kind of processor, whatever the Python. It lies in
a folder named by a digest of every source that can end up in it; old folders are pruned. A wheel
brings the code of all kernels (`hpabatch._prebuild`), in `_kernels/` itself: code of other sources,
for another processor, damaged or in a folder that others can write is named and not used.

Candidates for the folder of what is compiled here:

1. `HPABATCH_CACHE_DIR`,
2. `_kernels/` inside the package, if it is writable or was filled before the package was made
   read-only: then it is read in place and never written,
3. the user's cache folder.

A folder that other users could change is refused with a warning (`_trust`), and the next one is
tried: code found there is run. Folders above the package are not checked: whoever can change those
can change the sources too. Without any folder every process compiles again, with a warning. A file
that cannot be read, or is not what was written, is compiled again and replaced; after one that
cannot be written (a full disk) there is a warning, and no more are written.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpabatch._jit import INTERPRETED
from hpabatch._trust import make_folder, why_not_ours
from hpabatch.errors import UsageError

PACKAGE = Path(__file__).resolve().parent
# All that compiled code can see, by the import contract; an edit elsewhere compiles nothing.
_COMPILED_SOURCES = ("_jit.py", "_compile.py", "layout", "rules", "kernels")
_FORMAT = b"hpabatch kernel 4\n"
_KEEP_FOLDERS = 3
_FOLDER_NAME = re.compile("[0-9a-f]{16}")  # nothing else in a named folder is ours to remove
_HEAD_BYTES = len(_FORMAT) + 16 + hashlib.sha256().digest_size


def source_digest() -> str:
    """Return a digest (hex, 16 characters) of all sources that compiled code may contain."""
    digest = hashlib.sha256(_FORMAT)
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
        elif any(folder.glob("*.o")):
            return folder, False
        elif named:
            break
    return None, False


def _warn(message: str) -> None:
    warnings.warn(f"hpabatch: {message}", RuntimeWarning, stacklevel=3)


_warn_once = functools.cache(_warn)


DIGEST = source_digest()
FOLDER: Path | None
FOLDER, WRITABLE = (None, False) if INTERPRETED else choose_cache_folder(DIGEST)


MACHINE = os.uname().machine
PREBUILT = PACKAGE / "_kernels"
"""Where a wheel has the machine code of all kernels."""
# What machine code may call besides itself; LLVM ends the process where it finds a name nowhere.
_C_FUNCTIONS = (
    *("memset", "memcpy", "memmove", "memcmp"),
    *("ceil", "floor", "trunc", "rint", "log", "log1p", "exp", "expm1", "pow", "sqrt"),
)
_ENGINES: list[Any] = []


class UnfitError(Exception):
    """A file is not machine code of these sources, or not whole."""


def has_compiled(name: str) -> bool:
    """Say whether there is machine code of a function, so that a call starts at once."""
    if INTERPRETED:
        return True  # there is nothing to compile
    file = file_of(name)
    return file in prebuilt()[0] or (FOLDER is not None and (FOLDER / file).exists())


def file_of(name: str, machine: str = MACHINE) -> str:
    """Return the file name of a function's machine code."""
    return f"{name}.{machine}.o"


@functools.cache
def prebuilt() -> tuple[dict[str, bytes], str]:
    """Return the code that came with a wheel, by file name, and a fault.

    With a fault there is no code: it must not be used. Where none came both are empty.
    """
    files = sorted(PREBUILT.glob("*.o"))
    if not files:
        return {}, ""
    if (refusal := why_not_ours(Path(os.path.realpath(PREBUILT)), PACKAGE)) is not None:
        return {}, refusal
    try:
        whole = {p.name: read(p, DIGEST) for p in files if p.name.endswith(f".{MACHINE}.o")}
    except (UnfitError, OSError) as error:
        return {}, str(error)
    others = ", ".join(sorted({path.name.split(".")[-2] for path in files}))
    return whole, "" if whole else f"only code for {others}, and this machine is {MACHINE}"


def load(function: Callable[..., Any]) -> Callable[[int], int]:
    """Return a function as machine code: it takes the address of its words, without a lock."""
    return _linked(code_of(function), function.__name__)


def code_of(function: Callable[..., Any], machine: str = MACHINE) -> bytes:
    """Return a function's machine code (ELF), from where it is kept or compiled, and then kept.

    Raises:
        UsageError: the process that compiles it failed; it has said why.
    """
    file, digest = file_of(function.__name__, machine), DIGEST
    source = Path(sys.modules[function.__module__].__file__ or "").resolve()
    if not source.is_relative_to(PACKAGE):
        digest = hashlib.sha256(DIGEST.encode() + source.read_bytes()).hexdigest()[:16]
    else:
        kept, fault = prebuilt()
        if fault:
            _warn_once(
                f"expected compiled kernels of this version in {PREBUILT}, got {fault}; they are "
                "not used, and kernels are compiled once instead: install hpabatch again, in a "
                "folder that only its owner can change"
            )
        elif file in kept:
            return kept[file]
    path = None if FOLDER is None else FOLDER / file
    if path is None:
        _warn_once(
            "no folder for compiled code can be written, so every start compiles again "
            "(name one with HPABATCH_CACHE_DIR)"
        )
    else:
        with suppress(UnfitError, OSError):
            return read(path, digest)
    code = _compiled(function, machine)
    if path is not None and WRITABLE:
        keep(path, digest, code)
    return code


def _compiled(function: Callable[..., Any], machine: str) -> bytes:
    # In a process of its own: this one needs no numba, and Python may use it meanwhile. Settings of
    # numba would change code that is kept for all. Ctrl-C is for this process, which ends that one.
    # The code comes through a pipe, as anybody's code may write to stdout.
    folders = [*map(os.path.abspath, filter(None, sys.path)), str(PACKAGE.parent)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    order = (machine, function.__module__, function.__name__)
    reading, writing = os.pipe()
    with open(reading, "rb") as answer:
        try:
            child = subprocess.Popen(  # noqa: S603 - this program
                [sys.executable, "-P", "-m", "hpabatch._compile", str(writing), *order],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(writing,),
                env={**environment, "PYTHONPATH": os.pathsep.join(folders)},
                cwd=PACKAGE.parent,
                process_group=0,
            )
        finally:
            os.close(writing)
        with child:
            try:
                code = answer.read()
            except BaseException:
                child.kill()
                raise
    if child.returncode != 0 or not code:
        raise UsageError(
            f"{function.__name__} cannot be compiled: expected exit code 0 of the process that "
            f"does it, got {child.returncode}; mend what it says above, give it more memory, or "
            "name a folder of compiled code with HPABATCH_CACHE_DIR"
        )
    return code


@functools.cache
def _machine_code() -> Any:
    """Return llvmlite, which only loads here: it knows this processor and functions of C."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in _C_FUNCTIONS:
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
        llvm.add_symbol(name, address)
    return llvm


def _linked(code: bytes, symbol: str) -> Callable[[int], int]:
    llvm = _machine_code()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)  # (it owns the code)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address(symbol))


def read(path: Path, digest: str) -> bytes:
    """Return a file's code.

    Raises:
        UnfitError: it is of other sources, or not what was written.
        OSError: there is none, or it cannot be read.
    """
    # (opening a named pipe would wait for its writer)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnfitError(f"{path.name}, which is no file")
        head, code = stream.read(_HEAD_BYTES), stream.read()
    if head == _head(path, digest, code):
        return code
    begin = _FORMAT + digest.encode()
    if head.startswith(_FORMAT) and not head.startswith(begin):
        raise UnfitError(f"{path.name} of another version")
    raise UnfitError(f"{path.name}, which is damaged")


def _head(path: Path, digest: str, code: bytes) -> bytes:
    check = hashlib.sha256(path.name.encode() + digest.encode() + code).digest()
    return _FORMAT + digest.encode() + check


def keep(path: Path, digest: str, code: bytes) -> None:
    """Write a file whole or not at all, in place of whatever has its name."""
    global WRITABLE
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            # Not flushed to disk: what a crash of the machine cuts off, the checksum shows.
            with open(handle, "wb") as stream:
                stream.write(_head(path, digest, code) + code)
            if path.is_dir():
                shutil.rmtree(path)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        WRITABLE = False
        _warn(
            f"compiled code cannot be kept in {FOLDER}: {error.strerror or error}; the work "
            "goes on, and the next start compiles again: make room there or name another "
            "folder with HPABATCH_CACHE_DIR"
        )
