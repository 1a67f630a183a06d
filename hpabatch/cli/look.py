"""Commands that look at a history or a manifest."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hpabatch.cli.app import LEFT, Answer, app, command
from hpabatch.cli.arguments import ExitCodeOption, HistoryArgument, check_out
from hpabatch.cli.manifests import load_hpas, open_with_hpas, valid_hpas
from hpabatch.cli.progress import JobProgress, progress_on_stderr
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.analyze.request import AnalyzeRequest
from hpabatch.engine.compare.request import CompareRequest
from hpabatch.engine.explain.request import DescribeRequest, ExplainRequest, GetRequest
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNREADABLE, RefusedError, UsageError
from hpabatch.inputs.request import ValidateRequest
from hpabatch.model.printable import printable
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.api.analysis import Given
    from hpabatch.api.statuses import HpasThen
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.inputs.manifests import CheckedEntry
    from hpabatch.model.objects.hpa import HPA
    from hpabatch.report.kubectl import Descriptions, HpaStatuses

R = TypeVar("R", "HpaStatuses", "Descriptions")


@command(app, shows=True)
def analyze(request: AnalyzeRequest) -> Answer:
    """Tell what HPAs amount to, from their manifests alone.

    Reads manifests as `hpabatch validate` does. For each HPA: the dead band (at which usage do n
    replicas stay n), the smallest change that it makes, where constant demand makes it rest or go
    round for ever, and the fastest way from minReplicas to maxReplicas and back that its windows
    and policies allow. Every number is asked of the exact rules.

    \b
    Assumed: all pods are ready and alike. The work behind a pod metric is a constant total that
    divides among the pods; an Object or External metric's value does not depend on their number. A
    pod requests 1 cpu and 1Gi of memory (--request) and uses nothing without work (--base). Pods
    are not taken to share their memory: --base memory=PCT says so (0: they share all of it).

    CSV and Parquet have one row per HPA and metric, JSON has everything. Exit code 3: some HPAs
    were refused (the others are analyzed).

    \b
    Examples:
      hpabatch analyze manifests/
      hpabatch analyze manifests/ --hpa shop/cart --base cpu=15 --request cpu=250m
      hpabatch analyze manifests/ --hpa shop/cart --at-size 10
      hpabatch analyze manifests/ -o json | jq '.hpas[] | select(.metrics[].cycles != [])'
    """
    from hpabatch.api.analysis import Given, analyze_each
    from hpabatch.model.objects.stored import as_stored
    from hpabatch.model.versions import ControllerFlags, profile_for

    profile = profile_for(request.k8s, request.feature_gates)
    if profile.notes:
        say(f"warning: {profile.notes}")
    flags = ControllerFlags(
        tolerance=request.tolerance,
        downscale_stabilization_ms=request.downscale_stabilization_ms,
        sync_period_ms=request.sync_period_ms,
    )
    missing = f"{' '.join(request.paths)}: no valid HPA to analyze"
    checked, code = valid_hpas(request.paths, profile, missing)
    given = [
        # (as the controller of that version reads it)
        Given(entry.source, entry.line, replace(hpa, spec=as_stored(hpa.spec, profile)), flags,
              profile)
        for entry, hpa in _chosen(checked, request.hpa)
    ]  # fmt: skip
    if request.at_size is not None:
        _check_at_size(request, request.at_size, given)
    with progress_on_stderr() as progress:
        findings = analyze_each(given, request, progress, request.at_size)
    return replace(findings, one=request.hpa is not None), code


def _check_at_size(request: AnalyzeRequest, at_size: int, given: Sequence[Given]) -> None:
    """Refuse a size that the one HPA does not have (UsageError)."""
    if request.hpa is None:
        raise UsageError("--at-size: expected --hpa, as it is about one HPA; add --hpa NAME")
    spec = given[0].hpa.spec
    low, high = spec.min_replicas or 0, spec.max_replicas
    if not low <= at_size <= high:
        raise UsageError(
            f"--at-size: expected {low} to {high}, the replicas of {request.hpa}, got {at_size}"
        )


def _chosen(checked: Sequence[CheckedEntry], name: str | None) -> list[tuple[Any, HPA]]:
    """Return the HPA of a name, or all, with their places (UsageError: none, or several)."""
    known = [(item.entry, item.hpa) for item in checked if item.hpa is not None]
    if name is None:
        return known
    found = [
        (entry, hpa)
        for entry, hpa in known
        if name in (hpa.name, f"{hpa.namespace or 'default'}/{hpa.name}")
    ]
    if not found:
        raise UsageError(f"--hpa {name}: no valid HPA of that name; leave --hpa out to see all")
    if len(found) > 1:
        places = ", ".join(entry.place for entry, _ in found)
        raise UsageError(
            f"--hpa {name}: matches {len(found)} HPAs ({places}); give NAMESPACE/NAME, or a file"
        )
    return found


@command(app, shows=True)
def compare(
    history: HistoryArgument,
    request: CompareRequest,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=0, max=1_000_000, help="Number of HPAs that table and Markdown name."
        ),
    ] = 20,
    exit_code: ExitCodeOption = False,
) -> Answer:
    """Compare what HPAs decide under two Kubernetes versions, or with two sets of manifests.

    Replays a history twice, with the same samples, sizes and instants, and names the HPAs that
    decide differently: since when, how often, by how much, and the switch of the version or the
    field of the spec that makes the first difference (each is tried alone).

    \b
    --k8s 1.32..1.37      the rules of two versions; a side left out is as recorded (..1.37)
    --feature-gates-to    feature gates of the second side only (with or without --k8s)
    --hpas A --hpas B     two sets of manifests; one --hpas: the recorded HPAs against it
    --k8s VERSION         with --hpas: the one version of both

    A decision differs if the size, the wish to rescale or what failed differs. Exit code 3: some
    HPAs were left out or, with --exit-code, decide differently. docs/versions.md explains it.

    \b
    Examples:
      hpabatch compare history/ --k8s 1.32..1.37
      hpabatch compare history/ --k8s ..1.37 --where "namespace = 'shop'" --output markdown
      hpabatch compare history/ --hpas today/ --hpas proposed/ -o json | jq '.differences[].rule'
    """
    from hpabatch.api.comparisons import compare_sides
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.history.reader import open_history
    from hpabatch.report.base import label
    from hpabatch.report.compare import Compared

    source = open_history(history, "replay" if len(request.hpas) < 2 else None)
    codes = [EXIT_OK]

    def read(path: str, parameters: ReplayParameters) -> Sequence[HPA] | None:
        profile = history_profile(source, parameters.k8s, parameters.feature_gates)
        hpas, code = load_hpas([path], profile)
        codes.append(code)
        return hpas

    with progress_on_stderr("replay_observations") as progress:
        found = compare_sides(source, request, read, progress)
    tell(found.warnings)
    for item in found.left_out:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=True)
        say(f"left out ({item.side}): {printable(name)}: {item.reason}")
    changed = found.decide or (request.strict and found.explain)
    if found.left_out or (exit_code and changed):
        codes.append(EXIT_REFUSED)
    code = EXIT_UNREADABLE if EXIT_UNREADABLE in codes else max(codes)
    return Compared.of(found, top=top, strict=request.strict), code


def _hpas_at(
    path: str, request: GetRequest, read: Callable[[HpasThen, Progress], R]
) -> tuple[R, int]:
    """Read the HPAs that a request means; say which are left out, and return the exit code of that.

    Raises:
        UsageError: an option is not possible, or there is no HPA of that name.
        RefusedError: none of them can be replayed.
        HistoryError: the history cannot be read.
    """
    from hpabatch.api.statuses import hpas_then
    from hpabatch.model.times import show_instant

    history, manifests, code = open_with_hpas(path, request)
    then = hpas_then(history, request, manifests)
    tell(then.warnings)
    with progress_on_stderr() as progress:
        found = read(then, progress)
    tell(found.left_out, "skipped")
    if not found and not found.left_out:
        say(f"there was no HPA at {show_instant(found.at_ms)}")
    return found, EXIT_REFUSED if found.left_out else code


@command(app, shows=True)
def describe(history: HistoryArgument, request: DescribeRequest) -> Answer:
    """Describe HPAs of a history as `kubectl describe hpa` would have.

    Conditions, current metrics and events are those that the exact rules give over the recorded
    replicas and metrics: every sync until --at is decided. Events are those of the last
    --events-for, equal ones counted together. A target that was not scaled as the rules say is
    asked to scale again at every sync, so an event may count more often than a cluster's own
    controller recorded it. Exit code 3: some HPAs cannot be replayed, or were not there at --at.

    \b
    Examples:
      hpabatch describe history/ shop/web
      hpabatch describe history/ shop/web --at "2026-10-07 14:03"
      hpabatch describe history/ web --k8s 1.36 -o json | jq '.items[].events'
    """
    from hpabatch.api.statuses import descriptions

    found, code = _hpas_at(
        history,
        request,
        lambda then, progress: descriptions(then, request.events_for_ms, progress),
    )
    tell(found.notes, "note")
    return found, code


@command(app, shows=True)
def explain(history: HistoryArgument, request: ExplainRequest) -> Answer:
    """Explain one decision of a history: every rule's arithmetic, in order.

    Each line is a step: its numbers, what it decided, and in brackets the function of Kubernetes'
    own controller that it follows. The numbers are those of the compiled rules themselves. The sync
    explained is the last one at or before --at. HPA is NAMESPACE/NAME, with CLUSTER/ in front where
    several clusters have one of that name. JSON has every number and every pod. Exit code 3: the
    HPA cannot be replayed, or some manifests were refused. docs/explain.md explains every step.

    \b
    Examples:
      hpabatch explain history/ shop/web
      hpabatch explain history/ eu/shop/web --at 2026-10-07T16:03:00+02:00 --k8s 1.32
      hpabatch explain history/ shop/web --hpas proposed/ --events decided
      hpabatch explain history/ web -o json | jq '.metrics[0].pods[] | select(.group != "ready")'
    """
    with progress_on_stderr("replay_observations") as progress:
        progress("loading", 0.0)
        from hpabatch.engine.explain.run import explain_history
        from hpabatch.engine.fleet.parameters import replay_parameters
        from hpabatch.report.explain.document import Explained

        source, manifests, code = open_with_hpas(history, request)
        progress("deciding", 0.5)
        facts = explain_history(source, replay_parameters(request), request.hpa, manifests)
    tell(facts.warnings)
    return Explained(facts), code


@command(app, shows=True)
def get(history: HistoryArgument, request: GetRequest) -> Answer:
    """Show a history's HPAs as `kubectl get hpa` would have.

    The status is the one that the exact rules give over the recorded replicas and metrics: every
    sync until --at is decided. AGE counts to --at. The layout is that of the Kubernetes version.
    HPAs that were not there at --at are left out. Exit code 3: some HPAs cannot be replayed or,
    asked for by name, were not there.

    \b
    Examples:
      hpabatch get history/
      hpabatch get history/ shop/web shop/cart --at "2026-10-07 14:03" --k8s 1.20
      hpabatch get history/ --hpas proposed/ -o json | jq '.items[].status.conditions'
    """
    from hpabatch.api.statuses import statuses

    found, code = _hpas_at(history, request, statuses)
    return replace(found, with_namespace=len(request.namespace) != 1), code


@command(app, shows=True)
def replay(
    history: HistoryArgument,
    request: ReplayToRequest,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE|FOLDER/",
            help="File, or folder of files, for the decisions.  [default: they are not kept]",
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", min=0, max=1_000_000, help="Number of HPAs named as worth a look."),
    ] = 20,
) -> Answer:
    """Replay a history through the exact HPA rules.

    Decides every HPA at every sync with the replicas that were recorded. stdout gets a summary: one
    row per HPA, and the HPAs most worth a look. With --hpas the HPAs of manifests are replayed
    instead of the recorded ones. What had to be assumed stands in the result, with its source.
    --where is a condition (docs/expressions.md) on the columns cluster, namespace, hpa,
    target_kind, target, min_replicas, max_replicas, has_behavior, specs and labels (a JSON text).

    \b
    --out FILE is one Parquet file, --out FOLDER/ a folder of them, with a row per HPA and sync.
    Nothing is there until all of it is. An interrupted run keeps what is decided in a folder beside
    it (.FILE.job); the same command goes on from there, and gives the same bytes.

    Exit code 3: some HPAs were refused or skipped (the others are written).

    \b
    Examples:
      hpabatch replay history/
      hpabatch replay history/ --out shop.parquet --where "namespace = 'shop' AND max_replicas > 5"
      hpabatch replay history/ --hpas manifests/ --events decided --out new.parquet
      hpabatch replay history/ --out decisions/ --instants recorded --score
      hpabatch replay history/ shop/web -o json | jq '.attention[0].why'
    """
    if request.restart and out is None:
        raise UsageError("--restart without --out: expected --out FILE, whose run begins anew")
    job = JobProgress("deciding", "replay_observations", "decisions")
    LEFT.set(job.left)
    with progress_on_stderr() as progress:
        progress("loading", 0.0)
        from hpabatch.jobs.replay import NothingReplayedError, ReplayJob, plan_of, replay_to_disk
        from hpabatch.report.replay import Replay

        source, manifests, code = open_with_hpas(history, request)
        if out is not None:
            job.destination = check_out(out, source, request.hpas)
        progress("planning", 0.0)
        plan = plan_of(source, request, manifests)
        try:
            done = replay_to_disk(
                ReplayJob(plan, job.destination, manifests, request), job.on(progress)
            )
        except NothingReplayedError as error:
            tell(error.warnings)
            tell_skipped(error.skipped)
            raise RefusedError(f"{history}: {error}") from None
        job.written = True
    tell(done.warnings)
    left_out = tell_skipped(done.skipped)
    return Replay(done, None, out, top, history, done.score), code or left_out


@command(app, shows=True)
def validate(request: ValidateRequest) -> Answer:
    """Load, default and validate HPAs of any API version.

    Reads files, folders (recursively: .yaml, .yml and .json) and `-` for standard input; YAML or
    JSON, one document or many, or a List. Complaints are the API server's, with its field paths. A
    ScaledObject is read as the HPA that KEDA makes. Documents of other kinds are skipped and
    counted. Keys or HPAs given twice, DaemonSet targets, fields that are unknown or dropped, and
    targets of another type than their value are warnings, and errors under --strict.

    One row per document goes to stdout; complaints and warnings go to stderr. Exit code 3:
    something is refused.

    \b
    Examples:
      hpabatch validate manifests/ more.yaml
      kubectl get hpa -A -o yaml | hpabatch validate -
      hpabatch validate --k8s 1.36 --strict --output csv manifests/ > rows.csv
    """
    from hpabatch.api.validation import check
    from hpabatch.inputs.manifests import exit_code
    from hpabatch.model.versions import profile_for

    if notes := profile_for(request.k8s, request.feature_gates).notes:
        say(f"warning: {notes}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may not know Unicode
    found = check(request)
    for line in found.messages:
        say(line)
    return found, exit_code(found.checked), found.verdict
