"""From a reply to one action, or to the kind of fault."""

from __future__ import annotations

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
    ],
    ids=["bare", "prose-and-spaces", "carriage-returns", "prose-before", "backticks-inside", "recall"],
)
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
    ],
    ids=[
        "empty", "blank", "no-block", "one-line-fence", "open", "close-only", "text-on-the-fence", "nothing-inside",
        "blank-inside", "two-commands", "G3-two-blocks", "G3-two-blocks-apart", "third-fence", "I3-own-observation",
        "I3-own-observation-and-second-action", "tag-after",
    ],
)  # fmt: skip
def test_what_is_not_one_action_is_a_fault(reply: str, fault: str) -> None:
    """Field cases G3 and I3."""
    assert parse(reply) == Malformed(fault)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>the answer is (B)", ""),
        ("</think>", ""),
        ("<think>\nhm\n</think>\n\nSo:\n" + LS, "So:\n" + LS),
        ("the answer is (B)</think>" + LS, LS),
        (f"<think>{LS}</think>", ""),
        (f"{LS}\n<think>{LS}", LS),
        (f"<think>a</think>{LS}<think>b</think>", ""),
        ("nothing thought", "nothing thought"),
    ],
    ids=["G2-never-closed", "G2-alone", "closed", "only-the-end", "inside", "later", "twice", "none"],
)
def test_g2_nothing_is_read_from_thinking(text: str, said: str) -> None:
    """Field case G2."""
    assert without_thinking(text) == said


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
