"""`hpabatch advise`: from data to what should change, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import JobProgress, progress_on_stderr, tell_compiling
from hpabatch.cli.stdout import LEGEND, check_stdout, show_report
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.advise.request import AdviseRequest
from hpabatch.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REFUSED,
    RefusedError,
    UsageError,
)

if TYPE_CHECKING:
    from hpabatch.cli.progress import Progress
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.report.advise import AdviseReport

_HELP = """Say what should change, from a history or a table, in one command.

DATA is a history (a folder of Parquet tables, or a store), or a CSV or Parquet file with its --map
(`hpabatch import table FILE --init` proposes one). What `sweep` and `recommend` do is done with a
default grid, SLO and bounds, each of which is stated with the result and can be set. The answer of
an HPA is change, keep or no advice, with a confidence: high, medium or low, the reasons for it, and
what would raise it; docs/advise.md explains them.

\b
--out becomes a folder with everything that the advice rests on: the imported history, the sweep,
the sizes under today's and the recommended settings, and patches with their certificates. Changes
of high confidence are in FOLDER/patches, those of medium confidence in FOLDER/review, with their
doubts at the top; --accept medium or low writes more to FOLDER/patches. An interrupted run goes on
with the same command. With another limit, bound or --accept the same sweep is asked again; another
grid, lens or history needs --replace.

\b
Exit codes: 0 fine ("no advice" is an answer), 2 something is wrong or cannot be read, 3 some HPAs
were left out or edited since, or another sweep is at --out, 75 ended early (repeat the command),
130 interrupted.

\b
Examples:
  hpabatch advise history/ --out advice/
  hpabatch advise usage.csv --map map.yaml --objects objects.yaml --out advice/ --accept medium
  hpabatch advise history/ --out advice/ --slo 'saturated_minutes<0.1%' --prices prices.yaml
  hpabatch advise history/ --out advice/ --bound target=10 --bound min=same -n shop
"""


@command(app, _HELP)
def advise(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A history, or a table's file.")],
    request: AdviseRequest,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FOLDER", help="Folder for all that the advice rests on."),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the sweep at --out, and rows imported there, by others."
        ),
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Say what should change, from a history or a table, in one command."""
    check_stdout(output)
    try:
        raise typer.Exit(_Run(data, request, out, replace).finish(output))
    except KeyboardInterrupt:
        kept = "nothing was done that can be kept; repeat the command"
        if Path(out).exists():
            kept = "what is done is kept; repeat the command for the rest"
        say(f"interrupted: {kept}")
        raise typer.Exit(EXIT_INTERRUPTED) from None


