"""Commands that tell what is wrong: findings of a history, of manifests, of a change."""

from __future__ import annotations

import io
import sys

from hpabatch.cli.app import Answer, app, command
from hpabatch.cli.arguments import ExitCodeOption, HistoryArgument
from hpabatch.cli.manifests import open_with_hpas, valid_hpas
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.errors import EXIT_REFUSED
from hpabatch.inputs.request import LintRequest


@command(app, shows=True, faults=True)
def findings(
    history: HistoryArgument,
    request: ReplayRequest,
    exit_code: ExitCodeOption = False,
) -> Answer:
    """Tell what is wrong with the HPAs of a history.

    One row per HPA and finding, the worst first: its id, severity, the sentence with its numbers,
    what to do, and the numbers as JSON. They come from a replay of the history and from the last
    specs alone. docs/findings.md has the catalogue.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were skipped (the others are looked
    at), or with --exit-code there are findings.

    \b
    Examples:
      hpabatch findings history/
      hpabatch findings history/ -n shop -o csv > findings.csv
      hpabatch findings history/ -o json | jq '.[] | select(.severity == "high")'
    """
    with progress_on_stderr("replay_observations") as progress:
        from hpabatch.jobs.replay import plan_of
        from hpabatch.report.findings import findings_in

        progress("loading", 0.0)
        source, manifests, code = open_with_hpas(history, request)
        found = findings_in(plan_of(source, request, manifests), progress)
    tell(found.warnings)
    left_out = tell_skipped(found.skipped)
    return found, code or left_out or (EXIT_REFUSED if exit_code and found.found.height else 0)


@command(app, shows=True, faults=True)
def lint(request: LintRequest, exit_code: ExitCodeOption = False) -> Answer:
    """Tell what is wrong with manifests, without a history.

    Reads manifests as `hpabatch validate` does, and the Deployments and other workloads in the same
    files. Beside what a spec amounts to (`hpabatch analyze`): API versions that are no longer
    served, several HPAs or KEDA and an HPA on one target, selectors that match other pods,
    containers without the request that a utilization is of. docs/findings.md has the catalogue.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused (the others are looked
    at), or with --exit-code there are findings; 2 wins over 3.

    \b
    Examples:
      hpabatch lint manifests/
      hpabatch lint manifests/ --exit-code -o csv
      kubectl get hpa -A -o yaml | hpabatch lint -
    """
    from hpabatch.engine.findings.lint import lint as findings_of
    from hpabatch.model.versions import profile_for
    from hpabatch.report.findings import Findings

    profile = profile_for(request.k8s, request.feature_gates)
    if profile.notes:
        say(f"warning: {profile.notes}")
    missing = f"{' '.join(request.paths)}: no valid HPA to look at"
    stdin = sys.stdin.buffer.read() if "-" in request.paths else b""
    checked, code = valid_hpas(request.paths, profile, missing, io.BytesIO(stdin))
    judged = findings_of(checked, request.paths, profile, stdin)
    found = Findings(judged.found, len(checked), {}, ignored=judged.ignored)
    return found, code or (EXIT_REFUSED if exit_code and found.found.height else 0)
