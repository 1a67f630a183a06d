"""Base of results: a verdict, and a frame that notebooks show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape

import polars as pl


class Result(ABC):
    """What a use case returns."""

    @property
    @abstractmethod
    def verdict(self) -> str:
        """One sentence: what was found."""

    @property
    @abstractmethod
    def frame(self) -> pl.DataFrame:
        """The rows that matter most; docs/output.md explains the columns."""

    def __repr__(self) -> str:
        """Return the verdict."""
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the verdict and the frame, for notebooks."""
        return f"<p>{escape(self.verdict)}</p>\n{self.frame._repr_html_()}"
