"""`hpabatch lint`: what is wrong with manifests, without a history."""

from __future__ import annotations

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.manifests import valid_hpas
from hpabatch.cli.options import ExitCodeOption, Output, OutputOption
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_REFUSED
from hpabatch.inputs.request import LintRequest


@command(app)
def lint(
    request: LintRequest, exit_code: ExitCodeOption = False, output: OutputOption = Output.table
) -> int:
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
    checked, code = valid_hpas(request.paths, profile, missing)
    found = Findings(findings_of(checked, request.paths, profile), len(checked), {})
    show_report(found, output)
    return code or (EXIT_REFUSED if exit_code and found.found.height else 0)
