"""The command line: one module per command, bodies read -> engine -> report, lazy imports."""

import os

from hpabatch.cli.signals import signals_handled


def main() -> None:
    """Run the command line; of all that is imported only `signals` is unguarded by it."""
    # Between two kernels GNU's OpenMP lets a thread spin for milliseconds, on a core that reading
    # and writing need: a third of a replay's CPU time. It reads this once, when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with signals_handled() as signals:
        from hpabatch.cli.run import run

        run(signals)


__all__ = ["main"]
