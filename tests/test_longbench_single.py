"""LongBench-v2 by single prompts: the answer rule, the prompts, the cut in the middle, what counts as no answer."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, budget, words
from fakes import qwen
from longbench import CONTEXT, made, row, written

from arcbench.engines import lexical
from arcbench.types import Budget, ConfigError, ContextOverflow, Message, Reply, Step
from harness.longbench_single import Prompt, ask, extract, filled, fitted, pinned

ROOT = Path(__file__).resolve().parents[1]
FETCH = ROOT / "scripts" / "fetch_longbench.py"


class Desk(Bench):
    """The agent's model behind the seam: each call is answered by ``said``, a text or a reply."""

    def __init__(self, limits: Budget, said: Callable[[str], str | Reply], unit: Callable[[str], int] = words) -> None:
        super().__init__(limits, None, unit)
        self.said = said
        self.prompts: list[tuple[str, int]] = []

    async def ask(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        if self.count(messages) + max_tokens > self.budget.window_tokens:
            raise ContextOverflow(self.count(messages), max_tokens, self.budget.window_tokens)
        [message] = messages
        assert message.role == "user"
        self.prompts.append((message.content, max_tokens))
        said = self.said(message.content)
        return said if isinstance(said, Reply) else Reply(said, "stop", 1, self.unit(said), None, 0.0)


def reply(text: str, finish: str = "stop", tokens: int = 5) -> Reply:
    return Reply(text, finish, 1, tokens, None, 0.0)  # type: ignore[arg-type]


def single(
    folder: Path, said: Callable[[str], str | Reply], *prompts: Prompt, thinking: bool = False, window: int = 9000
):
    harness = made(written(folder, row(0)))
    desk = Desk(budget(window, 100), said)
    return asyncio.run(ask(harness.rows.hard[0], prompts or (PROMPT,), desk, thinking=thinking)), desk


PROMPT = Prompt(text="$DOC$\n\n$Q$\n(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$", max_tokens=100, cut="")


# ------------------------------------------------------------------------------- the answer rule


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        ("The correct answer is (B)", "B"),
        ("The correct answer is (b)", None),
        ("**The correct answer is B**", "B"),
        ("The correct answer is **(C)** since ...", "C"),
        ("The *correct* answer is (D).", "D"),
        ("The correct answer is (A). No: The correct answer is (C)", "A"),
        ("The correct answer is A. In short: The correct answer is (C)", "C"),  # with parentheses goes first
        ("The correct answer is B, not The correct answer is D", "B"),
        ("the correct answer is (B)", None),
        ("The correct answer is: (B)", None),
        ("The correct answer is (insert answer here)", None),
        ("The correct answer is (E)", None),
        ("The correct answer is (B", None),
        ("The correct answer is\n(B)", None),
        ("The correct answer is Delivery", "D"),  # the benchmark's rule looks no further than the letter
        ("(B)", None),
        ("B", None),
        ("submit ANSWER=B", None),
        ("", None),
        ("* * *", None),
    ],
)
def test_the_answer_is_read_by_the_benchmarks_rule(said, letter):
    assert extract(said) == letter


# ------------------------------------------------------------------------------------- asking


