"""The shell-like commands on the virtual file system."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbench.types import Action, ConfigError
from harness.files import File, Mounts, normal
from harness.shell import NO_SHELL, USAGE, Result, Shell

NUMBERS = "\n".join(f"line {i}" for i in range(1, 21)) + "\n"
FILES = {
    "notes.txt": File("alpha\nBeta 12\ngamma a.c\nabc|def\n"),
    "numbers.txt": File(NUMBERS),
    "open.txt": File("first\nlast without end"),
    "empty.txt": File(""),
    "archive/B3.txt": File("stored alpha\n", restored=True),
    "archive/old/B1.txt": File("stored beta\n", restored=True),
    "odd name.txt": File("one\u2028two\x0bthree\n"),
}
SHELL = Shell(commands=["ls", "cat", "head", "tail", "sed", "grep", "wc"], regex_timeout_s=1.0)


def run(text: str, shell: Shell = SHELL) -> Result:
    name, *rest = text.split(None, 1)
    return shell.run(Action(name, rest[0] if rest else "", text), FILES, also=("next", "submit"))


def lines(first: int, last: int) -> str:
    return "\n".join(f"line {i}" for i in range(first, last + 1))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("cat notes.txt", "alpha\nBeta 12\ngamma a.c\nabc|def\n"),
        ("cat 'odd name.txt'", "one\u2028two\x0bthree\n"),
        ("cat odd\\ name.txt", "one\u2028two\x0bthree\n"),
        ("head numbers.txt", lines(1, 10)),
        ("head -n 3 numbers.txt", lines(1, 3)),
        ("head -n3 numbers.txt", lines(1, 3)),
        ("head -3 numbers.txt", lines(1, 3)),
        ("head -n -18 numbers.txt", lines(1, 2)),
        ("head -n -99 numbers.txt", ""),
        ("head -n 999999999999 numbers.txt", lines(1, 20)),
        ("head -c 8 numbers.txt", "line 1\nl"),
        ("tail numbers.txt", lines(11, 20)),
        ("tail -n 2 numbers.txt", lines(19, 20)),
        ("tail -2 numbers.txt", lines(19, 20)),
        ("tail -n +19 numbers.txt", lines(19, 20)),
        ("tail -n 0 numbers.txt", ""),
        ("tail -c 8 open.txt", "hout end"),
        ("tail -n 1 open.txt", "last without end"),
        ("sed -n 4,6p numbers.txt", lines(4, 6)),
        ("sed -n '4,6p' numbers.txt", lines(4, 6)),
        ("sed -n 4p numbers.txt", lines(4, 4)),
        ("sed -n '19,$p' numbers.txt", lines(19, 20)),
        ("sed -n 19,$p numbers.txt", lines(19, 20)),
        ("sed -n '$p' numbers.txt", lines(20, 20)),
        ("sed -n 6,4p numbers.txt", lines(6, 6)),
        ("grep alpha notes.txt", "alpha"),
        ("grep -n Beta notes.txt", "2:Beta 12"),
        ("grep -i BETA notes.txt", "Beta 12"),
        ("grep -ni beta notes.txt", "2:Beta 12"),
        ("grep beta -i -n notes.txt", "2:Beta 12"),
        ("grep -c a notes.txt", "4"),
        ("grep a.c notes.txt", "gamma a.c\nabc|def"),
        ("grep -F a.c notes.txt", "gamma a.c"),
        ("grep '^a' notes.txt", "alpha\nabc|def"),
        ("grep 'c|d' notes.txt", "abc|def"),
        (r"grep 'alpha\|gamma' notes.txt", "alpha\ngamma a.c"),
        ("grep -E 'alpha|gamma' notes.txt", "alpha\ngamma a.c"),
        (r"grep -E 'c\|d' notes.txt", "abc|def"),
        ("grep '[|]' notes.txt", "abc|def"),
        (r"grep '[[:digit:]]\{2\}' notes.txt", "Beta 12"),
        (r"grep '\<Be' notes.txt", "Beta 12"),
        ("grep -- '2$' notes.txt", "Beta 12"),
        ("grep last open.txt", "last without end"),
        ("grep a notes.txt archive/B3.txt", "notes.txt:alpha\nnotes.txt:Beta 12\nnotes.txt:gamma a.c\nnotes.txt:abc|def"
         "\narchive/B3.txt:stored alpha"),
        ("wc notes.txt", "4 lines 6 words 32 chars notes.txt"),
        ("wc -l open.txt", "2 lines open.txt"),
        ("wc -c open.txt empty.txt", "22 chars open.txt\n0 chars empty.txt\n22 chars total"),
        ("wc 'odd name.txt'", "1 lines 3 words 14 chars odd name.txt"),
        ("ls", "archive/\nempty.txt\nnotes.txt\nnumbers.txt\nodd name.txt\nopen.txt"),
        ("ls /archive", "B3.txt\nold/"),
        ("ls archive/old/", "B1.txt"),
        ("ls ./notes.txt", "notes.txt"),
        ("ls -l archive", "       13 B3.txt\n        - old/"),
    ],
)  # fmt: skip
def test_commands_do_what_their_namesakes_do(command: str, text: str) -> None:
    assert run(command).observation.text == text


def test_several_files_are_told_apart() -> None:
    assert run("head -n 1 notes.txt open.txt").observation.text == "==> notes.txt <==\nalpha\n==> open.txt <==\nfirst"
    assert run("cat notes.txt archive/B3.txt").observation.text.endswith("abc|def\nstored alpha\n")


@pytest.mark.parametrize("path", ["notes.txt", "./notes.txt", "/notes.txt", "//notes.txt", "archive/../notes.txt"])
def test_a_path_has_one_normal_form(path: str) -> None:
    result = run(f"cat {path}")
    assert result.opened == ("notes.txt",)
    assert normal(path) == "notes.txt"


@pytest.mark.parametrize(
    "command",
    [
        "cat notes.txt | head",
        "cat notes.txt > copy.txt",
        "cat notes.txt; ls",
        "ls && cat notes.txt",
        "cat $(ls)",
        "cat `ls`",
        "cat < notes.txt",
        "echo hi > notes.txt",
    ],
)
def test_there_is_no_shell(command: str) -> None:
    result = run(command)
    assert (result.observation.text, result.observation.returncode) == (NO_SHELL, 2)
    assert result.opened == ()


@pytest.mark.parametrize(
    ("command", "returncode", "says"),
    [
        ("cat missing.txt", 1, "cat: missing.txt: no such file"),
        ("cat notes.txt missing.txt", 1, "no such file"),
        ("cat archive", 1, "is a directory"),
        ("cat /", 1, "is a directory"),
        ("cat *.txt", 2, "no wildcards"),
        ("ls missing", 1, "no such file or directory"),
        ("ls -R", 2, USAGE["ls"]),
        ("cat", 2, USAGE["cat"]),
        ("cat -n notes.txt", 2, USAGE["cat"]),
        ("head -n", 2, USAGE["head"]),
        ("head -n many notes.txt", 2, USAGE["head"]),
        ("head -n 5", 2, USAGE["head"]),
        ("tail -f notes.txt", 2, USAGE["tail"]),
        ("sed s/a/b/ notes.txt", 2, USAGE["sed"]),
        ("sed -n 0,3p notes.txt", 2, USAGE["sed"]),
        ("sed -i 1d notes.txt", 2, USAGE["sed"]),
        ("grep", 2, USAGE["grep"]),
        ("grep alpha", 2, USAGE["grep"]),
        ("grep -r alpha archive", 2, USAGE["grep"]),
        ("grep '[a' notes.txt", 2, "bad pattern"),
        ("grep -E '(a' notes.txt", 2, "bad pattern"),
        ("wc -x notes.txt", 2, USAGE["wc"]),
        ("cat 'notes.txt", 2, "left open"),
        ("grep don't notes.txt", 2, "left open"),
        ("rm notes.txt", 127, "no such command. There are: ls cat head tail sed grep wc next submit"),
    ],
)
def test_a_misuse_gets_one_line_and_reads_nothing(command: str, returncode: int, says: str) -> None:
    result = run(command)
    assert result.observation.returncode == returncode
    assert says in result.observation.text
    assert "\n" not in result.observation.text
    assert result.opened == ()


def test_a_notice_repeats_no_long_word() -> None:
    assert len(run("cat " + "x" * 5000).observation.text) < 200
    assert len(run("x" * 5000).observation.text) < 300


def test_what_counts_as_reading() -> None:
    for command in ("cat", "head", "tail", "head -n 0", "sed -n 1p", "grep zzz", "grep -c a"):
        assert run(f"{command} notes.txt").opened == ("notes.txt",)
    for command in ("ls", "ls -l", "wc", "wc -c"):
        assert run(f"{command} notes.txt").opened == ()


def test_nothing_found_is_said_outside_the_text() -> None:
    nothing = run("grep zzz notes.txt").observation
    assert (nothing.text, nothing.returncode, nothing.note) == ("", 1, "grep: no line matches")
    beyond = run("sed -n 30,40p numbers.txt").observation
    assert (beyond.text, beyond.returncode, beyond.note) == ("", 0, "(no output: numbers.txt has 20 lines)")
    assert run("cat notes.txt").observation.note == ""


def test_what_a_mount_gives_back_is_marked() -> None:
    assert run("cat archive/B3.txt").observation.restored
    assert run("grep -n beta archive/old/B1.txt").observation.restored
    assert run("head -n 1 notes.txt archive/B3.txt").observation.restored
    assert not run("cat notes.txt").observation.restored
    assert not run("ls -l archive").observation.restored
    assert not run("wc archive/B3.txt").observation.restored


def test_a_mount_is_split_into_lines_once_while_its_text_stays() -> None:
    mounts = Mounts()
    first = mounts.files({"/archive/a.txt": "one\ntwo\n", "./b": "x"})
    assert set(first) == {"archive/a.txt", "b"}
    again = mounts.files({"archive/a.txt": "one\n" + "two\n", "b": "y"})
    assert again["archive/a.txt"] is first["archive/a.txt"]
    assert (again["b"].text, again["b"].restored) == ("y", True)
    assert set(mounts.files({})) == set()


def test_a_pattern_that_never_ends_is_stopped() -> None:
    files = {"long.txt": File("a" * 5000 + "!\n")}
    shell = Shell(commands=["grep"], regex_timeout_s=0.05)
    result = shell.run(Action("grep", "-E '^(a|aa|a?)+$' long.txt", ""), files)
    assert result.observation.returncode == 2
    assert "takes too long" in result.observation.text


def test_a_large_file_is_cut_by_lines_and_by_characters() -> None:
    document = File("".join(f"row {i} of a long document\n" for i in range(100_000)))
    shell = Shell(commands=["sed", "head", "wc"], regex_timeout_s=1.0)
    files = {"document.txt": document}
    assert shell.run(Action("sed", "-n 99999,100000p document.txt", ""), files).observation.text == (
        "row 99998 of a long document\nrow 99999 of a long document"
    )
    assert shell.run(Action("head", "-c 5 document.txt", ""), files).observation.text == "row 0"
    assert shell.run(Action("wc", "-l document.txt", ""), files).observation.text == "100000 lines document.txt"


def test_a_harness_offers_the_commands_it_names() -> None:
    shell = Shell(commands=["ls", "grep"], regex_timeout_s=1.0)
    assert run("cat notes.txt", shell).observation.text == "cat: no such command. There are: ls grep next submit"
    with pytest.raises(ConfigError, match=r"^harness\.shell\.commands=awk: must be one of ls, cat"):
        Shell(commands=["ls", "awk"], regex_timeout_s=1.0)
    with pytest.raises(ConfigError, match=r"^harness\.shell\.regex_timeout_s=0: must be a number above 0$"):
        Shell(commands=["ls"], regex_timeout_s=0)
    for commands in (None, [], "ls", 3):
        with pytest.raises(ConfigError) as caught:
            Shell(commands=commands, regex_timeout_s=1.0)  # type: ignore[arg-type]
        assert str(caught.value).startswith(f"harness.shell.commands={commands!r}: must be a list of ls, cat")
    with pytest.raises(ConfigError, match=r"^harness\.shell\.commands=None: must be one of ls, cat"):
        Shell(commands=["ls", None], regex_timeout_s=1.0)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=r"^harness\.shell\.regex_timeout_s=None: must be a number above 0$"):
        Shell(commands=["ls"], regex_timeout_s=None)  # type: ignore[arg-type]


# ------------------------------------------------------------------------- lines of one long text

LINES = st.text(alphabet="ab ]-^A\n\t\r;é\u2028", max_size=40)


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


@given(LINES, st.integers(-2, 9), st.integers(0, 9))
def test_lines_are_cut_out_of_a_text_as_they_stand_in_it(text: str, first: int, count: int) -> None:
    file, lines = File(text), lines_of(text)
    assert (file.line_count, [file.line(i) for i in range(file.line_count)], file.split) == (len(lines), lines, lines)
    files = {"f": file}
    ends = {
        f"head -n {count}": lines[:count],
        f"head -n -{count}": lines[: max(0, len(lines) - count)],
        f"tail -n {count}": lines[max(0, len(lines) - count) :],
        f"tail -n +{count}": lines[max(0, count - 1) :],
        f"sed -n {first + 3},{first + 3 + count}p": lines[first + 2 : first + 3 + count],
    }
    for command, wanted in ends.items():
        name, _, argument = command.partition(" ")
        assert SHELL.run(Action(name, f"{argument} f", ""), files).observation.text == "\n".join(wanted), command
