"""From a reply to one action, or to the kind of fault."""

from __future__ import annotations

import time

import pytest
from fakes import conf, run
from hypothesis import given
from hypothesis import strategies as st

from arcbench.parsing import Malformed, parse, without_thinking
from arcbench.types import Action

LS = "```\nls\n```"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (LS, Action("ls", "", "ls")),
        ("Let me see.\n\n```sh\n  grep -n  'a b' x \n\n```\n", Action("grep", "-n  'a b' x", "grep -n  'a b' x")),
        ("```\r\nls\r\n```\r\n", Action("ls", "", "ls")),
        ("Observation: x\n" + LS, Action("ls", "", "ls")),
        ("```\nnext `x`\n```", Action("next", "`x`", "next `x`")),
        ("```\n_recall §ab12cd34\n```", Action("_recall", "§ab12cd34", "_recall §ab12cd34")),
        ("```bash title=x\nls\n```", Action("ls", "", "ls")),
        ("```c#\nls\n```", Action("ls", "", "ls")),
        ("``` {.sh #a}\nls\n```", Action("ls", "", "ls")),
        ("````\nls\n````", Action("ls", "", "ls")),
        ("```sh\nls\n`````", Action("ls", "", "ls")),
        ("\ufeff```\nls\n```", Action("ls", "", "ls")),
        ("So:\n\u200b \u2060```\n\u200bls\n```\u200b\n\ufeff", Action("ls", "", "ls")),
        ("```\ngrep '</think>' a\n```", Action("grep", "'</think>' a", "grep '</think>' a")),
    ],
    ids=[
        "bare", "prose-and-spaces", "carriage-returns", "prose-before", "backticks-inside", "recall", "info-words",
        "info-symbols", "info-braces", "four-backticks", "longer-close", "byte-order-mark", "zero-width", "tag-inside",
    ],
)  # fmt: skip
def test_one_fenced_command_is_an_action(reply: str, action: Action) -> None:
    assert parse(reply) == action


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("ls", "no_block"),
        ("```ls```", "no_block"),
        ("```\nls", "unclosed"),
        ("ls\n```", "unclosed"),
        ("```\nls\n``` and more", "unclosed"),
        ("```\n```", "empty_block"),
        ("```\n \n```", "empty_block"),
        ("```\nls\ncat a\n```", "many_lines"),
        (f"{LS}\n{LS}", "many_blocks"),
        (f"{LS}\ntext between\n{LS}", "many_blocks"),
        (f"{LS}\n```", "many_blocks"),
        (f"{LS}\nObservation: a.txt", "trailing_text"),
        (f"{LS}\nObservation: a.txt\n{LS}", "many_blocks"),
        (f"{LS}\n<tool_call>", "trailing_text"),
        ("\ufeff\u200b\n", "empty"),
        ("````\nls\n```", "unclosed"),
        ("```\nls\n```sh", "unclosed"),
        ("```a`b\nls\n```", "unclosed"),
        ("````\n```\nls\n```\n````", "many_blocks"),
        ("````\n```\n````", "many_blocks"),
        ("```\n```sh\n```", "many_blocks"),
        ("```\nls\n```sh\ncat a\n```", "many_blocks"),
        (f"```ls```\n{LS}", "many_blocks"),
        ("````\nls\n```\n````", "many_blocks"),
        (f"{LS}\n<think>", "trailing_text"),
    ],
    ids=[
        "empty", "blank", "no-block", "one-line-fence", "open", "close-only", "text-on-the-fence", "nothing-inside",
        "blank-inside", "two-commands", "G3-two-blocks", "G3-two-blocks-apart", "third-fence", "I3-own-observation",
        "I3-own-observation-and-second-action", "tag-after", "only-zero-width", "shorter-close", "info-on-the-close",
        "backtick-in-the-info", "block-in-a-block", "fence-as-command", "opening-fence-as-command", "block-left-open",
        "one-line-fence-and-block", "shorter-fence-inside", "thinking-after",
    ],
)  # fmt: skip
def test_what_is_not_one_action_is_a_fault(reply: str, fault: str) -> None:
    """Field cases G3 and I3."""
    assert parse(reply) == Malformed(fault)  # type: ignore[arg-type]


