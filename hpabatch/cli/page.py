"""The page to send."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hpabatch.cli.app import app, command
from hpabatch.cli.arguments import HistoryArgument, check_file, check_inputs
from hpabatch.cli.manifests import open_with_hpas
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import check_stdout, send_text, show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.errors import RefusedError
from hpabatch.report.base import Output
from hpabatch.report.page.request import ReportRequest


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
    --redact replaces names, the same one everywhere. Requests, times and numbers stay.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were left out (the page has the
    others).

    \b
    Examples:
      hpabatch report history/
      hpabatch report history/ --advice advice/ --plan plan/ --out report.html
      hpabatch report history/ -n shop --format markdown > ticket.md
      hpabatch report history/ --redact --out public.html
    """
    place = out or ("report.html" if form is Form.html else None)
    if place is not None:
        check_file("--out", place)
    else:
        check_stdout(form)
    with progress_on_stderr("replay_observations") as progress:
        from hpabatch.jobs.replay import NothingReplayedError, plan_of
        from hpabatch.report.page.result import amount_line, report_of

        progress("loading", 0.0)
        source, manifests, code = open_with_hpas(history, request)
        if place is not None:
            check_inputs(place, Path(place).absolute(), source, request.hpas)
        plan = plan_of(source, request, manifests)
        try:
            found = report_of(plan, request, history, progress)
        except NothingReplayedError as error:
            tell(error.warnings)
            tell_skipped(error.skipped)
            raise RefusedError(f"{history}: {error}") from None
        if place is not None:
            progress("writing", 1.0)
            found.write(place, None if form is Form.html else Output(form))
    left_out = tell_skipped(found.skipped)
    if place is None:
        show_report(found, Output(form))
    else:
        lines = [found.verdict, "", *map(amount_line, found.told["amounts"]), f"page: {place}"]
        send_text("\n".join(lines) + "\n")
    return code or left_out
