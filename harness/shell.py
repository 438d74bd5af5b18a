"""A read-only file system and the shell-like commands on it, shared by the harnesses. There is no real shell.

Files are plain texts under normalised paths (``./a``, ``/a`` and ``a`` are one file). Lines end at
``\\n`` and nowhere else. A command does all that it was asked or, with a one-line notice and a
non-zero return code, nothing. Sizes are in characters, never bytes.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import regex  # type: ignore[import-untyped]  # `re` has no time limit, and the patterns are the model's

from arcbench.types import Action, ConfigError, Observation

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_SHELL_SYNTAX = re.compile(r"[|<>;&`]|\$\(")
_WILDCARDS = re.compile(r"[*?\[]")
_AMOUNT = re.compile(r"[+-]?[0-9]{1,12}")
_PORTION = re.compile(r"-([nc]?)([+-]?[0-9]{1,12})")
_LINE_RANGE = re.compile(r"([0-9]{1,12}|\$)(?:,([0-9]{1,12}|\$))?p")
_BASIC_SPECIAL = re.compile(r"[\\.\[*^$]")
_EXTENDED_SPECIAL = re.compile(r"[\\.\[*^$+?{}|()]")
# what may not match within a text though it matches within a line (look-around and other groups, the ends of the
# text, quantifiers that give nothing back), or run on over all that follows (the complements of classes)
_LINE_BOUND = re.compile(r"\(\?|\\[AZzGKRXDWP]|[*+?}]\+|\[\^\]-")
_NEGATED = re.compile(r"(\\.)|\[\^[\]-]?")
_BASIC_TOKEN = re.compile(r"\\(.)|\[\^?\]?(?:\[:\w+:\]|[^\]])*\]|[+?|(){}]")

NO_SHELL = "There is no shell here: one plain command per reply, without pipes, redirections, ; && or substitutions."
USAGE = {
    "ls": "usage: ls [-l] [PATH...]",
    "cat": "usage: cat FILE...",
    "head": "usage: head [-n LINES | -c CHARS] FILE...",
    "tail": "usage: tail [-n LINES | -n +FIRST | -c CHARS] FILE...",
    "sed": "usage: sed -n FIRST,LASTp FILE (lines only; $ is the last one)",
    "grep": "usage: grep [-n] [-i] [-c] [-F | -E] PATTERN FILE...",
    "wc": "usage: wc [-l] [-w] [-c] FILE...",
}


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


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a command, and the paths of the files whose content it looked at.
    Names and sizes (``ls``, ``wc``) are not content."""

    observation: Observation
    opened: tuple[str, ...] = ()


class _Refusal(Exception):
    def __init__(self, returncode: int, text: str) -> None:
        super().__init__(text)
        self.returncode = returncode


Opened = list[tuple[str, File]]