@pytest.mark.parametrize(
    ("said", "thinking", "ending", "submission"),
    [
        (reply("The correct answer is (B)"), False, "submitted", "B"),
        (reply("<think>The correct answer is (A)</think>\nThe correct answer is (B)"), True, "submitted", "B"),
        (reply("The correct answer is (A)</think>\nThe correct answer is (C)"), True, "submitted", "C"),
        (reply("<think>The correct answer is (B)"), False, "malformed", None),
        (reply("<think>The correct answer is (B)</think>"), False, "malformed", None),
        (reply("</think>"), False, "malformed", None),
        (reply("<think>The correct answer is (B)", "length", 100), True, "output_cut", None),
        (
            reply("The correct answer is (B), I think", "length", 100),
            True,
            "output_cut",
            None,
        ),  # opened by the template
        (reply("<think>hm</think>The correct answer is (B) beca", "length", 100), True, "submitted", "B"),
        (reply("The correct answer is (B) beca", "length", 100), False, "submitted", "B"),
        (reply("The correct answer is (B) beca", "stop", 100), False, "submitted", "B"),
        (reply("The text speaks of", "length", 100), False, "output_cut", None),
        (reply("The text speaks of", "stop", 100), False, "output_cut", None),
        (reply("I do not know."), False, "malformed", None),
        (reply(""), False, "malformed", None),
        (reply("The correct answer is (D) <think>or (A)?"), False, "submitted", "D"),
    ],
)
def test_what_counts_as_an_answer(tmp_path, said, thinking, ending, submission):
    step, _ = single(tmp_path, lambda prompt: said, thinking=thinking)
    assert (step.ending, step.submission) == (ending, submission)


def test_a_prompt_that_cannot_fit_is_an_overflow(tmp_path):
    step, desk = single(tmp_path, lambda prompt: "?", Prompt(text="$Q$", max_tokens=100, cut=""), window=103)
    assert (step.ending, step.submission, desk.prompts) == ("context_overflow", None, [])


def test_the_second_call_gets_the_first_reply_without_its_thinking_and_has_its_own_cap(tmp_path):
    first = Prompt(text="$DOC$ $Q$ think", max_tokens=1024, cut="")
    second = Prompt(text="$Q$ you said: $COT$", max_tokens=128, cut="")
    said = iter(["<think>(A)</think>  It names a ferry, $Q$ (C). ", "The correct answer is (C)"])
    step, desk = single(tmp_path, lambda prompt: next(said), first, second)
    assert (step.ending, step.submission) == ("submitted", "C")
    assert desk.prompts[1] == ("Which boat is number 0? you said: It names a ferry, $Q$ (C).", 128)
    assert (desk.prompts[0][1], len(desk.prompts)) == (1024, 2)


def test_without_a_first_reply_there_is_no_second_call(tmp_path):
    prompts = (Prompt(text="$Q$", max_tokens=50, cut=""), Prompt(text="$COT$", max_tokens=50, cut=""))
    step, desk = single(tmp_path, lambda prompt: reply("<think>endless", "length", 50), *prompts, thinking=True)
    assert (step.ending, len(desk.prompts)) == ("output_cut", 1)


def test_places_are_filled_once_and_outer_white_space_goes(tmp_path):
    odd = row(0, context="\n the price is $Q$ and $C_A$ \n", question=" Why $DOC$? ", choice_D=" d\n")
    [read] = made(written(tmp_path, odd)).rows.hard
    assert filled(PROMPT.text, read, "") == (
        "the price is $Q$ and $C_A$\n\nWhy $DOC$?\n(A) the red tug\n(B) the blue ferry\n(C) the white yacht\n(D) d"
    )


# ------------------------------------------------------------------------------- the cut in the middle


@pytest.mark.parametrize("room", [60, 61, 100, 333])
@pytest.mark.parametrize("cut", ["", "\n[... left out ...]\n"])
def test_a_long_prompt_keeps_its_two_ends(room, cut):
    desk = Desk(budget(1000, 100), lambda prompt: "")
    text = " ".join(f"w{i}" for i in range(5000))
    shown = fitted(text, desk, room, cut)
    size = desk.count([Message("user", shown)])
    assert room - 4 <= size <= room
    head, tail = shown.split(cut) if cut else (shown, shown)
    assert text.startswith(head[:20])
    assert text.endswith(tail[-20:])
    if cut:
        assert text.startswith(head)
        assert text.endswith(tail)
        assert abs(words(head) - words(tail)) <= 2


