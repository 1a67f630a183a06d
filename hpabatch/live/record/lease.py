"""Recorder lease: one recorder at a time for each store and cluster.

In a local folder the kernel keeps the lock, so it ends with the process, however that ends. An
object storage has only "create if absent": there a lease is a numbered object that names its
holder; it is renewed by creating the next number, and expires otherwise.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from hpabatch._json import decode_json
from hpabatch.errors import UsageError
from hpabatch.history.store.catalog import quote
from hpabatch.history.store.storage import WORK, LocalStorage, Storage

EXPIRES_S: Final = 120.0
RENEW_S: Final = 30.0
_DIGITS: Final = 12


class Lease(Protocol):
    """The right to record a cluster into a store."""

    def renew(self) -> None:
        """Keep it (UsageError: another recorder has it now, or the store cannot be written)."""

    def release(self) -> None:
        """Release it; never fails."""


def take_lease(storage: Storage, cluster: str) -> Lease:
    """Take the right to record a cluster into a store.

    Raises:
        UsageError: another recorder has it, or the store cannot be written.
    """
    if isinstance(storage, LocalStorage):
        return FileLease(storage, cluster)
    return ObjectLease(storage, cluster)


class FileLease:
    """A locked file beside a local store's unfinished ones."""

    def __init__(self, storage: LocalStorage, cluster: str) -> None:
        """Take it (UsageError: it is taken, or the folder cannot be written)."""
        self._path = storage.root / WORK / f"recorder-{quote(cluster)}.lock"
        self._place = storage.location
        self._cluster = cluster
        self._file = self._locked()

    def _locked(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"cannot write {self._path}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(file, 100, 0).decode(errors="replace")
            os.close(file)
            raise UsageError(
                f"{self._place}: process {holder.strip() or 'unknown'} records cluster "
                f"{self._cluster} there already; stop it, or choose another place"
            ) from error
        if not os.fstat(file).st_nlink:
            os.close(file)  # Its last holder removed it just now.
            return self._locked()
        with suppress(OSError):  # on a full disk the lock holds without its owner's number
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        return file

    def renew(self) -> None:
        """Touch the file: a compaction removes old files of that folder."""
        if self._is_own():
            try:
                os.utime(self._file)
            except OSError as error:
                raise UsageError(f"cannot write {self._path}: {error.strerror}") from error
            return
        self._close()  # another process removed it, and may have locked a new one
        self._file = self._locked()

    def release(self) -> None:
        """Remove the file, then its lock."""
        if self._is_own():
            with suppress(OSError):
                os.unlink(self._path)
        self._close()

    def _is_own(self) -> bool:
        """Return whether the file of that name is the locked one."""
        if self._file < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except OSError:
            return False

    def _close(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file = -1


class _Lease(msgspec.Struct):
    owner: str
    until: float  # by the clock of its owner (s since 1970)


class ObjectLease:
    """Numbered objects; the highest one that has not expired names the holder."""

    def __init__(
        self, storage: Storage, cluster: str, clock_s: Any = time.time, owner: str = ""
    ) -> None:
        """Take it (UsageError: it is taken, or the store cannot be written)."""
        self._storage = storage
        self._folder = f"{WORK}/recorder-{quote(cluster)}"
        self._cluster = cluster
        self._clock_s = clock_s
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._renewed_s = -EXPIRES_S
        self.renew()

    def renew(self) -> None:
        """Create the next number when it is due."""
        now_s = self._clock_s()
        if 0 <= now_s - self._renewed_s < RENEW_S:
            return
        number, holder, until_s = self._newest()
        if holder not in ("", self._owner) and until_s > now_s:
            raise UsageError(self._taken(holder, until_s - now_s))
        text = json.dumps({"owner": self._owner, "until": now_s + EXPIRES_S})
        if not self._storage.create(self._name(number + 1), text.encode()):
            raise UsageError(self._taken("another recorder", EXPIRES_S))
        self._renewed_s = now_s
        old = [item.name for item in self._storage.names(self._folder)]
        self._storage.delete([name for name in old if name < self._name(number + 1)])

    def release(self) -> None:
        """Expire it at once."""
        try:
            number, holder, _ = self._newest()
            if holder == self._owner:
                text = json.dumps({"owner": self._owner, "until": 0})
                self._storage.create(self._name(number + 1), text.encode())
                self._storage.delete([self._name(number)])
        except Exception:  # noqa: BLE001 - not required: the lease expires anyway
            return

    def _newest(self) -> tuple[int, str, float]:
        """Return number, holder and expiry of the newest lease; holder "": there is none."""
        for _ in range(5):
            names = [item.name for item in self._storage.names(self._folder)]
            if not names:
                return 0, "", 0.0
            data = self._storage.read(names[-1])
            if data is not None:
                break
        else:
            raise UsageError(f"{self._storage.location}: the lease changes all the time; try later")
        number = int(names[-1].rpartition("/")[2].removesuffix(".json"))
        try:
            lease = decode_json(data, _Lease)
            return number, lease.owner, lease.until
        except ValueError:
            return number, "", 0.0

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:0{_DIGITS}}.json"

    def _taken(self, holder: str, left_s: float) -> str:
        return (
            f"{self._storage.location}: {holder} records cluster {self._cluster} there; stop it, "
            f"or, if it is gone, try again in {max(1, round(left_s))} s"
        )
