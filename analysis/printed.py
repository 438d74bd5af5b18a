"""Numbers as a paper prints them: an interval as wide as the rounding, and arithmetic that keeps it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(r"(-?\d+)(?:\.(\d+))?(?:e(-?\d+))?")


@dataclass(frozen=True, slots=True)
class Range:
    """All values from ``low`` to ``high``. A printed 12.34 is 12.335 to 12.345; an exact count is a point."""

    low: float
    high: float

    @classmethod
    def of(cls, text: str) -> Range:
        """What may have been rounded to this text. Raises ``ValueError`` for what is no number."""
        if text == "inf":
            return cls(math.inf, math.inf)
        found = _NUMBER.fullmatch(text)
        if not found:
            raise ValueError(f"{text}: not a number")
        half = 0.5 * 10.0 ** (int(found[3] or 0) - len(found[2] or ""))
        return cls(float(text) - half, float(text) + half)

    @classmethod
    def exactly(cls, value: float) -> Range:
        """One value."""
        return cls(value, value)

    @property
    def half(self) -> float:
        """Half the width: the tolerance."""
        return 0.0 if self.low == self.high else (self.high - self.low) / 2

    @property
    def middle(self) -> float:
        """The value in the middle."""
        return self.low if self.low == self.high else (self.low + self.high) / 2

    def meets(self, other: Range) -> bool:
        """Whether one value may stand behind both; rounding may go either way at an edge."""
        if self.low == other.low or self.high == other.high:
            return True
        # in proportion, so that it also holds for p-values of 1e-200
        slack = 1e-9 * max(map(abs, (self.low, self.high, other.low, other.high)))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def around(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Which of these values are in it, the edges with it; as :meth:`meets`."""
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return (values >= self.low - slack) & (values <= self.high + slack)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(min(ends), max(ends))

    def __truediv__(self, other: Range) -> Range:
        if other.low <= 0 <= other.high:
            return Range(-math.inf, math.inf)
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(min(ends), max(ends))

    def times(self, factor: float) -> Range:
        """Scaled."""
        return self * Range.exactly(factor)

    def __str__(self) -> str:
        return short(self.middle) if self.half < 1e-12 else f"{short(self.low)} to {short(self.high)}"


def short(value: float) -> str:
    """A number in at most six significant digits."""
    return f"{value:.6g}"


ONE, HUNDRED = Range.exactly(1), Range.exactly(100)
