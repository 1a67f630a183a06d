"""`hpabatch fit`: what can be known about each workload from a recorded history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_duration, selection
from hpabatch.cli.options import (
    DelayOption,
    GatesOption,
    HistoryArgument,
    HistoryK8sOption,
    MaxAgeOption,
    Output,
    OutputOption,
    PhaseOption,
    PlantOption,
    SyncPeriodOption,
    WhereOption,
)
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, send_text, table_shape
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, EXIT_REFUSED
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hpabatch.engine.fit.run import Fit
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.engine.fleet.plan import ReplayPlan
    from hpabatch.model.settings.overrides import PlantOverride
    from hpabatch.report.fit import FitReport, Fitted

_HELP = """Tell what can be known about each workload from a history.

To simulate an HPA one must know its workload: how usage hangs on work and pods, what a pod uses
without any work, what is the most it can use, how long it takes to start, how it is measured. Each
of these is fitted with an interval, taken as recorded, assumed, or given in a plant file; "not
identified" is an answer too. What a pod uses without work is only seen where the number of ready
pods changed: over all ticks the controller keeps usage at its target whatever the base is.

\b
Work in an Object or External metric has no default: say in a plant file what it is, such as
  signals: {external/queue_length: {kind: backlog, rate: 5/s}}

\b
One row per HPA goes to stdout; JSON, CSV and Parquet have every fact: value, unit, 95 % interval,
source (recorded, fitted, assumed, given, not identified) and how it was found. stderr says which
HPAs cannot be simulated and what to do. --where is a condition, as in `hpabatch replay`.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs have no plant (the others are told).

\b
Examples:
  hpabatch fit history/
  hpabatch fit history/ --plant plants.yaml --where "namespace = 'shop'"
  hpabatch fit history/ -o csv > facts.csv
  hpabatch fit history/ -o json | jq '.hpas[] | select(.plant | not) | .problems'
"""

_MIN_SYNC_PERIOD_MS = 1000


@app.command(help=_HELP)
def fit(
    history: HistoryArgument,
    plant: PlantOption = None,
    where: WhereOption = None,
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    delay: DelayOption = None,
    max_age: MaxAgeOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    output: OutputOption = Output.table,
) -> None:
    """Tell what can be known about each workload from a history."""
    check_stdout(output)

    def time(text: str | None, option: str, minimum_ms: int = 0) -> int | None:
        return None if text is None else parse_duration(text, option, minimum_ms)

    from hpabatch.engine.fleet.parameters import ReplayParameters

    parameters = ReplayParameters(
        k8s=k8s,
        feature_gates=feature_gates,
        sync_period_ms=time(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
        phase_ms=time(phase, "--phase"),
        delay_ms=time(delay, "--delay"),
        max_age_ms=time(max_age, "--max-age", 1),
    )
    report = _report(history, parameters, tuple(plant or ()), where)
    _tell(report)
    _show(report, output)
    without = report.skipped or any(not item.has_plant for item in report.hpas)
    raise typer.Exit(EXIT_REFUSED if without else EXIT_OK)


def _report(
    path: str, parameters: ReplayParameters, plants: Sequence[str], where: str | None
) -> FitReport:
    """Read and fit."""
    from hpabatch.engine.fleet.plan import plan_replay
    from hpabatch.history.reader import open_history
    from hpabatch.inputs.plants import read_plant_file
    from hpabatch.report.fit import FitReport

    select = None if where is None else selection(where)
    overrides = tuple(entry for file in plants for entry in read_plant_file(file))
    history = open_history(path, "replay")
    with share_on_stderr("observe_usage") as progress:
        progress("planning", 0.0)
        plan = plan_replay(history, parameters, None, select)
        found = _fit(plan, overrides, progress)
    # Budgets of policies have no part in a fit.
    evidence = {name: text for name, text in plan.evidence.items() if name != "events"}
    return FitReport(found, plan.skipped, (*history.warnings, *plan.warnings), evidence)


def _fit(
    plan: ReplayPlan, overrides: Sequence[PlantOverride], progress: Callable[[str, float], None]
) -> list[Fitted]:
    """Fit all HPAs of a plan; only what is told of them is kept."""
    from hpabatch.engine.fit.overrides import plan_overrides
    from hpabatch.engine.fit.run import fit_history

    chosen = plan_overrides(overrides, plan.chosen, plan.everyone)
    found = []
    for k, (fitted, entries) in enumerate(zip(fit_history(plan, overrides), chosen, strict=True)):
        found.append(_fitted(fitted, entries))
        progress("fitting workloads", (k + 1) / len(plan.chosen))
    return found


def _fitted(found: Fit, entries: Sequence[PlantOverride]) -> Fitted:
    """Return what is told of a fit, with what is stated of its pods and pipelines put in."""
    from hpabatch.engine.fit.overrides import Draws, override
    from hpabatch.errors import RefusedError
    from hpabatch.report.fit import Fitted

    candidate, facts, problems = found.candidate, found.facts, found.problems
    has_plant = found.workload is not None
    if found.workload is not None and entries:
        name = f"{candidate.namespace}/{candidate.name}"
        try:
            _, given = override(found.workload.plant, entries, Draws(0, name, 0))
        except RefusedError as error:
            has_plant, problems = False, (*problems, str(error))
        else:
            names = {fact.name for fact in given}
            facts = (*(f for f in facts if f.name not in names), *given)
    return Fitted(
        candidate.cluster, candidate.namespace, candidate.name, has_plant, facts, problems
    )


def _tell(report: FitReport) -> None:
    """Write warnings, HPAs left out and HPAs without a plant to stderr."""
    from hpabatch.report.texts import label

    several = len({item.cluster for item in report.hpas}) > 1
    for warning in report.warnings:
        say(f"warning: {warning}")
    for s in report.skipped:
        name = label(s.cluster, s.namespace, s.hpa, with_cluster=several)
        say(f"skipped: {printable(name)}: {s.reason}")
    for item in report.hpas:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=several)
        for problem in item.problems:
            say(f"no plant: {printable(name)}: {problem}")


def _show(report: FitReport, output: Output) -> None:
    """Write the report to stdout."""
    from hpabatch.report import fit as forms

    width, _ = table_shape()
    match output:
        case Output.table:
            send_text(forms.to_table(report, width))
        case Output.json:
            send_json(forms.to_json(report))
        case Output.csv:
            send(forms.to_csv(report).encode())
        case Output.parquet:
            send(forms.to_parquet(report))
