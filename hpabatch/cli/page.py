"""The page to send."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app, command
from hpabatch.cli.arguments import HistoryArgument, check_file, check_inputs
from hpabatch.cli.manifests import open_with_hpas
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import check_stdout, send_text, show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError
from hpabatch.report.base import Output
from hpabatch.report.page.request import ReportRequest

if TYPE_CHECKING:
    from hpabatch.history.reader import History
    from hpabatch.model.objects.hpa import HPA
    from hpabatch.model.progress import Progress
    from hpabatch.report.page.result import FleetReport


class Form(StrEnum):
    """The form of a page."""

    html = "html"
    markdown = "markdown"
    json = "json"


@command(app)
def report(
    history: HistoryArgument,
    request: ReportRequest,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File of the page.  [default: report.html; Markdown and JSON go to stdout]",
        ),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="Form of the page.")] = Form.html,
) -> int:
    """Make one page to send: verdict, what to do, findings, fleet, every timeline.

    The page is one file, which needs no other and no network. It says what the HPAs use, what to
    do now, what does harm today, and what cannot be judged; then each HPA with its timeline, its
    rescales, long holds and failures, and the rule and the arithmetic of each. With --advice it has
    the changes of `hpabatch advise` with their patches, with --plan a capacity plan.

    \b
    `report.html#hpa=shop/checkout&t=2026-10-07T13:22:30Z` opens at that HPA and time.
    --format markdown is for tickets, json has all of the page's data.
    HISTORY may be the report.json of a page: the page is made of it again. --compare says what is
    new, fixed and worse since such a file. --redact replaces names, the same one everywhere, and
    leaves out what may hold some; times and numbers stay.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were left out (the page has the
    others), or none could be judged (the page says why).

    \b
    Examples:
      hpabatch report history/
      hpabatch report history/ --advice advice/ --plan plan/ --out report.html
      hpabatch report history/ -n shop --format markdown > ticket.md
      hpabatch report history/ --redact --out public.html
      hpabatch report history/ --format json --out today.json --compare last.json
    """
    place = out or ("report.html" if form is Form.html else None)
    if place is not None:
        check_file("--out", place)
    else:
        check_stdout(form)
    with progress_on_stderr("replay_observations") as progress:
        from hpabatch.history.replaced import check_replaced
        from hpabatch.report.page.result import FleetReport, amount_line, read_beside

        progress("loading", 0.0)
        code = EXIT_OK
        inputs: dict[str, Iterable[str | Path]] = {"--hpas": request.hpas, **read_beside(request)}
        if history.endswith(".json") and not os.path.isdir(history):
            if request != ReportRequest(compare=request.compare):
                raise UsageError(
                    f"{history} has its HPAs and options; give no other than --compare, --format "
                    "and --out, or name the history"
                )
            if place is not None:
                check_inputs(place, None, {"HISTORY": [history], **inputs})
                check_replaced(place, form, "--out")
            found = FleetReport.read(history)
            if request.compare is not None:
                found = found.since(FleetReport.read(request.compare, "--compare "))
        else:
            source, manifests, code = open_with_hpas(history, request)
            if place is not None:
                check_inputs(place, source, inputs)
                check_replaced(place, form, "--out")
            found = _replayed(source, manifests, history, request, progress)
        if place is not None:
            progress("writing", 1.0)
            found.write(place, None if form is Form.html else Output(form))
    left_out = tell_skipped(found.skipped)
    if place is None:
        show_report(found, Output(form))
    else:
        lines = [found.verdict, "", *map(amount_line, found.told["amounts"]), f"page: {place}"]
        send_text("\n".join(lines) + "\n")
    return code or left_out or (EXIT_OK if found.judged else EXIT_REFUSED)


def _replayed(
    source: History,
    manifests: list[HPA] | None,
    history: str,
    request: ReportRequest,
    progress: Progress,
) -> FleetReport:
    from hpabatch.jobs.replay import NothingReplayedError, plan_of
    from hpabatch.report.page.result import report_of

    try:
        return report_of(plan_of(source, request, manifests), request, history, progress)
    except NothingReplayedError as error:
        tell(error.warnings)
        tell_skipped(error.skipped)
        raise RefusedError(f"{history}: {error}") from None
