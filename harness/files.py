"""Files of a read-only file system: plain texts under normalised paths (``./a``, ``/a`` and ``a`` are one file), whose
lines end at ``\\n`` and nowhere else. Sizes are in characters, never bytes.
"""

from __future__ import annotations

import posixpath
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate


@lru_cache(maxsize=4096)
def normal(path: str) -> str:
    """The one name of a path, without a leading slash; the root is the empty string."""
    return posixpath.normpath("/" + path).lstrip("/")


class File:
    """A text whose lines and words are counted once, however many episodes read it. A command takes its
    lines out of the text, so a long document is held once."""

    def __init__(self, text: str, *, restored: bool = False) -> None:
        self.text = text
        self.restored = restored
        """Whether it is a method's mount, so that what is read from it counts as handed back."""

    @cached_property
    def starts(self) -> array[int]:
        """Where each line begins and, at last, where one more would; a last line needs no newline to be one."""
        return starts_of(self.text)

    @property
    def line_count(self) -> int:
        """How many lines it has."""
        return len(self.starts) - 1

    def line(self, index: int) -> str:
        """One line (from 0) without its end."""
        return self.text[self.starts[index] : self.starts[index + 1] - 1]

    def lines(self, first: int, last: int) -> str:
        """The lines from ``first`` (from 0) up to but not ``last``, without the end of the last one."""
        first, last = min(first, self.line_count), min(last, self.line_count)
        return self.text[self.starts[first] : self.starts[last] - 1] if first < last else ""

    @cached_property
    def lowered(self) -> File:
        """The text in lower case, line for line; some characters get longer by it."""
        return File(self.text.lower())

    def line_at(self, offset: int) -> int:
        """Which line (from 0) has this offset; the count of lines behind the last line end."""
        return bisect_right(self.starts, offset) - 1

    @cached_property
    def split(self) -> list[str]:
        """The lines without their ends, as texts of their own: twice the memory, made only where it pays."""
        return [self.line(i) for i in range(self.line_count)]

    def some(self, numbers: Sequence[int]) -> list[str]:
        """The lines of these numbers (from 0) without their ends."""
        return [self.split[i] for i in numbers] if self._many(numbers) else [self.line(i) for i in numbers]

    def holding(self, part: str) -> list[int]:
        """The lines (from 0) that have this part."""
        numbers: list[int] = []
        line = 0
        while line < self.line_count and (at := self.text.find(part, self.starts[line])) >= 0:
            line = self.line_at(at)
            if line < self.line_count:
                numbers.append(line)
            if self._many(numbers):  # then looking at each line is faster
                return [i for i, text in enumerate(self.split) if part in text]
            line += 1
        return numbers

    def _many(self, numbers: Sequence[int]) -> bool:
        """Whether these are so many of the lines that it pays to have them all split."""
        return len(numbers) > self.line_count // 32

    @cached_property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())


def starts_of(text: str) -> array[int]:
    """The offsets at which the lines of a text begin, and one more."""
    sizes = [len(line) + 1 for line in text.split("\n")]
    if sizes[-1] == 1:  # nothing after the last line end
        sizes.pop()
    return array("q", accumulate(sizes, initial=0))


class Mounts:
    """The files of a method's mounts, kept from call to call while their text stays the same."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}

    def files(self, mounts: Mapping[str, str]) -> dict[str, File]:
        """The mounted files under their normalised paths."""
        known, self._files = self._files, {}
        for path, text in mounts.items():
            file = known.get(normal(path))
            self._files[normal(path)] = file if file and file.text == text else File(text, restored=True)
        return dict(self._files)
