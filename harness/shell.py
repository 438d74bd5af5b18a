"""A read-only file system and the shell-like commands on it, shared by the harnesses. There is no real shell.

A command does all that it was asked or, with a one-line notice and a non-zero return code, nothing. Sizes are in
characters, never bytes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from arcbench.types import Action, ConfigError, Observation
from harness.files import File, normal
from harness.grep import BadPattern, finder

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_SHELL_SYNTAX = re.compile(r"[|<>;&`]|\$\(")
_WILDCARDS = re.compile(r"[*?\[]")
_AMOUNT = re.compile(r"[+-]?[0-9]{1,12}")
_PORTION = re.compile(r"-([nc]?)([+-]?[0-9]{1,12})")
_LINE_RANGE = re.compile(r"([0-9]{1,12}|\$)(?:,([0-9]{1,12}|\$))?p")

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
        """``commands`` are those on offer; ``regex_timeout_s`` is the most processor time of one grep on
        one file.
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
        try:
            matching = finder(operands[0], flags, timeout_s=self._timeout_s)
            hits = [matching(file) for _, file in opened]
        except BadPattern as fault:
            raise _Refusal(2, f"grep: bad pattern: {_short(str(fault))} (grep -F takes it as it stands)") from None
        except TimeoutError:
            raise _Refusal(2, "grep: this pattern takes too long: use a simpler one, or grep -F") from None
        shown: list[str] = []
        found = False
        for (path, file), numbers in zip(opened, hits, strict=True):
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
