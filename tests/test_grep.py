"""What grep finds: in a file the same as in each of its lines by itself, whichever way it takes."""

from __future__ import annotations

import itertools
import shlex
import string
import sys
import time
from collections.abc import Sequence

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from arcbench.types import Action
from harness.files import File
from harness.grep import FEW_WORDS, ODD_LETTERS, BadPattern, finder, needed, tokens_of
from harness.shell import Shell

ATOMS = [
    *("a", "b", "A", "ab", "ba", "é", ";", "-", "]", " ", ".", "^", "$", "\\.", "\\-", "\\_", "\\\\"),
    *("[^a]", "[^]a]", "[^-a]", "[^a-]", "[^]-a]", "[^;]*", "[^a]+", "[^\\]]", "[^\\-]", "[^+--]", "[^\\s]"),
    *("[ab]", "[b-]", "[]a]", "[\\s]", "[\\W]", "[\\n]", "[\\t-\\r]", "[\\]a]", "[[:space:]]", "[^[:space:]]", "[a[b]"),
    *("(", ")", "|", "(a|b)", "a|b", "A|;", "(ab|ba)", "(ab|b)+", "(ba)?", "(a|)", "(ab){2}", "(ab){0,1}", "(a|b)\\1"),
    *("*", "+", "?", "{2}", "{1,2}", "{,2}", "{0}", "{", "*?", "??", "b*+", "a{e<=1}"),
    *("\\s", "\\S", "\\w", "\\W", "\\d", "\\D", "\\b", "\\B", "\\n", "\\t", "\\x61", "\n", "\\\n"),
    *("(?!b)", "(?=$)", "(?i)", "(?:a)", "\\A", "\\Z", "\\R", "\\K", "\\p{L}", "(*F)", "s", "k", "i", "\u03c3"),
]
LETTERS = "ab -;]\t\u2028sikSK\u017f\u0130\u0131\u212a\u03c2"
DENSE = "\n".join(map("".join, (pair for size in range(3) for pair in itertools.product(LETTERS, repeat=size))))
SPARSE = DENSE + 4000 * "\n0"
"""Mostly lines without a letter, so that those that have one are few."""


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def check(source: str, texts: Sequence[str]) -> None:
    """Compare with what is found in each line by itself, in either case."""
    for flags, ignore_case in (({"E"}, 0), ({"E", "i"}, regex.IGNORECASE)):
        if not regex.search(r"[\\.\[*^$+?{}()]", source) and (ignore_case or not all(source.split("|"))):
            continue  # a choice of texts, which are compared in lower case where case does not matter
        try:
            compiled = regex.compile(source, ignore_case)
        except regex.error:
            with pytest.raises(BadPattern):
                finder(source, flags, timeout_s=9.0)
            continue
        for text in texts:
            wanted = [i for i, line in enumerate(lines_of(text)) if compiled.search(line)]
            assert finder(source, flags, timeout_s=9.0)(File(text)) == wanted, (source, flags)


@pytest.mark.parametrize("atom", ATOMS)
def test_each_notation_finds_the_same_in_a_file_as_in_its_lines(atom: str) -> None:
    for source in (atom, f"a{atom}", f"{atom}b", f"a{atom}b", f"{atom}[ab]"):
        check(source, [DENSE, SPARSE])


@given(
    st.text(alphabet=LETTERS + "A\n\n\r_\\^", max_size=40),
    st.lists(st.sampled_from(ATOMS), min_size=2, max_size=5).map("".join),
)
def test_what_is_found_in_a_file_is_what_is_found_in_its_lines(text: str, source: str) -> None:
    check(source, [text, text + 40 * "\n0"])


@pytest.mark.parametrize("pattern", ["foo", "FOO", "f[o]o", "foo|bar", "o"])
@pytest.mark.parametrize("every", [1, 50])
def test_rare_and_frequent_hits_are_the_same_hits(pattern: str, every: int) -> None:
    lines = [f"{i} {'foo and a bar' if i % every == 0 else 'nothing'}" for i in range(400)]
    shell = Shell(commands=["grep"], regex_timeout_s=1.0)
    for ignore in ("", "-i "):
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore else 0)
        wanted = [f"{i}:{line}" for i, line in enumerate(lines, 1) if compiled.search(line)]
        action = Action("grep", f"-n -E {ignore}{shlex.quote(pattern)} f", "")
        assert shell.run(action, {"f": File("\n".join(lines))}).observation.text == "\n".join(wanted)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("law of .* power", ["law of "]),
        ("(cat|dog).*(house|tree)", ["house", "tree"]),
        ("\\b(revenue|income)\\b", ["revenue", "income"]),
        ("[Cc]hapter [0-9]+\\.", ["hapter "]),
        ("colou?r", ["colo"]),
        ("ab+c", ["ab"]),
        ("ab*c", ["a"]),
        ("(ab){2,}", ["ab"]),
        ("x(abc){0,2}", ["x"]),
        ("x(abc)?", ["x"]),
        ("Theorem 1\\.2|Lemma [0-9]", ["Theorem 1.2", "Lemma "]),
        ("Theorem|[0-9]", []),
        ("(Theorem|)", []),
        ("x((ab|cd)e|fgh)", ["ab", "cd", "fgh"]),
        ("[0-9]{4}", []),
        ("|".join(f"{chr(97 + i)}." for i in range(FEW_WORDS + 1)), []),
    ],
)
def test_words_that_every_match_has(source: str, words: list[str]) -> None:
    assert needed(tokens_of(source)) == words


def test_no_other_letter_is_an_ascii_letter_when_case_does_not_matter() -> None:
    cased = [letter for letter in map(chr, range(sys.maxunicode + 1)) if {letter.lower(), letter.upper()} != {letter}]
    alike = regex.findall("[a-z]", "".join(cased), regex.IGNORECASE)
    assert set("azAZ") < set(alike)
    assert {letter for letter in alike if letter.lower() not in string.ascii_lowercase} == set(ODD_LETTERS)


@pytest.mark.parametrize("source", ["(a|aa|a?)+$", "(?=a)(a|aa|a?)+$"])
def test_a_pattern_that_never_ends_is_stopped_whatever_else_the_machine_does(source: str) -> None:
    found = finder(f"^{source}", {"E"}, timeout_s=0.05)
    start = time.process_time()
    with pytest.raises(TimeoutError):
        found(File("a" * 5000 + "!\n"))
    assert time.process_time() - start < 1.0


def test_time_that_passes_elsewhere_is_not_counted() -> None:
    found = finder("[a]", {"E"}, timeout_s=0.05)
    time.sleep(0.1)
    assert found(File("a\nb\n")) == [0]
