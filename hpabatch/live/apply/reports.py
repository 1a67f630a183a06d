"""Reports: statuses of own HPA documents as ConfigMaps, since no object of the cluster has them."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from hpabatch._json import decode_json
from hpabatch.cluster.connection.errors import ApiError, NotFound, Unreachable
from hpabatch.cluster.connection.pool import RequestPool
from hpabatch.cluster.connection.writes import Budget, Json, WriteClient
from hpabatch.cluster.objects.types import clock_ms
from hpabatch.live.apply.journal import Fields
from hpabatch.live.apply.lease import show_identity
from hpabatch.live.apply.scales import TIMEOUT_S, Fence
from hpabatch.live.apply.statuses import ended
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.model.messages import Event
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.encode import encode_status
from hpabatch.model.objects.hpa import HPA, HPAStatus
from hpabatch.model.times import show_api_time

_REPORT: Final = "hpabatch-report-"
_REPORT_BYTES: Final = 900_000
_KEEP_S: Final = 60.0  # between two reports of a namespace in which only metrics moved
_AGAIN_S: Final = 5.0  # after a failure
_READS: Final = 16  # at once
_READ_S: Final = 20.0  # of a pass: a loop that hangs for 90 s leaves the lease
_WRITTEN_BY: Final = "hpabatch/written-by"
_WRITTEN_AT: Final = "hpabatch/written-at"


class Reports:
    """Statuses of own documents as ConfigMaps `hpabatch-report-NAMESPACE` in the own namespace.

    A key is the name of an HPA, its value the status as JSON; annotations say who wrote it, and
    when. Any thread may put.
    """

    def __init__(
        self, client: WriteClient, namespace: str, identity: str, budget: Budget, fence: Fence,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[Iterable[Fields]], None] = lambda lines: None,
    ) -> None:  # fmt: skip
        """Prepare; `start` begins.

        Args:
            namespace: hpabatch's own.
            fence: is checked before each write; between two of its terms others may have written.
            clock: monotonic seconds.
            log: gets a line for what was written.
        """
        self.problem = self.rival = ""
        self._client, self._namespace, self._identity = client, namespace, identity
        self._budget, self._fence, self._clock, self._log = budget, fence, clock, log
        self._lock = threading.Lock()
        self._shown: dict[str, dict[str, str]] = {}
        self._due: dict[str, float] = {}
        self._version: dict[str, tuple[int, str]] = {}  # of the last write: term, resourceVersion
        self._last: dict[str, Json] = {}  # those that `last` has read so far
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> bool:
        """Write the reports that are due, and end; return whether no request is on its way."""
        self._stop.set()
        return ended(self._thread)

    def forget(self) -> None:
        """Forget which reports this process wrote last: another had the lease since."""
        with self._lock:
            self._version.clear()
            self._due.clear()
        self._last = {}

    def put(self, key: LaneKey, document: HPA) -> None:
        """Report a status; sizes and conditions soon, mere values of metrics once a minute."""
        status = encode_status(document.status)
        text = json.dumps(status, separators=(",", ":"))
        with self._lock:
            shown = self._shown.setdefault(key[0], {})
            soon = _without_metrics(shown.get(key[1])) != _without_metrics(text)
            shown[key[1]] = text
            at = self._clock() + (0.0 if soon else _KEEP_S)
            self._due[key[0]] = min(self._due.get(key[0], at), at)

    def tell(self, document: HPA, events: Sequence[Event]) -> None:
        """Do nothing: the log has them; there is no object that events could be about."""

    def last(self, keys: Collection[LaneKey]) -> dict[LaneKey, HPAStatus]:
        """Return the statuses of these HPAs in the reports of other processes.

        They stay reported until they change. What is no status is left out, and what this process
        reported, which it knows. The reports are read side by side, within a time that leaves the
        lease to this process; the next call goes on with those that are missing.

        Raises:
            ApiError: a report cannot be read.
        """
        self._read_last(sorted({key[0] for key in keys} - self._last.keys()))
        found: dict[LaneKey, HPAStatus] = {}
        last, self._last = self._last, {}
        for namespace, report in sorted(last.items()):
            annotations = (report.get("metadata") or {}).get("annotations") or {}
            if annotations.get(_WRITTEN_BY) == self._identity:
                continue
            for name, text in (report.get("data") or {}).items():
                status = _status(text)
                if status is not None and (namespace, name) in keys:
                    found[namespace, name] = status
                    with self._lock:
                        self._shown.setdefault(namespace, {})[name] = str(text)
        return found

    def _read_last(self, namespaces: Sequence[str]) -> None:
        def read(namespace: str, timeout_s: float) -> Json:
            path = f"/api/v1/namespaces/{self._namespace}/configmaps/{_REPORT}{namespace}"
            try:
                return self._client.read(path, min(timeout_s, TIMEOUT_S))
            except NotFound:
                return {}

        pool: RequestPool[Json] = RequestPool(_READS)
        reads = pool.run([partial(read, one) for one in namespaces], pool.now() + _READ_S)
        pool.close()
        failed: BaseException | None = None
        for namespace, report in zip(namespaces, reads, strict=True):
            if isinstance(report, BaseException):
                failed = failed or report
            else:
                self._last[namespace] = report
        if isinstance(failed, TimeoutError):
            raise Unreachable(f"not all were read within {_READ_S:g} s")
        if failed is not None:
            raise failed

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._write_due()
        self._write_due()

    def _write_due(self) -> None:
        if self._fence.refusal(TIMEOUT_S):
            return  # it stays due until writes are allowed again, or another leads
        with self._lock:
            now = self._clock()
            due = {n: dict(self._shown[n]) for n, at in self._due.items() if at <= now}
            for namespace in due:
                del self._due[namespace]
        for namespace, shown in due.items():
            time.sleep(self._budget.take())
            try:
                self._write(namespace, shown)
                self.problem = ""
            except Exception as error:  # noqa: BLE001 - one invalid response must not end the thread
                self.problem = (
                    error.text
                    if isinstance(error, ApiError)
                    else f"{type(error).__name__}: {error}"
                )
                with self._lock:
                    again_s = _AGAIN_S * random.uniform(0.5, 1)  # noqa: S311
                    self._due.setdefault(namespace, self._clock() + again_s)

    def _write(self, namespace: str, shown: Mapping[str, str]) -> None:
        name, term = f"{_REPORT}{namespace}", self._fence.term
        collection = f"/api/v1/namespaces/{self._namespace}/configmaps"
        document: Json = {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {
                _WRITTEN_BY: self._identity, _WRITTEN_AT: show_api_time(clock_ms())
            }},
            "data": _fitting(shown),
        }  # fmt: skip
        try:
            found = self._client.read(f"{collection}/{name}", TIMEOUT_S)
        except NotFound:
            found = {}
        time.sleep(self._budget.take())
        if self._fence.refusal(TIMEOUT_S) or self._fence.term != term:
            return  # the next leader writes its own
        if not found:
            made = self._client.write("POST", collection, document, TIMEOUT_S)
        else:
            metadata = found.get("metadata") or {}
            self._check(name, metadata, term)
            metadata = {**metadata, "annotations": document["metadata"]["annotations"]}
            document["metadata"] = metadata
            made = self._client.write("PUT", f"{collection}/{name}", document, TIMEOUT_S)
        self._version[name] = term, str((made.get("metadata") or {}).get("resourceVersion"))
        text = f"{self._namespace}/{name}: the statuses of {len(document['data'])} HPAs"
        self._log([{"event": "report", "namespace": namespace, "text": text}])

    def _check(self, name: str, metadata: Mapping[str, object], term: int) -> None:
        """Note that another process wrote a report since this one did, within one term of it.

        Between two terms others had the lease, and wrote reports by right.
        """
        known_term, known = self._version.get(name, (0, ""))
        if known and known_term == term and known != str(metadata.get("resourceVersion")):
            by = str((metadata.get("annotations") or {}).get(_WRITTEN_BY))  # type: ignore[attr-defined]
            if by != self._identity:
                self.rival = (
                    f"the report {self._namespace}/{name} was written by {show_identity(by)}"
                )


def _status(text: object) -> HPAStatus | None:
    """Return a status of a report, None: somebody wrote something else there."""
    try:
        status = decode_json(str(text), dict)
    except ValueError:
        return None
    found, problems = decode_hpa({"apiVersion": "autoscaling/v2", "status": status})
    return None if problems or found.status.is_unwritten else found.status


def _without_metrics(text: str | None) -> object:
    return None if text is None else {**json.loads(text), "currentMetrics": None}


def _fitting(shown: Mapping[str, str]) -> dict[str, str]:
    """Return the statuses of a report; without metrics where they would exceed a ConfigMap."""
    if sum(len(name) + len(text) for name, text in shown.items()) <= _REPORT_BYTES:
        return dict(sorted(shown.items()))
    small = {
        name: json.dumps(_without_metrics(text), separators=(",", ":"))
        for name, text in sorted(shown.items())
    }
    size, found = 0, {}
    for name, text in small.items():
        size += len(name) + len(text)
        if size > _REPORT_BYTES:
            break
        found[name] = text
    return found
