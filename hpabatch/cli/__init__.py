"""The command line: one module per command, bodies read -> engine -> report, lazy imports."""

from hpabatch.cli.signals import signals_handled


def main() -> None:
    """Run the command line; of all that is imported only `signals` is unguarded by it."""
    with signals_handled() as signals:
        from hpabatch.cli.run import run

        run(signals)


__all__ = ["main"]