class Shell:
    """The commands. It holds no state, so one serves all episodes."""

    def __init__(self, *, commands: Sequence[str], regex_timeout_s: float) -> None:
        """``commands`` are those on offer; ``regex_timeout_s`` is the most time of one grep.
        Raises :class:`ConfigError` for a command that does not exist or a limit that is not positive."""
        known: dict[str, Callable[[list[str], Mapping[str, File]], Result]] = {
            "ls": _ls,
            "cat": _cat,
            "head": _head,
            "tail": _tail,
            "sed": _sed,
            "grep": self._grep,
            "wc": _wc,
        }
        if not isinstance(commands, list | tuple) or not commands:
            raise ConfigError(f"harness.shell.commands={commands!r}: must be a list of {', '.join(known)}")
        for name in commands:
            if not isinstance(name, str) or name not in known:
                raise ConfigError(f"harness.shell.commands={name}: must be one of {', '.join(known)}")
        if isinstance(regex_timeout_s, bool) or not isinstance(regex_timeout_s, int | float) or not regex_timeout_s > 0:
            raise ConfigError(f"harness.shell.regex_timeout_s={regex_timeout_s}: must be a number above 0")
        self._commands = {name: known[name] for name in commands}
        self._timeout_s = regex_timeout_s

    def run(self, action: Action, files: Mapping[str, File], *, also: Iterable[str] = ()) -> Result:
        """Run one command on the files (keys normalised). ``also`` names the caller's own commands,
        for the notice that lists what there is. Return codes: 1 failed, 2 misused, 127 unknown."""
        try:
            if _SHELL_SYNTAX.search(_QUOTED.sub("", action.text)):
                raise _Refusal(2, NO_SHELL)
            if action.name not in self._commands:
                offer = " ".join((*self._commands, *also))
                raise _Refusal(127, f"{_short(action.name)}: no such command. There are: {offer}")
            try:
                words = shlex.split(action.argument)
            except ValueError:
                raise _Refusal(2, f"{action.name}: a quote or a backslash is left open") from None
            return self._commands[action.name](words, files)
        except _Refusal as refusal:
            return Result(Observation(str(refusal), returncode=refusal.returncode))

    def _grep(self, words: list[str], files: Mapping[str, File]) -> Result:
        flags: set[str] = set()
        operands: list[str] = []
        left = iter(words)
        for word in left:
            if word == "--":
                operands.extend(left)
            elif word.startswith("-") and len(word) > 1:
                flags.update(word[1:])
            else:
                operands.append(word)
        if not operands or not flags <= set("nicEF"):
            raise _Refusal(2, USAGE["grep"])
        opened = _open("grep", operands[1:], files)
        hits = self._matches(operands[0], flags)
        shown: list[str] = []
        found = False
        for path, file in opened:
            numbers = hits(file)
            lines = file.some(numbers)
            found = found or bool(numbers)
            name = f"{path}:" if len(opened) > 1 else ""
            if "c" in flags:
                shown.append(f"{name}{len(numbers)}")
            elif "n" in flags:
                shown += [f"{name}{i + 1}:{line}" for i, line in zip(numbers, lines, strict=True)]
            else:
                shown += [name + line for line in lines]
        return _result("\n".join(shown), opened, returncode=0 if found else 1, empty="grep: no line matches")

    def _matches(self, pattern: str, flags: set[str]) -> Callable[[File], list[int]]:
        """What finds the indices of the matching lines."""
        special = _EXTENDED_SPECIAL if "E" in flags else _BASIC_SPECIAL
        if "F" in flags or not special.search(pattern):
            if "\n" in pattern:
                return lambda file: []
            return lambda file: file.lowered.holding(pattern.lower()) if "i" in flags else file.holding(pattern)
        source = pattern if "E" in flags else _extended(pattern)
        words = source.split("|")
        if all(words) and not any(map(_EXTENDED_SPECIAL.search, words)):  # what agents ask for most, and the fastest
            alike = [self._matches(word, {*flags, "F"}) for word in words]
            return lambda file: sorted({i for matches in alike for i in matches(file)})
        by_line = _LINE_BOUND.search(source)
        if not by_line:  # [^x] would take line ends too
            source = _NEGATED.sub(lambda match: match[0] if match[1] else match[0] + "\\n", source)
        try:
            compiled = regex.compile(source, regex.MULTILINE | (regex.IGNORECASE if "i" in flags else 0))
        except (regex.error, OverflowError, RecursionError, MemoryError) as error:
            raise _Refusal(2, f"grep: bad pattern: {_short(str(error))} (grep -F takes it as it stands)") from None
        deadline = time.monotonic() + self._timeout_s

        def found(text: str, at: int = 0) -> tuple[int, int] | None:
            match = compiled.search(text, at, timeout=max(deadline - time.monotonic(), 0.0))
            return match.span() if match else None

        def search(file: File) -> list[int]:
            numbers: list[int] = []
            line = 0
            # what matches within a line is also found in the text as a whole, which is several times faster; a match
            # there that ends in another line says nothing about its own
            while line < file.line_count and (span := found(file.text, file.starts[line])):
                line = file.line_at(span[0])
                if line < file.line_count and (span[1] < file.starts[line + 1] or found(file.line(line))):
                    numbers.append(line)
                line += 1
            return numbers

        def hits(file: File) -> list[int]:
            try:
                return [i for i in range(file.line_count) if found(file.line(i))] if by_line else search(file)
            except TimeoutError:
                raise _Refusal(2, "grep: this pattern takes too long: use a simpler one, or grep -F") from None

        return hits


def _extended(pattern: str) -> str:
    """A basic regular expression in the extended notation: ``\\|`` and ``|`` change places, and so on."""

    def swap(match: re.Match[str]) -> str:
        if match[1]:
            return "\\b" if match[1] in "<>" else match[1] if match[1] in "+?|(){}" else match[0]
        return match[0] if match[0][0] == "[" else "\\" + match[0]

    return _BASIC_TOKEN.sub(swap, pattern)


def _short(word: str) -> str:
    """A word of the agent's, fit to be repeated in a one-line notice."""
    word = " ".join(word.split())
    return word if len(word) <= 80 else word[:80] + "..."


def _is_folder(path: str, files: Mapping[str, File]) -> bool:
    return not path or any(name.startswith(path + "/") for name in files)


def _open(command: str, words: Sequence[str], files: Mapping[str, File]) -> Opened:
    """The files that the operands name; raises a refusal for the first that is none."""
    if not words:
        raise _Refusal(2, USAGE[command])
    opened = []
    for word in words:
        path = normal(word)
        if path in files:
            opened.append((path, files[path]))
        elif _WILDCARDS.search(word):
            raise _Refusal(2, f"{command}: {_short(word)}: there are no wildcards here; name each file")
        elif _is_folder(path, files):
            raise _Refusal(1, f"{command}: {_short(word)}: is a directory; see ls {_short(word)}")
        else:
            raise _Refusal(1, f"{command}: {_short(word)}: no such file")
    return opened