GREP = "```\ngrep '</think>' a\n```"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>the answer is (B)", ""),
        ("</think>", ""),
        ("<think>\nhm\n</think>\n\nSo:\n" + LS, "So:\n" + LS),
        ("the answer is (B)</think>" + LS, LS),
        (f"<think>{LS}</think>", ""),
        (f"{LS}\n</think>", ""),
        (f"{LS}\n<think>{LS}", f"{LS}\n<think>"),
        (f"{LS}\n<think>\n{LS}", f"{LS}\n<think>"),
        (f"So: <think>\n{LS}", "So: <think>"),
        (f"<think>a</think>{LS}<think>b</think>", ""),
        (f"<think>a</think>\n{LS}\n<think>b", f"{LS}\n<think>"),
        ("nothing thought", "nothing thought"),
        (f" \n\ufeff<think>a</think>\n{LS}", LS),
        (GREP, GREP),
        (f"<think>a</think>{GREP}", GREP),
        (f"a\n</think>\n{GREP}", GREP),
        (f"{GREP}\nDone.", f"{GREP}\nDone."),
        (f"{GREP}\n{LS}", f"{GREP}\n{LS}"),
        ("```\nls </think>\n```", "```\nls </think>\n```"),
        ("```\ngrep '<think>' a\n```", "```\ngrep '<think>' a\n```"),
        (f"<think>\n{GREP}", ""),
        (f"<think>\n```\nls\n```\nThat is it. </think>\n{LS}", LS),
        (f"<think>\n```\na\nb\n```\nThat is it. </think>\n{LS}", LS),
        (f"<think>\n```\ncat a\n</think>\n{LS}", LS),
        (f"<think>\n```\n</think>\n{LS}", LS),
        (f"<think>\n```\ncat a\n```</think>\n{LS}", LS),
        (f"<think>\n{GREP}\n</think>\n{LS}", LS),
    ],
    ids=[
        "G2-never-closed", "G2-alone", "closed", "only-the-end", "inside", "ends-a-block", "later", "later-line",
        "after-prose", "twice", "closed-then-open", "none", "after-space", "in-a-command", "in-a-command-after",
        "in-a-command-after-only-the-end", "in-a-command-and-text", "in-a-command-and-a-block", "ends-a-command",
        "opening-in-a-command", "in-a-command-inside", "draft-inside", "long-draft-inside", "open-draft-inside",
        "open-fence-inside", "draft-closed-with-the-tag", "draft-with-the-tag",
    ],
)  # fmt: skip
def test_g2_nothing_is_read_from_thinking(text: str, said: str) -> None:
    """Field case G2."""
    assert without_thinking(text) == said
    assert without_thinking(said) == said


@given(st.text(alphabet="`\n lsx<>", max_size=30), st.sampled_from(["", "think>", "<think>", LS, f"\n{LS}\n"]))
def test_a_thinking_part_that_is_not_closed_says_nothing(thought: str, end: str) -> None:
    assert without_thinking(f"<think>{thought}{end}") == ""


@given(st.lists(st.sampled_from(["`", "```", "\n", "ls", " ", "<think>", "</think>", "```\n"]), max_size=12))
def test_what_runs_stands_in_the_reply_as_one_block_that_ends_it(parts: list[str]) -> None:
    text = "".join(parts)
    found = parse(without_thinking(text))
    if not isinstance(found, Malformed):
        assert text.rstrip().endswith("```")
        before, _, _ = text.rpartition(found.text)
        opened = before.rstrip().rpartition("\n")[2]
        assert "```" in opened
        # no thinking part is open there
        assert "<think>" not in before.rpartition("</think>")[2]


def test_a_reply_that_repeats_itself_is_read_in_no_time() -> None:
    start = time.process_time()
    for text in ("```sh\n" * 20_000, "`" * 60_000, "<think>" * 10_000, "```\nls\n" * 10_000, " " * 60_000 + "</think>"):
        assert isinstance(parse(without_thinking(f"{text}x</think>\n{text}x")), Malformed)
    assert time.process_time() - start < 5


@given(st.text(alphabet="`\n ls<think>/", max_size=30))
def test_any_reply_is_an_action_or_a_known_fault(text: str) -> None:
    found = parse(without_thinking(text))
    if isinstance(found, Malformed):
        assert found.fault in conf("config")["rules"]["corrections"]
    else:
        assert found.text.split() == [found.name, *found.argument.split()]
        assert "\n" not in found.text
        assert parse(run(found.text)) == found


def test_each_fault_has_one_fixed_correction() -> None:
    from typing import get_args

    from arcbench.parsing import Fault

    assert set(conf("config")["rules"]["corrections"]) == set(get_args(Fault))
