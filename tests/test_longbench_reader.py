"""The scripted reader of multiple-choice questions: a fixed rule on what the view shows, and nothing else."""

from __future__ import annotations

import pytest
from fakes import conf

from arcbench.engines.lexical import READ_BACK, answer_command, reads, reply
from arcbench.types import Message

ASKED = (
    "Question:\nWho built the old bridge?\n\nChoices:\n(A) a miller named Orla\n(B) a mason named Brand\n"
    "(C) a smith named Tove\n(D) a monk named Ansel"
)
FILES = (
    f"Your task.\n\n{ASKED}\n\nThe document is the file document.txt: 9 characters, 1 lines. It is also cut into "
    "$N chunks of at most 6000 characters each.\nYou have 24 commands in all."
)
MANUAL = "submit ANSWER=<A-D>"


def seen(*turns: tuple[str, str], task: str = FILES.replace("$N", "4"), system: str = MANUAL) -> list[Message]:
    messages = [Message("system", system), Message("user", task)]
    for command, answer in turns:
        messages += [Message("assistant", f"```\n{command}\n```"), Message("user", answer)]
    return messages


def test_it_reads_on_and_then_answers_by_the_words_it_saw():
    assert answer_command(seen()) == "chunk 1"
    turns = [(f"chunk {i}", f"[chunk {i} of 4]\nnothing of use") for i in (1, 2, 3)]
    assert answer_command(seen(*turns)) == "chunk 4"
    turns.append(("chunk 4", "[chunk 4 of 4]\nThe old bridge was built by Tove, a smith"))
    assert answer_command(seen(*turns)) == "submit ANSWER=C"


def test_it_strides_through_a_long_document_within_its_commands():
    turns: list[tuple[str, str]] = []
    task = FILES.replace("$N", "600")
    while (command := answer_command(seen(*turns, task=task))).startswith("chunk"):
        turns.append((command, f"[{command} of 600]\nwords"))
    assert len(turns) <= 24 - READ_BACK - 1
    assert [command for command, _ in turns[:3]] == ["chunk 1", "chunk 30", "chunk 59"]
    assert command == "submit ANSWER=A"


def test_it_goes_on_from_the_furthest_chunk_that_the_view_speaks_of():
    assert answer_command(seen(("ls", "[chunk 3 of 4]\n"))) == "chunk 4"
    assert answer_command(seen(("ls", "§ab12cd34 `chunk 2` (9 characters, exit code 0)"))) == "chunk 3"


def test_it_answers_when_it_is_told_to():
    told = "[Answer now: commands left: 2. Hand it in] [chunk 1 of 4]\nBrand the mason"
    assert answer_command(seen(("chunk 1", told))) == "submit ANSWER=B"


def test_a_word_near_the_question_is_worth_more():
    read = [("chunk 4", "[chunk 4 of 4]\nOrla the miller slept\nthe old bridge was built by Ansel, a monk")]
    assert answer_command(seen(*read)) == "submit ANSWER=D"
    same = ASKED.replace("a miller named Orla", "a smith named Tove")  # two choices alike have no words of their own
    assert answer_command(seen(*read, task=FILES.replace("$N", "4").replace(ASKED, same))) == "submit ANSWER=D"


CITED = "§{id} `chunk {n}` (5990 characters, exit code 0), removed to save space.\nIt begins: {head}\nIt ends: x\n"


@pytest.mark.parametrize(
    ("method", "first"), [("arc", "_recall §"), ("arc_select", "_recall §"), ("arc_paged", "_recall_start §")]
)
def test_it_recalls_the_citations_that_say_most_and_then_answers(method, first):
    actions = conf(f"method/{method}")["actions"]
    system = MANUAL + "".join(f"\n{doc['usage']}: {doc['help']}" for doc in actions.values())
    heads = ["weather", "the old bridge by Tove", "a mason, a bridge", "nets"]
    turns = [(f"chunk {n}", CITED.format(id=f"{n}" * 8, n=n, head=head)) for n, head in enumerate(heads, 1)]
    opened = []
    while not (command := answer_command(seen(*turns, system=system))).startswith("submit"):
        opened.append(command)
        turns.append((command, "Recalled: nothing"))
    assert opened == [f"{first}22222222", f"{first}33333333"]
    assert command == "submit ANSWER=C"


