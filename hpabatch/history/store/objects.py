"""Stores in object storages (S3, Google Cloud Storage, Azure), through obstore.

Credentials, region and endpoint come from the environment, under the names that the services'
own tools use (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, …); polars reads the same ones.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, NotFoundError
from obstore.store import from_url

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.store.storage import (
    Listed,
    ReadOutageError,
    WriteOutageError,
    disk_error,
    temporary_root,
    without_secret,
)

# Per request, on errors of the server or the network.
MAX_RETRIES = 4
RETRY_TIMEOUT = timedelta(seconds=60)
_PAUSE_S = 0.2

_METADATA = "169.254."
_NETWORK = re.compile(r"body error|error sending request|timed out|connection (closed|reset)")
_AMBIGUOUS = re.compile(r"[?#%]|/\.{1,2}(?=/|$)")

T = TypeVar("T")


class ObjectStorage:
    """A store below a URL; an object appears whole or not at all."""

    checksums = False

    def __init__(self, url: str) -> None:
        """Take a URL such as s3://bucket/history.

        Raises:
            HistoryError: it has no bucket, or the service cannot be used.
        """
        self.location = url.rstrip("/")
        if _AMBIGUOUS.search(self.location):
            # obstore decodes these as in URLs, polars takes them literally.
            raise HistoryError(
                "expected a URL such as s3://bucket/history, without ?, #, %, . and .. as names, "
                f"got {without_secret(url)}; name another place"
            )
        retry = {
            "max_retries": MAX_RETRIES,
            "retry_timeout": RETRY_TIMEOUT,
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=5),
                "base": 2,
            },
        }
        try:
            self._store: Any = from_url(self.location, retry_config=retry)  # type: ignore[call-overload]
        except (BaseError, ValueError) as error:
            raise HistoryError(f"{url} cannot be used as a store: {_reason(error)}") from error

    @property
    def options(self) -> dict[str, Any] | None:
        """Storage options for polars."""
        return {"max_retries": MAX_RETRIES}

    def names(self, folder: str) -> list[Listed]:
        """Return all objects below a folder, by name."""
        now, found = datetime.now(UTC), []
        with self._reading(folder):
            # obstore resumes when the body of an object ends too early, but not that of a list.
            batches = _repeated(
                lambda: list(obstore.list(self._store, folder or None)), "body error"
            )
        for batch in batches:
            for item in batch:
                age = (now - item["last_modified"]).total_seconds()
                found.append(Listed(item["path"], item["size"], age))
        return sorted(found, key=lambda item: item.name)

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes."""
        with self._reading(name):
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except (NotFoundError, FileNotFoundError):
                return None

    def tail(self, name: str, count: int) -> tuple[int, bytes] | None:
        """Return an object's size and last bytes."""
        with self._reading(name):
            try:
                # Azure does not support suffix ranges: request the size first.
                size = obstore.head(self._store, name)["size"]
                start = max(0, size - count)
                if start == size:
                    return size, b""
                return size, bytes(obstore.get_range(self._store, name, start=start, end=size))
            except (NotFoundError, FileNotFoundError):
                return None

    def checksum(self, name: str, start: int, stop: int) -> int:
        """Unused: the service and the connection have checksums of their own."""
        raise NotImplementedError(name, start, stop)

    def create(self, name: str, data: bytes) -> bool:
        """Make an object, unless there is one of that name with other bytes.

        A request whose response was lost may have made it: so the request is sent again, and an
        object with the same bytes counts as made.
        """
        with self._writing(name):
            try:
                # obstore retries conditional requests only after a response.
                _repeated(
                    lambda: obstore.put(self._store, name, data, mode="create"),
                    "error sending request",
                )
            except AlreadyExistsError:
                return self.read(name) == data
        return True

    def put(self, file: Path, name: str) -> None:
        """Upload a file."""
        with self._writing(name):
            obstore.put(self._store, name, file)
            file.unlink()

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects."""
        with self._writing(names[0] if names else ""):
            for start in range(0, len(names), 1000):
                obstore.delete(self._store, list(names[start : start + 1000]))

    def workspace(self) -> AbstractContextManager[Path]:
        """Yield a temporary local folder."""
        return _temporary()

    def url(self, name: str) -> str:
        """Return the object's URL."""
        return f"{self.location}/{name}"

    def fault(self, where: str, error: BaseException) -> HistoryError | None:
        """Return the failure of the service or the network, where polars reports one."""
        return _unread(where, error) if "object-store error" in str(error) else None

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise _unread(self.url(name), error) from error

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            kind = WriteOutageError if _is_outage(error) else UsageError
            raise kind(f"cannot write {self.url(name)}: {_advised(error)}") from error


@contextmanager
def _temporary() -> Iterator[Path]:
    root = temporary_root()
    try:
        folder = tempfile.TemporaryDirectory(prefix="hpabatch-", dir=root)
    except OSError as error:
        raise disk_error(root, error) from error
    with folder as name:
        yield Path(name)


def _repeated(request: Callable[[], T], fault: str) -> T:
    """Return the result of a request, which is retried after this fault of the network."""
    end_s = time.monotonic() + RETRY_TIMEOUT.total_seconds()
    left = MAX_RETRIES
    while True:
        try:
            return request()
        except GenericError as error:
            if fault not in str(error) or not left or time.monotonic() > end_s:
                raise
        left -= 1
        time.sleep(_PAUSE_S)


def _reason(error: BaseException) -> str:
    """Return an error's message without addresses, timings and obstore's debug output."""
    text = " ".join(str(error).split()) or type(error).__name__
    status = re.search(r"status code: (\d{3}(?: [A-Z][A-Za-z]+)*)", text)
    if status:
        return f"the server answered {status.group(1)}"
    text = re.sub(r" Debug source:.*| \(path: .*", "", text)
    return text.rpartition(" - ")[2][:200].rstrip(". ")


def _unread(where: str, error: BaseException) -> HistoryError:
    kind = ReadOutageError if _is_outage(error) else HistoryError
    return kind(f"{where} cannot be read: {_advised(error)}")


def _is_outage(error: BaseException) -> bool:
    """Whether the service does not answer, or is overloaded, which passes.

    A search for credentials that ends at the metadata service of a cloud's machines found none.
    """
    text = str(error)
    if status := re.search(r"status code: (\d{3})", text):
        return status[1].startswith("5") or status[1] == "429"
    return _METADATA not in text and _NETWORK.search(text) is not None


def _advised(error: BaseException) -> str:
    """Return a reason with the fix, which differs for failing services and wrong names."""
    reason = _reason(error)
    if re.search(r"answered (5\d\d|429)|body error", reason):
        return f"{reason}; repeat the command later"
    return f"{reason}; check the name, the credentials and the endpoint"