@pytest.mark.parametrize(
    "text",
    [
        "plain words, " * 9000,
        "📥字" * 9000,
        "\n" * 200_000,
        "x" * 50_000 + "字" * 50_000,
        "a b\n" * 20_000 + " " * 90_000,
    ],
)
def test_a_cut_prompt_fits_by_the_real_tokenizer(text):
    chat = qwen()
    room = 2000

    class Counted(Desk):
        def count(self, messages: Sequence[Message]) -> int:
            return chat.count(messages, thinking=False)

        def count_text(self, text: str) -> int:
            return chat.count_text(text)

        def pieces(self, text: str, max_tokens: int) -> list[str]:
            return chat.pieces(text, max_tokens)

    desk = Counted(budget(4000, 100), lambda prompt: "")
    asked = f"BEGIN {text} END"
    shown = fitted(asked, desk, room, " ... ")
    assert 0.9 * room < desk.count([Message("user", shown)]) <= room
    head, _, tail = shown.partition(" ... ")
    assert asked.startswith(head)
    assert asked.endswith(tail)
    assert head.startswith("BEGIN")
    assert tail.endswith("END")
    assert fitted("short", desk, room, " ... ") == "short"


# ------------------------------------------------------------------------- the shipped deliveries


def solo(harness: Any, said: Callable[[str], str | Reply], window: int = 16_384) -> tuple[Step, Desk]:
    desk = Desk(budget(window, min(4096, window // 4)), said)
    step = asyncio.run(harness.ask(harness.tasks()[0], desk))
    assert step is not None
    return step, desk


@pytest.mark.parametrize(("delivery", "sees"), [("no_context", False), ("one_shot_middle", True)])
def test_the_reference_rows_ask_once(tmp_path, delivery, sees):
    harness = made(written(tmp_path, row(2)), f"harness.delivery={delivery}", "method=full_context")
    step, desk = solo(harness, lambda prompt: "The correct answer is (C)")
    [(prompt, tokens)] = desk.prompts
    assert tokens == 4096
    assert ("line 5 of a document" in prompt) == sees
    assert "Question:\nWhich boat is number 2?\n\nChoices:\n(A) the red tug\n(B) the blue ferry\n" in prompt
    assert (step.ending, step.submission) == ("submitted", "C")
    record = {"ending": step.ending, "submission": step.submission, "facts": harness.tasks()[0].facts}
    assert harness.score(record).correct
    assert (harness.turn_limit, harness.call_limit, harness.tasks()[0].prompt) == (1, 1, "")


def test_a_single_prompt_is_played_under_one_method_only(tmp_path):
    with pytest.raises(
        ConfigError, match=r"^method=arc: must be full_context with harness\.delivery=no_context, which"
    ):
        made(written(tmp_path, row(0)), "harness.delivery=no_context", "method=arc")


def test_one_shot_loses_its_middle_and_keeps_the_question(tmp_path):
    harness = made(written(tmp_path, row(0)), "harness.delivery=one_shot_middle", "method=full_context")
    _, desk = solo(harness, lambda prompt: "?", window=5000)
    [(prompt, _)] = desk.prompts
    assert desk.count([Message("user", prompt)]) <= 904
    assert "line 0 of a document" in prompt
    assert "line 599 of a document" in prompt
    assert "line 300 of a document" not in prompt
    assert "the middle is left out" in prompt
    assert "(D) the old barge" in prompt


def test_an_agents_delivery_asks_nothing_by_itself(tmp_path):
    harness = made(written(tmp_path, row(0)))
    assert asyncio.run(harness.ask(harness.tasks()[0], Desk(budget(900, 100), lambda prompt: "?"))) is None


def test_the_scripted_reader_answers_single_prompts_from_what_they_show(tmp_path):
    context = CONTEXT + "The boat with number 3 is an old barge.\n"
    path = written(tmp_path, row(3, context=context))

    def said(prompt: str) -> str:
        messages = [Message("user", prompt)]
        assert lexical.reads(messages)
        return lexical.reply(messages)

    assert solo(made(path, "harness.delivery=one_shot_middle", "method=full_context"), said)[0].submission == "D"
    assert (
        solo(made(path, "harness.delivery=no_context", "method=full_context"), said)[0].submission == "A"
    )  # nothing seen: the first


# --------------------------------------------------------------------------- the benchmark's files


def prompt_files(folder: Path) -> dict[str, str]:
    """Files that stand in for the benchmark's, with their hashes."""
    texts = {
        "0shot.txt": "Read:\n$DOC$\n\nWhat is the correct answer to this question: $Q$\nChoices:\n"
        "(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$\n\nSay: The correct answer is (X)",
        "0shot_cot.txt": "Read:\n$DOC$\n\n$Q$ Think.",
        "0shot_cot_ans.txt": "$Q$ You thought: $COT$",
    }
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def official(folder: Path, delivery: str) -> Any:
    hashes = prompt_files(folder / "prompts")
    files = ",".join(f"{name}:{sha256}" for name, sha256 in hashes.items())
    words = [f"harness.official.folder={folder}/prompts", f"harness.official.files={{{files}}}"]
    return made(written(folder, row(0)), f"harness.delivery={delivery}", "method=full_context", *words)


def test_the_official_preset_asks_once_with_the_files_text_and_128_tokens(tmp_path):
    step, desk = solo(official(tmp_path, "official"), lambda prompt: "**The correct answer is A**")
    [(prompt, tokens)] = desk.prompts
    assert tokens == 128
    assert prompt.startswith("Read:\nline 0 of a document")
    assert "question: Which boat is number 0?\nChoices:\n(A) the red tug\n" in prompt
    assert (step.ending, step.submission) == ("submitted", "A")


def test_the_official_chain_of_thought_asks_twice(tmp_path):
    said = iter(["It is blue.", "The correct answer is (B)"])
    step, desk = solo(official(tmp_path, "official_cot"), lambda prompt: next(said))
    assert [tokens for _, tokens in desk.prompts] == [1024, 128]
    assert desk.prompts[1][0] == "Which boat is number 0? You thought: It is blue."
    assert step.submission == "B"


def test_the_official_cut_joins_the_ends_without_a_word(tmp_path):
    _, desk = solo(official(tmp_path, "official"), lambda prompt: "?", window=1000)
    assert "left out" not in desk.prompts[0][0]
    assert desk.count([Message("user", desk.prompts[0][0])]) <= 1000 - 128


def test_a_prompt_file_that_is_missing_or_changed_is_one_line_that_says_how_to_get_it(tmp_path):
    with pytest.raises(ConfigError) as caught:
        made(
            written(tmp_path, row(0)),
            "harness.delivery=official",
            "method=full_context",
            f"harness.official.folder={tmp_path}/none",
        )
    assert str(caught.value) == (
        f"harness.official.folder={tmp_path}/none: no 0shot.txt (No such file or directory); "
        f"fetch it with: python scripts/fetch_longbench.py prompts --out {tmp_path}/none"
    )
    hashes = prompt_files(tmp_path / "prompts")
    (tmp_path / "prompts" / "0shot.txt").write_text("changed", "utf-8")
    with pytest.raises(ConfigError, match=r"0shot\.txt has SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}; fetch it with"):
        pinned(str(tmp_path / "prompts"), hashes)


def fetch(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(FETCH), *words], capture_output=True, text=True, check=False, env=environment
    )


def test_the_fetch_script_keeps_only_what_has_the_right_hash(tmp_path):
    prompt_files(tmp_path / "prompts")  # sound files, but not the benchmark's
    done = fetch("prompts", "--from", str(tmp_path / "prompts"), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "0shot.txt: has SHA-256" in done.stderr
    assert not (tmp_path / "out").exists()
    done = fetch("prompts", "--from", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No such file" in done.stderr
