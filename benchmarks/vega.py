"""The JavaScript of charts that the page embeds, from vl-convert's bundle.

    python -m benchmarks.vega

A test compares its checksum with the one that `hpabatch.report.page.html` states.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import vl_convert

PLACE: Final = Path(__file__).resolve().parents[1] / "hpabatch/report/page/assets/vega.js"
SNIPPET: Final = "window.vega=vega;window.vegaEmbed=vegaEmbed;"


def main() -> None:
    """Write the bundle, and print its checksum."""
    text = vl_convert.javascript_bundle(SNIPPET)
    PLACE.write_text(text)
    print(hashlib.sha256(text.encode()).hexdigest())


if __name__ == "__main__":
    main()