def test_a_recall_in_parts_is_read_to_its_end():
    system = f"{MANUAL}\n_recall_start §ID: show\n_recall_next §ID: next"
    cited = ("chunk 4", "§0001ab12cd34 `chunk 4` (5990 characters, exit code 0)")
    start = ("_recall_start §0001ab12cd34", "§0001ab12cd34, part 1 of 3:\nthe")
    following = ("_recall_next §0001ab12cd34", "§0001ab12cd34, part 2 of 3:\nold")
    last = ("_recall_next §0001ab12cd34", "§0001ab12cd34, part 3 of 3:\nbridge")
    assert answer_command(seen(cited, system=system)) == start[0]
    assert answer_command(seen(cited, start, system=system)) == following[0]
    assert answer_command(seen(cited, start, following, system=system)) == last[0]
    assert answer_command(seen(cited, start, following, last, system=system)).startswith("submit")


def test_it_looks_into_the_files_that_handles_name():
    handle = (
        "[G1 = B2-B9, archived, L1: answers to chunk 1; chunk 4 | 8 blocks | "
        "9 characters in /archive/G1.txt, sha256 0123456789ab]"
    )
    turns = [("chunk 4", "[chunk 4 of 4]\nx"), ('archive B2-B9 "x"', handle)]
    assert answer_command(seen(*turns)) == 'grep -i -E "miller|ansel|brand|mason|named|smith|monk|orla" /archive/G1.txt'
    turns.append((answer_command(seen(*turns)), "the old bridge by Orla the miller"))
    assert answer_command(seen(*turns)) == "submit ANSWER=A"


def test_in_a_replay_it_answers_the_question_and_asks_for_it_when_it_sees_none():
    replay = "Your task: page through a document.\nFrom the question on you have 24 commands in all."
    page = ("chunk 9", "[chunk 9 of 9]\nTove, a smith, built the bridge")
    assert answer_command(seen(page, task=replay)) == "question"
    assert answer_command(seen(page, ("question", ASKED), task=replay)) == "submit ANSWER=C"
    assert (
        answer_command(seen(page, ("question", "Question:\nWh [... left out ...]"), task=replay)) == "submit ANSWER=A"
    )


def test_a_reply_is_one_fenced_command_or_a_sentence():
    assert reply(seen()) == "```\nchunk 1\n```"
    theirs = ASKED.replace("Question:\n", "What is the correct answer to this question: ").replace("?\n\n", "?\n")
    for asked in (f"{ASKED}\n\nName one letter.", f"{theirs}\n\nFormat your response.", theirs):
        messages = [Message("user", f"<text>\nTove the smith\n</text>\n\n{asked}")]
        assert reads(messages)
        assert reply(messages) == "The correct answer is (C)"


def test_it_knows_its_own_prompts():
    assert reads(seen())
    assert not reads(
        [Message("system", conf("config")["rules"]["system"]), Message("user", conf("harness/needle")["manual"])]
    )
    assert not reads([Message("user", "Summarise this.")])


def test_what_a_document_says_of_questions_does_not_confuse_it():
    quoted = ASKED.replace("Who built the old bridge?", "Who are you?")
    messages = [Message("user", f"<document>\n{quoted}\n\nTove the smith\n</document>\n\n{ASKED}\n\nName one letter.")]
    assert reply(messages) in {f"The correct answer is ({letter})" for letter in "ABCD"}
    assert answer_command(seen(("chunk 4", f"[chunk 4 of 4]\n{quoted}"))).startswith("submit ANSWER=")
