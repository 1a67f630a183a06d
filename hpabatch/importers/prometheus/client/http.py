"""The client of a Prometheus server: gentle, patient, and not easily lied to.

Few requests are under way at once, fewer after a server asked for rest (http_gate.py). Whatever
fails in a way that may pass is tried again: refused and cut connections, 429, 5xx, cut bodies,
pages where JSON belongs (http_replies.py), and answers that cannot be true (answer.py). What is too
large is told apart, as a smaller question may be answered. No message, log or `repr` shows a
secret.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import httpx2
import stamina

from hpabatch.importers.prometheus.client.answer import (
    Asked,
    LyingError,
    decode,
    decode_facts,
    decode_values,
)
from hpabatch.importers.prometheus.client.ask import Ask, Question, RangeAsk
from hpabatch.importers.prometheus.client.errors import (
    AgainError,
    CredentialsError,
    GaveUpError,
    RefusedQueryError,
    StoppedError,
    TooMuchError,
)
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.client.params import (
    Fields,
    Must,
    asked_by,
    asked_in_steps,
    exact_fields,
    names_field,
    seconds,
)
from hpabatch.importers.prometheus.client.replies import Reply, check_reply, check_size, flavour_of
from hpabatch.importers.prometheus.client.samples import Findings, Samples, empty_samples
from hpabatch.importers.prometheus.client.wire import Figures, Limits, Wire

__all__ = [
    "CredentialsError", "Figures", "GaveUpError", "Limits", "RefusedQueryError", "Server",
    "StoppedError", "TooMuchError",
]  # fmt: skip

# Without any handler Python prints stamina's note of every retry to stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())

T = TypeVar("T")

_MOST_LIES: Final = 5
_MOST_SLOW: Final = 2
_MOST_UNREACHED: Final = 4
"""Of a server that never replied: an address with a typing error is told of soon."""
_NO_POST: Final = (403, 405)
_NO_SUCH_THING: Final = (400, 403, 404, 405, 406, 410, 422, 501)


class Server:
    """A Prometheus server, or one that speaks its language. Several threads may ask at once.

    Attributes:
        url: the address before /api/v1.
        limits: how gentle and patient it is asked.
        findings: what answers noted: "annotation" and "histogram", see `answer.decode`.
    """

    def __init__(
        self,
        url: str,
        login: Login | None = None,
        limits: Limits | None = None,
        *,
        tell: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Prepare to ask; nothing is sent yet.

        Args:
            url: an address before /api/v1; that itself at the end is dropped.
            login: who asks; None: nobody in particular.
            limits: None: the usual ones.
            tell: is given a sentence about every failed attempt.
            clock: seconds that only go forward; for tests.
            sleep: waits for so many seconds; for tests.
            transport: what carries requests; for tests.

        Raises:
            UsageError: the address is none, or a certificate cannot be used.
        """
        self.limits = limits or Limits()
        self.findings = Findings()
        self._wire = Wire(url, login or Login(), self.limits, clock, sleep, transport)
        self.url = self._wire.url
        self._tell = tell
        self._lock = threading.Lock()
        self._facts_lock = threading.Lock()
        self._facts: dict[str, str] | None = None
        self._posts = True
        self._exactly = True

    def __repr__(self) -> str:
        """Return the address and who asks, without secrets."""
        return f"Server({self.url!r}, {self._wire.login!r})"

    def __enter__(self) -> Server:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and close the connections."""
        self._wire.close()

    def stop(self) -> None:
        """Begin no further request: whoever waits, or would ask again, gets a StoppedError."""
        self._wire.stopped.set()

    @property
    def figures(self) -> Figures:
        """What was asked so far, and what came back; a copy."""
        return self._wire.figures

    def answer(self, question: Question) -> Samples:
        """Return the answer to a question.

        Raises:
            TooMuchError: a smaller question may be answered.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: there is no answer.
        """
        if isinstance(question, RangeAsk):
            if question.last_ms < question.first_ms:
                return empty_samples()
            return self.ranged(
                question.promql(), question.first_ms, question.last_ms, question.step_ms,
                must=question.allowed(),
            )  # fmt: skip
        must: Must = question.allowed()
        if isinstance(question, Ask) and question.form in ("raw", "now"):
            must = {"__name__": question.query.series[:1], **must}
        return self.instant(question.promql(), question.until_ms, must=must)

    def instant(self, query: str, at_ms: int, *, must: Must | None = None) -> Samples:
        """Return a vector, or the raw samples of a query that ends in a range.

        Args:
            query: PromQL.
            at_ms: when it is evaluated (ms UTC).
            must: see `answer.Asked.must`.

        Raises:
            TooMuchError: a smaller question may be answered.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: there is no answer.
        """
        fields = [("query", query), ("time", seconds(at_ms))]
        return self._samples("query", fields, asked_by(query, at_ms, must or {}))

    def ranged(
        self, query: str, start_ms: int, end_ms: int, step_ms: int, *, must: Must | None = None
    ) -> Samples:
        """Return the values of a query at `start_ms` and every `step_ms` after, up to `end_ms`.

        Some servers move the start to a multiple of the step: let it be one.

        Raises:
            TooMuchError: a smaller question may be answered.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: there is no answer.
        """
        fields = [
            ("query", query), ("start", seconds(start_ms)), ("end", seconds(end_ms)),
            ("step", seconds(step_ms)),
        ]  # fmt: skip
        asked = asked_in_steps(start_ms, end_ms, step_ms, must or {})
        return self._samples("query_range", fields, asked)

    def label_values(
        self, label: str, matchers: Sequence[str], start_ms: int, end_ms: int
    ) -> list[str]:
        """Return the values of a label that series had in a time, in order.

        Args:
            label: its name.
            matchers: series selectors; none: of all series.
            start_ms, end_ms: the time; servers answer for whole blocks of it.

        Raises:
            TooMuchError: a smaller question may be answered.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: there is no answer.
        """
        # Prometheus and Thanos take no form here.
        return self._texts(self._get, f"label/{label}/values", matchers, start_ms, end_ms)

    def label_names(self, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[str]:
        """Return the names of the labels that series had in a time, in order.

        Args:
            matchers: series selectors; none: of all series.
            start_ms, end_ms: the time; servers answer for whole blocks of it.

        Raises:
            TooMuchError: a smaller question may be answered.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: there is no answer.
        """
        return self._texts(self._post, "labels", matchers, start_ms, end_ms)

    def build_info(self) -> dict[str, str]:
        """Return what the server says of itself and its "flavour"; {} if it says nothing.

        Raises:
            GaveUpError, CredentialsError, UsageError: it cannot be reached, or lets nobody ask.
        """
        with self._facts_lock:
            if self._facts is None:
                self._facts = self._ask_facts()
            return dict(self._facts)

    @property
    def flavour(self) -> str:
        """What the server is: prometheus, thanos, mimir, cortex, victoriametrics or unknown."""
        return self.build_info().get("flavour", "unknown")

    def _samples(self, path: str, fields: Fields, asked: Asked) -> Samples:
        said = [*fields, ("timeout", f"{self.limits.timeout_s:g}s")]
        noted = Findings()

        def attempt() -> Samples:
            reply = self._exactly_asked(lambda more: self._post(path, [*said, *more]))
            return decode(reply.body, asked, noted)

        found = self._ask(attempt)
        self._wire.count(samples=found.count)
        self._note(noted)
        return found

    def _texts(
        self,
        send: Callable[[str, Fields], Reply],
        path: str,
        matchers: Sequence[str],
        start_ms: int,
        end_ms: int,
    ) -> list[str]:
        fields = [("match[]", matcher) for matcher in matchers]
        fields += [("start", seconds(start_ms)), ("end", seconds(end_ms))]
        noted = Findings()

        def attempt() -> list[str]:
            reply = self._exactly_asked(lambda more: send(path, [*fields, *more]))
            return decode_values(reply.body, noted)

        found = self._ask(attempt)
        self._note(noted)
        return found

    def _note(self, noted: Findings) -> None:
        with self._lock:
            for (kind, detail), count in noted.counts.items():
                self.findings.note(kind, self._wire.hide(detail), count)  # the server's own words

    def _ask(self, attempt: Callable[[], T], most_lies: int = _MOST_LIES) -> T:
        """Return what one of several attempts gives."""
        patience = _Patience(self._wire, self.limits, self._tell, most_lies)
        # The waits are not stamina's: a stop ends them, and some hold back all threads.
        tries = stamina.retry_context(on=patience, attempts=self.limits.attempts, timeout=None)
        try:
            for one in tries:
                patience.wait()
                with one:
                    return self._try(attempt)
        except AgainError as last:
            if patience.too_slow:
                raise TooMuchError(f"{last}, twice", "time") from None
            times = "once" if patience.failed <= 1 else f"{patience.failed} times"
            raise GaveUpError(
                f"{last}. It was asked {times}; the same command with --resume goes on"
            ) from None
        raise AssertionError("stamina ends with an answer or an error")

    def _try(self, attempt: Callable[[], T]) -> T:
        try:
            found = attempt()
        except LyingError as lie:
            told = self._wire.hide(str(lie))
            check_size(told, f"{self.url}: {told}")  # some say so with status 200
            raise AgainError(f"{self.url}: {told}", lied=True) from None
        self._wire.gate.answered()
        return found

    def _ask_facts(self) -> dict[str, str]:
        """Return what the server says of itself; that it says nothing is no failure."""

        def attempt() -> dict[str, str]:
            reply = self._wire.exchange("GET", "status/buildinfo", [])
            if reply.status in _NO_SUCH_THING:
                return {}
            return decode_facts(self._check(reply).body)

        try:
            facts = self._ask(attempt, most_lies=2)
        except TooMuchError as error:
            raise GaveUpError(str(error)) from None  # nothing can be smaller
        except GaveUpError:
            if not self.figures.by_status.get(200):
                raise
            return {}  # a page for every path
        return {"flavour": flavour_of(facts), **facts} if facts else {}

    def _exactly_asked(self, ask: Callable[[Fields], Reply]) -> Reply:
        """Return the reply to a question with the fields that this flavour needs beside."""
        flavour = self.flavour
        more = exact_fields(flavour) if self._exactly else []
        try:
            return ask(more)
        except RefusedQueryError as error:
            if flavour != "unknown" or not names_field(str(error), more):
                raise
            self._exactly = False
            return ask([])

    def _post(self, path: str, fields: Fields) -> Reply:
        """Return the reply to a form, or to an address where forms are not allowed."""
        if self._posts:
            reply = self._wire.exchange("POST", path, fields)
            if reply.status not in _NO_POST:
                return self._check(reply)
            other = self._wire.exchange("GET", path, fields)
            self._posts = other.status in _NO_POST
            return self._check(other)
        return self._get(path, fields)

    def _get(self, path: str, fields: Fields) -> Reply:
        return self._check(self._wire.exchange("GET", path, fields))

    def _check(self, reply: Reply) -> Reply:
        """Return a reply that may hold an answer."""
        check_reply(reply, self.url, time.time(), self._wire.hide)
        return reply


class _Patience:
    """Decides, as stamina's hook, whether one question is asked again, and when."""

    def __init__(
        self, wire: Wire, limits: Limits, tell: Callable[[str], None] | None, most_lies: int
    ) -> None:
        self.failed = 0
        self.too_slow = False
        self._wire = wire
        self._limits = limits
        self._tell = tell
        self._left = {"lied": most_lies, "slow": _MOST_SLOW, "silent": _MOST_SLOW}
        self._wait_s = 0.0

    def __call__(self, error: Exception) -> float | bool:
        """Return for how long stamina itself waits, False: there is no other attempt."""
        if not isinstance(error, AgainError):
            return False
        self.failed += 1
        most = self._limits.attempts
        if error.unreached and not self._wire.has_replied:
            most = min(most, _MOST_UNREACHED)
        goes_on = self.failed < most and not self._has_enough(error)
        backoff_s = self._limits.first_wait_s * 2 ** (self.failed - 1)
        # Chance, so that those who failed together do not come together again.
        wait_s = max(backoff_s * random.uniform(0.75, 1.25), error.wait_s or 0.0)  # noqa: S311
        wait_s = min(wait_s, self._limits.longest_wait_s)
        if error.busy:
            self._wire.gate.slow_down(wait_s, error.begun_s)
        self._wait_s = 0.0 if error.busy else wait_s
        if goes_on and self._tell is not None:
            self._tell(f"{error}: asked again in {wait_s:.0f} s ({self.failed + 1} of {most})")
        return 0.0 if goes_on else False

    def wait(self) -> None:
        """Wait before an attempt, where this question alone has to."""
        if self.failed:
            self._wire.count(retries=1)
        self._wire.rest(self._wait_s)

    def _has_enough(self, error: AgainError) -> bool:
        """Say whether what failed will fail again, as it did so often in the same way."""
        for kind in self._left:
            self._left[kind] -= bool(getattr(error, kind))
        self.too_slow = self._left["slow"] <= 0
        if self._left["silent"] <= 0 and not self.too_slow:
            # Nothing came, twice: a question too large for it, or no server any more?
            self.too_slow = self._wire.is_alive()
        return self.too_slow or self._left["lied"] <= 0
