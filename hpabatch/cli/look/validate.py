"""`hpabatch validate`: read manifests, default them, and apply the API server's rules."""

from __future__ import annotations

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import say
from hpabatch.inputs.request import ValidateRequest


@command(app)
def validate(request: ValidateRequest, output: OutputOption = Output.table) -> int:
    """Load, default and validate HPAs of any API version.

    Reads files, folders (recursively: .yaml, .yml and .json) and `-` for standard input; YAML or
    JSON, one document or many, or a List. Complaints are the API server's, with its field paths. A
    ScaledObject is read as the HPA that KEDA makes. Documents of other kinds are skipped and
    counted. Key given twice, HPA given twice in one input tree, DaemonSet targets, fields that are
    unknown or dropped, and targets of another type than their value are warnings, and errors under
    --strict.

    \b
    One row per document goes to stdout; complaints, warnings and a summary go to stderr.
    Exit codes: 0 all valid, 2 something cannot be read, 3 something is refused; 2 wins over 3.

    \b
    Examples:
      hpabatch validate manifests/ more.yaml
      kubectl get hpa -A -o yaml | hpabatch validate -
      hpabatch validate --k8s 1.36 --strict --output csv manifests/ > rows.csv
    """
    import io
    import sys

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
    show_report(found, output)
    say(found.verdict)
    return exit_code(found.checked)
