"""The program with a shorter wait of its probe: a second instead of minutes."""

from __future__ import annotations

import sys


def main(wait_s: str, arguments: list[str]) -> None:
    """Run the program; a second instead of minutes shows that no other controller acts.

    The package has no switch for that: only who replaces a function of it can shorten the wait.
    """
    from hpabatch.cli import main as run
    from hpabatch.live.apply import setup

    setup.silence_s = lambda period_s: float(wait_s)  # type: ignore[attr-defined]
    sys.argv = ["hpabatch", *arguments]
    run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