class _Run:
    """One run of the command."""

    def __init__(self, data: str, request: AdviseRequest, out: str, replace: bool) -> None:
        """Refuse what is wrong before anything is computed (UsageError)."""
        from hpabatch.cli.what_if.recommend_files import check_folder
        from hpabatch.engine.advise.bounds import parse_bounds
        from hpabatch.engine.advise.objective import parse_goal
        from hpabatch.inputs.cluster_objects import read_objects
        from hpabatch.jobs.advise import AdviceFolder

        if "://" in out or out in ("", "-", "."):
            raise UsageError(f"--out: expected a new folder for the advice, got {out!r}; name one")
        parse_goal(request.slo, request.minimize)
        parse_bounds(request.bound)
        if request.objects:
            read_objects(request.objects)
        self.data, self.request, self.replace = data, request, replace
        self.folder = AdviceFolder(Path(out))
        self.folder.check()
        check_folder(self.folder.patches)
        check_folder(self.folder.review)

    def finish(self, output: Output) -> int:
        """Do it all and tell; return the exit code."""
        from hpabatch.cli.what_if.recommend_files import write_files

        is_table = self._is_table()
        with self.folder.opened():
            with progress_on_stderr() as progress:
                place = self._import(progress) if is_table else self.data
                report, skipped, notes = self._advice(place, progress)
            patches, review = str(self.folder.patches), self.folder.review
            shown, code = write_files(report, patches, (), in_place=False, review=review)
            self.folder.finish(report.found.options.sweep, report.found)
        tell(notes, "note")
        tell_skipped(skipped, place)
        tell(shown.warnings)
        show_report(shown, output)
        return code or (EXIT_REFUSED if skipped else EXIT_OK)

    def _is_table(self) -> bool:
        """Say whether a table has to be imported first (UsageError, HistoryError: neither can)."""
        from hpabatch.cli.arguments import check_inputs
        from hpabatch.history.reader import open_history

        if self.request.map is not None:
            return True
        if _is_file(self.data):
            raise UsageError(
                f"{self.data}: what the columns of a table mean has to be said: `hpabatch import "
                f"table {self.data} --init --map map.yaml` proposes it; then name it with --map"
            )
        history = open_history(self.data, "replay")
        check_inputs(self.folder.path, self.folder.path.absolute(), history, ())
        return False

    def _import(self, progress: Progress) -> str:
        """Return the history that the table is imported into, in the folder."""
        from hpabatch.importers.table.request import TableRequest
        from hpabatch.importers.table.run import import_table
        from hpabatch.report.imported import assumed_line

        place = str(self.folder.history)
        request = TableRequest(
            inputs=(self.data,),
            map=self.request.map,
            objects=self.request.objects,
            out=place,
            replace=self.replace,
        )
        found = import_table(request, progress)
        tell(found.warnings)
        shown = found.assumed if LEGEND.get() else [assumed_line(found.assumed)]
        for text in filter(None, shown):
            say(f"assumed: {text}")
        return place

    def _advice(
        self, place: str, progress: Progress
    ) -> tuple[AdviseReport, list[Skipped], list[str]]:
        """Sweep, recommend and keep trajectories; return what is told."""
        from hpabatch.api.sweeps import Sweep, recommend
        from hpabatch.engine.fidelity.lens import seen_through
        from hpabatch.engine.fleet.candidates import Skipped
        from hpabatch.engine.sweep.request import SweepRequest
        from hpabatch.engine.sweep.run import plan_request
        from hpabatch.history.reader import open_history
        from hpabatch.inputs.workers import Spread
        from hpabatch.jobs.advise import write_trajectories
        from hpabatch.jobs.publish import Destination
        from hpabatch.jobs.sweep import SweepJob, SweepRefusedError, sweep_to_disk
        from hpabatch.jobs.sweep_files import digest_sweep
        from hpabatch.report.advise import AdviseReport

        progress("planning", 0.0)
        asked = SweepRequest.part_of(self.request)
        see = seen_through(asked.lens, progress)
        plan = plan_request(open_history(place, "replay"), asked, see)
        destination = Destination(self.folder.sweep, is_folder=True)
        if self.request.fidelity:
            tell_compiling("walk_observations")
        try:
            result = sweep_to_disk(
                SweepJob(asked, plan, destination, self.replace, Spread.part_of(self.request)),
                JobProgress(progress, "sweeping", "simulate_fleet"),
            )
        except SweepRefusedError as error:
            tell_skipped(error.skipped, place)
            raise RefusedError(f"{place}: {error}") from None
        sweep = Sweep(result, digest_sweep(self.folder.sweep))
        self.folder.belongs(sweep.digest)
        found = recommend(sweep, self.request).found
        if not self.folder.has_trajectories(sweep.digest, found):
            self.folder.begin(sweep.digest)
            write_trajectories(plan, found, self.folder.trajectories, progress)
        skipped = [Skipped(*row) for row in result.parameters["skipped"]]
        report = AdviseReport(
            found, folder=str(self.folder.path), history=place, asked=self.request
        )
        return report, skipped, list(result.parameters["notes"])


def _is_file(place: str) -> bool:
    return "://" not in place and Path(place).is_file()
