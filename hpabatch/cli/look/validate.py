"""`hpabatch validate`: read manifests, default them, and apply the API server's rules."""

from __future__ import annotations

from typing import Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.options import DEFAULT_K8S, GatesOption, K8sOption, Output, OutputOption
from hpabatch.cli.stdout import check_stdout, data_stream
from hpabatch.cli.talk import say

_HELP = """Load, default and validate HPAs of any API version.

Reads files, folders (recursively: .yaml, .yml and .json) and `-` for standard input; YAML or
JSON, one document or many, or a List. Complaints are the API server's, with its field paths.
Documents of other kinds are skipped and counted. Key given twice, HPA given twice in one input
tree, DaemonSet targets and unknown fields are warnings, and errors under --strict.

\b
One row per document goes to stdout; complaints, warnings and a summary go to stderr.
Exit codes: 0 all valid, 2 something cannot be read, 3 something is refused; 2 wins over 3.

\b
Examples:
  hpabatch validate manifests/ more.yaml
  kubectl get hpa -A -o yaml | hpabatch validate -
  hpabatch validate --k8s 1.36 --strict --output csv manifests/ > rows.csv
"""


@app.command(help=_HELP)
def validate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, folders, or - for stdin.")
    ],
    k8s: K8sOption = DEFAULT_K8S,
    feature_gates: GatesOption = "",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are errors.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Load, default and validate HPAs of any API version."""
    import io
    import sys

    from hpabatch.inputs.manifest_checks import check_manifests, exit_code
    from hpabatch.inputs.manifests import load_manifests
    from hpabatch.model.versions import profile_for
    from hpabatch.report import validation

    profile = profile_for(k8s, feature_gates)
    if profile.notes:
        say(f"warning: {profile.notes}")
    check_stdout(output)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may not know Unicode
    manifests = load_manifests(paths)
    checked = check_manifests(manifests.entries, profile, strict)
    for line in validation.talk_lines(checked):
        say(line)
    rows = validation.validation_rows(checked)
    with data_stream() as stdout:
        match output:
            case Output.table:
                validation.write_table(rows, stdout)
            case Output.json:
                validation.write_json(rows, stdout)
            case Output.csv:
                validation.write_csv(rows, stdout)
            case Output.parquet:
                validation.write_parquet(rows, stdout.buffer)
    say(validation.summary_line(checked, manifests.skipped, profile.name))
    raise typer.Exit(exit_code(checked))