def _result(text: str, opened: Opened, *, returncode: int = 0, empty: str = "(no output)") -> Result:
    return Result(
        Observation(
            text,
            returncode=returncode,
            note="" if text else empty,
            restored=any(file.restored for _, file in opened),
        ),
        tuple(path for path, _ in opened),
    )


def _no_options(command: str, words: Sequence[str]) -> None:
    if any(word.startswith("-") for word in words):
        raise _Refusal(2, USAGE[command])


def _ls(words: list[str], files: Mapping[str, File]) -> Result:
    flags = {letter for word in words if word.startswith("-") for letter in word[1:]}
    if not flags <= set("la1h"):
        raise _Refusal(2, USAGE["ls"])
    shown: list[str] = []
    for word in [word for word in words if not word.startswith("-")] or ["/"]:
        path = normal(word)
        if path in files:
            sizes: dict[str, int | None] = {path: len(files[path].text)}
        elif _is_folder(path, files):
            prefix = path + "/" if path else ""
            sizes = {}
            for name in sorted(files):
                if name.startswith(prefix):
                    first, slash, _ = name[len(prefix) :].partition("/")
                    sizes[first + slash] = None if slash else len(files[name].text)
        else:
            raise _Refusal(1, f"ls: {_short(word)}: no such file or directory")
        for name, size in sizes.items():
            shown.append(f"{'-' if size is None else size:>9} {name}" if "l" in flags else name)
    return Result(Observation("\n".join(shown), note="" if shown else "(no files)"))


def _cat(words: list[str], files: Mapping[str, File]) -> Result:
    _no_options("cat", words)
    opened = _open("cat", words, files)
    return _result("".join(file.text for _, file in opened), opened)


def _portions(
    command: str, words: list[str], files: Mapping[str, File], cut: Callable[[int, str, int], slice]
) -> Result:
    """head and tail: of each file the slice that ``cut`` (of length, sign and amount) says."""
    unit, amount = "n", "10"
    operands: list[str] = []
    left = iter(words)
    for word in left:
        if word in ("-n", "-c"):
            unit, amount = word[1], next(left, "")
        elif match := _PORTION.fullmatch(word):
            unit, amount = match[1] or "n", match[2]
        elif word.startswith("-"):
            raise _Refusal(2, USAGE[command])
        else:
            operands.append(word)
    if not _AMOUNT.fullmatch(amount):
        raise _Refusal(2, USAGE[command])
    sign = amount[0] if amount[0] in "+-" else ""
    opened = _open(command, operands, files)
    shown = []
    for path, file in opened:
        size = len(file.text) if unit == "c" else file.line_count
        wanted = cut(size, sign, int(amount.lstrip("+-")))
        part = file.text[wanted] if unit == "c" else file.lines(wanted.start, wanted.stop)
        shown.append(f"==> {path} <==\n{part}" if len(opened) > 1 else part)
    return _result("\n".join(shown), opened)


def _head(words: list[str], files: Mapping[str, File]) -> Result:
    return _portions(
        "head", words, files, lambda size, sign, n: slice(0, max(0, size - n)) if sign == "-" else slice(0, n)
    )


def _tail(words: list[str], files: Mapping[str, File]) -> Result:
    return _portions(
        "tail",
        words,
        files,
        lambda size, sign, n: slice(max(0, n - 1), size) if sign == "+" else slice(max(0, size - n), size),
    )


def _sed(words: list[str], files: Mapping[str, File]) -> Result:
    if len(words) != 3 or words[0] != "-n" or not (wanted := _LINE_RANGE.fullmatch(words[1].replace(" ", ""))):
        raise _Refusal(2, USAGE["sed"])
    opened = _open("sed", words[2:], files)
    file = opened[0][1]
    first, last = (file.line_count if bound == "$" else int(bound) for bound in (wanted[1], wanted[2] or wanted[1]))
    if wanted[1] != "$" and first < 1:
        raise _Refusal(2, USAGE["sed"])
    # as sed does: a range that ends before it begins is its first line
    text = file.lines(max(0, first - 1), max(first, last))
    return _result(text, opened, empty=f"(no output: {opened[0][0]} has {file.line_count} lines)")


def _wc(words: list[str], files: Mapping[str, File]) -> Result:
    flags = {letter for word in words if word.startswith("-") for letter in word[1:]}
    if not flags <= set("lwcm"):
        raise _Refusal(2, USAGE["wc"])
    opened = _open("wc", [word for word in words if not word.startswith("-")], files)
    # asked for nothing in particular, it tells all three
    wanted = [not flags or "l" in flags, not flags or "w" in flags, not flags or bool(flags & {"c", "m"})]
    rows = [(file.line_count, file.words if wanted[1] else 0, len(file.text), path) for path, file in opened]
    if len(rows) > 1:
        rows.append((sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows), "total"))
    names = ("lines", "words", "chars")
    shown = [
        " ".join([f"{row[i]} {names[i]}" for i in range(3) if wanted[i]]) + f" {row[3]}"  # units, so nothing is guessed
        for row in rows
    ]
    return Result(Observation("\n".join(shown)))
