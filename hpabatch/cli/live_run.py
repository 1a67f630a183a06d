"""Runs of `live` and `record`: a connection, watches, and the loop until it is ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer

import hpabatch
from hpabatch.cli.progress import tell_compiling
from hpabatch.cli.stdout import forget_stdout, show_report
from hpabatch.cli.talk import say
from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import Connection, connect
from hpabatch.cluster.connection.errors import ApiError, Refused
from hpabatch.cluster.objects.types import HpaObject, clock_ms
from hpabatch.cluster.watch.site import Site
from hpabatch.errors import EXIT_REFUSED, UnreadableError, UsageError
from hpabatch.live.apply.applier import Applier
from hpabatch.live.apply.rivals import PROBE
from hpabatch.live.apply.setup import Place, make_applier, read_documents
from hpabatch.live.loop.request import LiveRequest
from hpabatch.live.loop.run import Loop, longest_wait_s
from hpabatch.live.loop.setup import Settings, log_file, settle, state_file
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.memory import Saved, load
from hpabatch.live.passes.result import NO_STATUS
from hpabatch.live.passes.shadow import Comparison, Shadow
from hpabatch.live.record.recorder import Recorder
from hpabatch.live.serve.exporter import Exporter
from hpabatch.live.serve.log import LineLog
from hpabatch.live.serve.server import Health, MetricsServer
from hpabatch.model.printable import encodable, printable
from hpabatch.report.live import LiveHpa

_GRACE_PERIODS = 2
_ONCE_WAITS_S = 60.0
_END_S = 5.0
_STATE_MS = 300_000  # an older controller memory is not taken up


def run_live(request: LiveRequest, form: str = "table", *, compares: bool = True) -> None:
    """Run until SIGINT or SIGTERM, or for one pass, which is printed in that form.

    Args:
        compares: decisions are told beside those of the cluster's own controller.
    """
    with ExitStack() as stack:
        run = _Run(request, stack, compares)
        if request.once:
            run.one_pass(form)
        else:
            try:
                run.until_stopped()
            except BrokenPipeError:
                forget_stdout()  # who read the lines has gone (head): no error


class _Run:
    """Everything of one run; what it opens is closed by `stack`."""

    def __init__(self, request: LiveRequest, stack: ExitStack, compares: bool) -> None:
        self.request, self.compares = request, compares
        kubeconfig = None if request.kubeconfig is None else Path(request.kubeconfig)

        def make() -> Connection:
            return connect(kubeconfig, request.context, request.in_cluster, os.environ)

        connection = make()
        self.client: ApiClient = stack.enter_context(ApiClient(connection))
        self.cluster = encodable(request.cluster or connection.cluster)
        discovery = Discovery(self.client)
        try:
            version = discovery.server_version()
            discovery.hpa_version()
        except ApiError as error:
            what, there = "does not respond", "is it there, and "
            if isinstance(error, Refused):
                what, there = "refuses this login", ""
            raise UnreadableError(
                f"the API server {connection.server} {what} ({error.text}): {there}is this the "
                "right --kubeconfig and --context?"
            ) from error
        self.settings: Settings = settle(
            request.k8s, request.feature_gates, request.flag, version, request.every_ms
        )
        self.log = LineLog(
            sys.stdout if compares and not request.once else sys.stderr,
            self.cluster,
            as_json=request.log_format == "json",
            compares=not request.apply,
        )
        self.connect, self.discovery = make, discovery
        self.own = self._documents(connection.namespace)
        self.site: Site = Site(
            self.client,
            discovery,
            self.settings.profile,
            namespaces=request.namespace,
            budget_s=request.fetch_budget_ms / 1000,
            at_once=request.fetch_at_once,
            own=self.own,
        )
        stack.callback(self.site.stop)
        self.stack = stack

    def one_pass(self, form: str) -> None:
        """Make one pass and print it."""
        loop = self._loop(self._decider(None), None)
        self.site.start()
        missing = loop.wait_until_listed(threading.Event(), _ONCE_WAITS_S)
        if missing:
            raise UnreadableError(f"{self.client.connection.server}: {missing}")
        tell_compiling("replay_newest")
        comparison = loop.one_pass()
        if not len(comparison.result) and not comparison.result.problems:
            where = ", ".join(self.request.namespace) or "any namespace"
            say(f"no HPA was found in {where} of {self.cluster}")
        for problem in comparison.result.problems:
            name = printable(f"{problem.namespace}/{problem.name}")
            say(f"skipped: {name}: {problem.text}")
        warnings = self.site.problems()
        for about, text in warnings.items():
            say(f"warning: {about}: {text}")
        _print(comparison, form, self.settings.k8s, self.cluster, len(self.request.namespace) != 1)
        if comparison.result.problems or warnings:
            raise typer.Exit(EXIT_REFUSED)

    def until_stopped(self) -> None:
        """Make passes until SIGINT or SIGTERM."""
        stop = threading.Event()
        path = self._state_path()
        recorder = self._recorder()
        decider = self._decider(self._saved(path, recorder))
        exporter, health = self._exporter()
        applier = self._applier(decider)
        loop = self._loop(
            decider, path, log=self.log, exporter=exporter, health=health,
            recorder=recorder, tells_decisions=self.compares, applier=applier,
        )  # fmt: skip
        try:
            with _until_signal(stop, self.site.end):
                self._say_start(path)
                if self.compares:
                    tell_compiling("replay_newest")
                self.site.start()
                if applier is not None:
                    applier.start()
                loop.wait_until_listed(stop)
                if not stop.is_set():
                    loop.run(stop)
        finally:
            whole = recorder is None or recorder.close()
        self.log.say("stop", "stopped")
        self.log.close()
        if not whole:
            raise typer.Exit(EXIT_REFUSED)

    def _say_start(self, path: Path | None) -> None:
        settings = self.settings
        every = settings.flags.sync_period_ms / 1000
        parts = [
            f"hpabatch {hpabatch.__version__} at {self.client.connection.server}",
            f"rules of {settings.profile.name} for {settings.k8s}",
            f"flags {settings.flags_source}",
            f"a pass every {every:g} s",
            self._does(),
        ]
        if path is not None:
            parts.append(f"state in {path}")
        if self.request.record:
            parts.append(f"records to {self.request.record}")
        self.log.say("start", "; ".join(parts))

    def _does(self) -> str:
        request = self.request
        if not request.apply:
            return "changes nothing"
        whose = "own documents" if request.manifests else "the cluster's HPAs"
        dry = ", with server-side dry run" if request.dry_run else ""
        return f"scales targets of {whose}{dry}"

    def _documents(self, namespace: str) -> list[HpaObject] | None:
        """Return the HPAs of --manifests, None: those of the cluster are decided."""
        request = self.request
        if not request.manifests:
            return None
        return read_documents(
            request.manifests, self.settings.profile, namespace, request.namespace
        )

    def _applier(self, decider: Decider) -> Applier | None:
        """Return the applier, None without --apply: then nothing can be written."""
        request = self.request
        if not request.apply:
            return None
        log, server = request.apply_log, self.client.connection.server
        place = Place(
            connect=self.connect, discovery=self.discovery, cluster=self.cluster,
            namespace=self._own_namespace,
            log=log_file(os.environ, self.cluster, server) if log is None else Path(log),
            period_s=self.settings.flags.sync_period_ms / 1000,
            hpas=self.site, skew_s=self.site.clock_skew_s,
        )  # fmt: skip
        documents = None if self.own is None else self.site
        return make_applier(request, place, decider, documents, self.log.say, self.stack)

    def _loop(self, decider: Decider, state: Path | None, **consumers: Any) -> Loop:
        own = (self._own_namespace, PROBE) if self.request.apply else None
        period_ms = self.settings.flags.sync_period_ms
        return Loop(
            self.site, decider, Shadow(_GRACE_PERIODS * period_ms), period_ms, self.settings.k8s,
            state, self._state_of(), own, **consumers,
        )  # fmt: skip

    @property
    def _own_namespace(self) -> str:
        return self.request.own_namespace or self.client.connection.namespace

    def _state_of(self) -> str:
        """Return what a state belongs to: of another cluster or version it is of no use."""
        return f"{self.cluster} under the rules of {self.settings.profile.name}"

    def _state_path(self) -> Path | None:
        request = self.request
        if request.stateless or request.once:
            return None
        if request.state is not None:
            return Path(request.state)
        return state_file(os.environ, self.cluster, self.client.connection.server)

    def _saved(self, path: Path | None, recorder: Recorder | None) -> Saved | None:
        """Return what an earlier loop remembered, if that is not too old and was recorded whole."""
        if path is None:
            return None
        try:
            saved = load(path, self._state_of())
        except UsageError as error:
            self.log.say("note", f"nothing is remembered from before: {error}")
            return None
        if saved is None:
            return None
        age_ms = clock_ms() - saved.saved_ms
        if not 0 <= age_ms <= _STATE_MS:
            self.log.say("note", f"the state in {path} is {age_ms // 1000} s old and not taken up")
            return None
        if recorder is not None and recorder.resumed_ms != saved.saved_ms:
            # A kill lost the passes after the store's last one: with them remembered, nobody could
            # decide again what is decided from now on.
            self.log.say(
                "note", f"the state in {path} is not that of the record's end, and not taken up"
            )
            return None
        return saved

    def _decider(self, saved: Saved | None) -> Decider:
        return Decider(self.settings.profile, self.settings.flags, saved)

    def _exporter(self) -> tuple[Exporter | None, Health | None]:
        """Return the exporter and the health that an endpoint serves, None without one."""
        if self.request.metrics_addr is None:
            return None, None
        exporter = Exporter(
            self.settings.profile,
            self.cluster,
            dry_run=self.request.dry_run,
            watches=self.site.states,
            requests=self.client.requests.snapshot,
            clock_skew_s=self.site.clock_skew_s,
        )
        health = Health(
            self.settings.flags.sync_period_ms / 1000, self.site.states,
            pass_s=longest_wait_s(self.request.fetch_budget_ms / 1000),
        )  # fmt: skip
        server = MetricsServer(self.request.metrics_addr, exporter.registry, health)
        self.stack.callback(server.close)
        return exporter, health

    def _recorder(self) -> Recorder | None:
        if self.request.record is None:
            return None
        recorder = Recorder(
            self.request.record,
            self.cluster,
            segment_s=self.request.segment_ms / 1000,
            say=lambda text: self.log.say("note", text),
        )
        self.stack.callback(recorder.close)
        recorder.controller(clock_ms(), "observed", self.settings.k8s, self.settings.flags_named)
        return recorder


@contextmanager
def _until_signal(stop: threading.Event, then: Callable[[], None]) -> Iterator[None]:
    """Set `stop` at SIGINT or SIGTERM, then call `then`; a second one ends the process at once.

    Both happen in a thread of its own. The handler only writes to a pipe: it interrupts the main
    thread wherever that is, which may hold the lock that `stop` takes.
    """
    reader, writer = os.pipe()
    over, asked = threading.Event(), False

    def wait() -> None:
        os.read(reader, 1)
        stop.set()
        if not over.is_set():
            then()

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked = True
        os.write(writer, b"!")

    thread = threading.Thread(target=wait, name="signals", daemon=True)
    thread.start()
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        over.set()
        os.close(writer)  # ends the thread's reading
        thread.join(_END_S)
        os.close(reader)


def _print(comparison: Comparison, form: str, k8s: str, cluster: str, with_namespace: bool) -> None:
    from hpabatch.report.live import LivePass

    hpas, now_ms = _live_hpas(comparison), comparison.result.now_ms
    show_report(LivePass(hpas, now_ms, k8s, cluster, with_namespace), form)


def _live_hpas(comparison: Comparison) -> list[LiveHpa]:
    result = comparison.result
    return [
        LiveHpa(
            document=result.document(h),
            desired=int(result.decisions.desired[h]) if result.decided[h] else None,
            theirs=None if theirs == NO_STATUS else theirs,
            binding=result.binding(h),
            why=result.why(h),
        )
        for h, theirs in enumerate(result.theirs_desired.tolist())
    ]
