"""Which lines of a file a pattern of grep matches: what the package ``regex`` finds in each line, found without looking
at each line.

A pattern without special characters is a text, and looked up as one. Any other is looked for in the file as a whole, in
a form that cannot match a line end; and if no match is without one of a few words, only in the lines that have them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import regex  # type: ignore[import-untyped]  # `re` has no time limit, and the patterns are the model's

from harness.files import File

Finder = Callable[[File], list[int]]
Token = tuple[str, str]
"""A character, an escape or a class; and the quantifier behind it, or nothing."""

FEW_WORDS = 8
"""To look for more words takes longer than to look at the whole file."""
FEW_LINES = 1 / 8
"""Of a file: to look at more of its lines takes longer than to look at the whole file."""

ODD_LETTERS = "\u017f\u0130"
"""What an ASCII letter matches when case does not matter, though in lower case it is no ASCII letter."""

_BASIC_SPECIAL = re.compile(r"[\\.\[*^$]")
_EXTENDED_SPECIAL = re.compile(r"[\\.\[*^$+?{}|()]")
_BASIC_TOKEN = re.compile(r"\\(.)|\[\^?\]?(?:\[:\w+:\]|[^\]])*\]|[+?|(){}]")
_TOKEN = re.compile(
    r"(\[\^?\]?(?:\[:[a-z]+:\]|\\.|[^][\\])*\]|\\.|.)"
    r"((?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})\??)?",
    re.DOTALL,
)
_WITHIN_A_LINE = {r"\s": r"[^\S\n]", r"\W": r"[^\w\n]", r"\D": r"[^\d\n]"}
_MAY_HAVE_A_LINE_END = re.compile(r"\[:|\\[^\W_wd]|[\0-\n]")


class BadPattern(ValueError):
    """A pattern that is no regular expression."""


def finder(pattern: str, flags: Set[str], *, timeout_s: float) -> Finder:
    """What gives the matching lines of a file by their numbers (from 0), in order. Of grep's flags E, F and i count.

    Raises :class:`BadPattern`. What is returned raises ``TimeoutError`` after ``timeout_s`` seconds of processor time:
    whatever else the machine does, it finds the same.
    """
    ignore_case = "i" in flags
    special = _EXTENDED_SPECIAL if "E" in flags else _BASIC_SPECIAL
    if "F" in flags or not special.search(pattern):
        return lambda file: holding(file, [pattern], ignore_case)
    source = pattern if "E" in flags else _extended(pattern)
    words = source.split("|")
    if all(words) and not any(map(_EXTENDED_SPECIAL.search, words)):
        return lambda file: holding(file, words, ignore_case)
    compiled = _compiled(source, ignore_case)
    tokens = tokens_of(source)
    if any(map(_unclear, tokens)):
        return lambda file: _one_by_one(file, compiled, timeout_s)
    clear = "".join(_within_a_line(atom) + quantifier for atom, quantifier in tokens)
    # a match takes the rest of its line along, which is of no more interest
    taking_all = _compiled(f"(?:{clear})[^\\n]*+", ignore_case)
    words = needed(tokens)
    if ignore_case and words:
        words = [*words, *ODD_LETTERS] if all(map(str.isascii, words)) else []

    def found(file: File) -> list[int]:
        if words:
            numbers = holding(file, words, ignore_case)
            if len(numbers) <= file.line_count * FEW_LINES:
                some = File("\n".join(file.some(numbers)))
                return [numbers[i] for i in _at_once(some, taking_all, timeout_s)]
        return _at_once(file, taking_all, timeout_s)

    return found


def holding(file: File, words: Sequence[str], ignore_case: bool) -> list[int]:
    """The numbers of the lines that have one of these words."""
    within = file.lowered if ignore_case else file
    each = [within.holding(word.lower() if ignore_case else word) for word in words if "\n" not in word]
    return each[0] if len(each) == 1 else sorted(set[int]().union(*each))


def tokens_of(source: str) -> list[Token]:
    """The parts of an expression in the extended notation, in order."""
    return _TOKEN.findall(source)


def needed(tokens: Sequence[Token]) -> list[str]:
    """Words one of which is in each match; none where that is not to be seen, or they are too many to be of use."""
    words = _alternatives(iter([*tokens, (")", "")]))
    return words if len(words) <= FEW_WORDS else []


def _alternatives(tokens: Iterator[Token]) -> list[str]:
    """The needed words of a group, up to its end."""
    found: list[list[str]] = []  # for each alternative
    choices: list[list[str]] = []  # words one of which is in each match of this alternative
    word = ""
    for atom, quantifier in tokens:
        optional = quantifier.startswith(("*", "?", "{0", "{,"))
        literal = _literal(atom)
        if literal and not quantifier:
            word += literal
            continue
        if literal and not optional:
            word += literal
        choices.append([word] if word else [])
        word = ""
        if atom == "(":
            choices.append(_alternatives(tokens))
        elif atom in ("|", ")"):
            found.append(max(choices, key=_least))
            choices = []
            if atom == ")":
                return [] if optional or not all(found) else [word for words in found for word in words]
    return []


def _literal(atom: str) -> str:
    """The character that it stands for, if it is one."""
    if atom[0] == "\\":
        return "" if atom[1].isalnum() else atom[1]
    return "" if len(atom) > 1 or atom in ".^$|()" else atom


def _least(words: Sequence[str]) -> int:
    """The length of the shortest: the longer it is, the fewer lines will have it."""
    return min(map(len, words), default=0)


def _unclear(token: Token) -> bool:
    """Whether it may mean something that is not the same for a line by itself and for a line of a text: look-around and
    other groups, places and characters by escapes, what has no end, quantifiers that give nothing back."""
    atom, quantifier = token
    if atom[0] == "\\":
        return (atom[1].isalnum() and atom[1] not in "bdDsSwW") or atom[1] == "\n"
    return atom in "[{*+?\n" or (atom in "(|" and quantifier != "")


def _within_a_line(atom: str) -> str:
    """What matches the same, but no line end."""
    if atom[0] != "[":
        return _WITHIN_A_LINE.get(atom, atom)
    if atom[1] == "^" and atom[-2] != "-":
        return atom[:-1] + "\\n]"
    return f"(?:(?!\\n){atom})" if atom[1] == "^" or _MAY_HAVE_A_LINE_END.search(atom) else atom


def _at_once(file: File, compiled: Any, timeout_s: float) -> list[int]:
    """The lines in which an expression, one that takes the rest of the line along, matches the text."""
    numbers: list[int] = []
    after = 0
    for match in compiled.finditer(file.text, timeout=timeout_s):
        if match.start() >= after:
            line = file.line_at(match.start())
            if line == file.line_count:
                break
            numbers.append(line)
            after = file.starts[line + 1]
    return numbers


def _one_by_one(file: File, compiled: Any, timeout_s: float) -> list[int]:
    """The lines that an expression matches by themselves."""
    end = time.process_time() + timeout_s
    return [
        i for i, line in enumerate(file.split) if compiled.search(line, timeout=max(0.0, end - time.process_time()))
    ]


def _compiled(source: str, ignore_case: bool) -> Any:
    try:
        return regex.compile(source, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except (regex.error, OverflowError, RecursionError, MemoryError) as fault:
        raise BadPattern(str(fault)) from None


def _extended(pattern: str) -> str:
    """A basic regular expression in the extended notation: ``\\|`` and ``|`` change places, and so on."""

    def swap(match: re.Match[str]) -> str:
        if match[1]:
            return "\\b" if match[1] in "<>" else match[1] if match[1] in "+?|(){}" else match[0]
        return match[0] if match[0][0] == "[" else "\\" + match[0]

    return _BASIC_TOKEN.sub(swap, pattern)
