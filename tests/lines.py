"""`python -m tests.lines`: no package has more lines than pyproject.toml says.

The numbers only fall: by taking mechanisms out, never by density. One that rises has its reason in
its line. `--set` writes the present size of every package that has become smaller.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"


def lines_of(package: str) -> int:
    """Return the lines (code, comments and blanks) of what is below a folder."""
    files = (ROOT / package).rglob("*.py")
    return sum(path.read_bytes().count(b"\n") for path in files)


def main() -> int:
    """Name the packages that are too large; return 1 if there is one."""
    text = PYPROJECT.read_text()
    most: dict[str, int] = tomllib.loads(text)["tool"]["lines"]
    sizes = {package: lines_of(package) for package in most}
    for package, size in sizes.items():
        if size > most[package]:
            print(f"{package}: expected at most {most[package]} lines, got {size}")  # noqa: T201
        elif "--set" in sys.argv:
            text = re.sub(rf'(?m)^("{package}" = )\d+', rf"\g<1>{size}", text)
    if "--set" in sys.argv:
        PYPROJECT.write_text(text)
    return int(any(size > most[package] for package, size in sizes.items()))


if __name__ == "__main__":
    sys.exit(main())
