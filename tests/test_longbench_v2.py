"""LongBench-v2 with an agent: tasks, both deliveries, environment replies, scoring. Configured as shipped."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from bench import budget
from fakes import Drops, FakeEngine, Keeps, played, rules, run, setup
from longbench import CONTEXT, made, row, shared, written

from arcbench.engines import lexical
from arcbench.transcript import content_of
from arcbench.types import Action, ConfigError, Past, Request, Step
from harness.longbench_v2 import LongBench, LongBenchEnvironment, reference_scores

REPLAY = "longbench_v2_replay"


def environment(harness: LongBench, index: int = 0) -> LongBenchEnvironment:
    return harness.open(harness.tasks()[index])


def do(environment: LongBenchEnvironment, command: str, mounts: dict[str, str] | None = None) -> Step:
    name, *rest = command.split(None, 1)
    return environment.answer(Action(name, rest[0] if rest else "", command), mounts or {})


def say(environment: LongBenchEnvironment, command: str) -> str:
    return do(environment, command).observation.text


def reader(request: Request) -> str:
    return lexical.reply(request.messages)


def play(harness: LongBench, replies: Any, method: Any = Keeps, window: int = 60_000, index: int = 0) -> dict[str, Any]:
    cell = setup(FakeEngine(replies, window=window), method, budget(window, 100), harness, rules=rules())
    record = played(harness.tasks()[index], cell)
    assert record["outcome"] != "error", record["detail"]
    return record


# ------------------------------------------------------------------------------------------ tasks


def test_a_task_has_the_question_the_choices_in_order_and_the_size_of_the_document(tmp_path):
    harness = made(written(tmp_path, row(0), row(1)), "seed=7")
    first, second = harness.tasks()
    assert (first.id, first.seed, first.index) == ("longbench_v2_hard/row0", 7, 0)
    assert second.index == 1
    places = [first.prompt.index(f"({letter}) {row()[f'choice_{letter}']}\n") for letter in "ABCD"]
    assert places == sorted(places)
    assert "Which boat is number 0?" in first.prompt
    assert f"document.txt: {len(CONTEXT)} characters, 600 lines" in first.prompt
    assert "cut into 4 chunks of at most 6000 characters" in first.prompt
    assert "You have 24 commands" in first.prompt
    assert "line 5 of a document" not in first.prompt
    assert first.history == ()
    assert first.facts == {
        "row": "row0",
        "answer": "A",
        "delivery": "files",
        "domain": "Single-Document QA",
        "sub_domain": "Academic",
        "length": "short",
        "context_sha256": harness.rows.hard[0].context_sha256,
        "context_chars": len(CONTEXT),
        "chunk_chars": 6000,
    }
    assert "submit ANSWER=<A-D>" in harness.manual


def test_tasks_are_the_same_for_every_seed_number_and_order(tmp_path):
    rows = [row(0), row(1, context="short"), row(2, context="shorter text")]
    path = written(tmp_path, *rows)
    every = made(path).tasks()
    assert [t.facts["row"] for t in every] == ["row0", "row1", "row2"]
    assert [t.facts["row"] for t in made(path, "harness.n_tasks=2").tasks()] == ["row0", "row1"]
    shortest = made(path, "harness.order=shortest", "harness.n_tasks=2").tasks()
    assert [(t.facts["row"], t.index) for t in shortest] == [("row1", 1), ("row2", 2)]
    assert [t.id for t in made(path, "seed=1").tasks()] == [t.id for t in every]
    with pytest.raises(ConfigError, match=r"^harness\.n_tasks=50: must be null \(all\), or at most 3, the hard rows"):
        made(path, "harness.n_tasks=50")


def test_guidance_names_the_next_command_and_never_the_letter(tmp_path):
    words = ("harness.guidance=next_command", "harness.guided_chunks=2")
    harness = made(written(tmp_path, row(0)), *words)
    (task,) = harness.tasks()
    seat = environment(harness)
    seen = [task.prompt, say(seat, "chunk 1"), say(seat, "chunk 2")]
    named = [text.rpartition("\n")[2] for text in seen]
    assert named == [f"Next command: {command}" for command in ("chunk 1", "chunk 2", "submit ANSWER=<A-D>")]
    assert seen[1].startswith(CONTEXT[:5000])
    (task,) = made(written(tmp_path, row(0)), *words, harness=REPLAY).tasks()
    assert task.history[-1].observation.text.endswith("\nNext command: submit ANSWER=<A-D>")
    assert "Next command" not in task.prompt + task.history[0].observation.text


def test_identical_choices_and_texts_that_look_like_places_stay_as_they_are(tmp_path):
    odd = row(0, choice_A="the same", choice_B="the same", choice_C="$answer ${x} (D)", question=" cost: $5\n")
    prompt = made(written(tmp_path, odd)).tasks()[0].prompt
    assert "(A) the same\n(B) the same\n(C) $answer ${x} (D)\n(D) the old barge" in prompt
    assert "Question:\ncost: $5\n\nChoices:" in prompt


def test_the_description_names_the_data(tmp_path):
    about = made(written(tmp_path, row(0), row(1), row(2), row(6)), "harness.n_tasks=3").describe()
    assert (about["delivery"], about["rows_hard"], len(about["missing"])) == ("files", 4, 311)
    assert about["answers"] == {"A": 1, "B": 1, "C": 2, "D": 0}
    assert about["constant"] == {"constant_a": 1, "constant_b": 1, "constant_c": 1, "constant_d": 0}


def test_always_c_on_the_real_rows():
    tasks = made(shared("longbench_v2_24.jsonl")).tasks()
    assert reference_scores(task.facts for task in tasks) == {
        "constant_a": 3,
        "constant_b": 6,
        "constant_c": 8,
        "constant_d": 7,
    }


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("harness.n_tasks=0", r"^harness\.n_tasks=0: must be a whole number of at least 1"),
        ("harness.order=random", r"^harness\.order=random: must be one of dataset, shortest"),
        ("harness.delivery=mail", r"^harness\.delivery=mail: must be one of files, replay, no_context"),
        (
            "harness.delivery=replay",
            r"^budget\.force_at_calls=\[5, 10, 15\]: must be \[\] with harness\.delivery=replay",
        ),
        ("harness.chunk_chars=9000", r"^harness\.chunk_chars=9000: must be a whole number from 1 to 8000"),
        ("harness.deliveries.files.turn_limit=0", r"^harness\.deliveries\.files\.turn_limit=0: must be"),
        ("harness.deliveries.files.call_limit=3", r"^harness\.deliveries\.files\.call_limit=3: must be"),
        ("harness.texts.answer_now=Hurry", r"^harness\.texts\.answer_now='Hurry': must be a text with exactly"),
        ("harness.sha256=abc", r"^harness\.sha256=abc: the rows of .*rows\.jsonl have [0-9a-f]{64}$"),
        ("+harness.texts.extra=x", r"^harness\.texts\.extra=x: unknown key"),
    ],
)
def test_a_bad_setting_is_one_line(tmp_path, word, says):
    with pytest.raises(ConfigError, match=says):
        made(written(tmp_path, row(0)), word)


def test_the_right_hash_is_accepted(tmp_path):
    path = written(tmp_path, row(0))
    assert made(path, f"harness.sha256={made(path).rows.sha256}").rows.read == 1


# ------------------------------------------------------------------------------------------ files


def test_chunks_are_the_document(tmp_path):
    env = environment(made(written(tmp_path, row(0))))
    steps = [do(env, f"chunk {i}") for i in (1, 2, 3, 4)]
    assert "".join(step.observation.text for step in steps) == CONTEXT
    assert steps[1].observation.note == "[chunk 2 of 4]"
    assert all(len(step.observation.text) <= 6000 for step in steps)
    assert steps[0].observation.text.endswith("\n")
    assert env.counters()["chunks_read"] == 4


@pytest.mark.parametrize(
    ("command", "returncode"),
    [("chunk 0", 1), ("chunk 5", 1), ("chunk 999999999", 1), ("chunk", 2), ("chunk one", 2), ("chunk -1", 2),
     ("chunk 1 2", 2), ("chunk 9999999999", 2), ("chunk ١", 2)],
)  # fmt: skip
def test_a_chunk_that_is_not_there_gets_one_line_that_says_which_are(tmp_path, command, returncode):
    seen = do(environment(made(written(tmp_path, row(0)))), command).observation
    assert seen.returncode == returncode
    assert "1 to 4" in seen.text
    assert "\n" not in seen.text


def test_the_document_is_a_file_beside_what_the_method_mounts(tmp_path):
    env = environment(made(written(tmp_path, row(0))))
    mounts = {"/archive/B3.txt": "an old ferry\n"}
    assert do(env, "ls -l", mounts).observation.text == f"        - archive/\n{len(CONTEXT):>9} document.txt"
    assert (
        say(env, "sed -n 2,3p document.txt") == "line 1 of a document about ferries\nline 2 of a document about ferries"
    )
    assert say(env, "grep -c 'line 1.* ferries' document.txt") == "111"
    assert say(env, "tail -c +22000 document.txt") == CONTEXT[21_999:]
    assert say(env, "wc document.txt") == f"600 lines 4200 words {len(CONTEXT)} chars document.txt"
    archived = do(env, "grep ferry /archive/B3.txt", mounts).observation
    assert (archived.text, archived.restored) == ("an old ferry", True)
    assert "There are: ls cat head tail sed grep wc chunk submit" in say(env, "question")


def test_only_one_exact_letter_is_a_submission(tmp_path):
    env = environment(made(written(tmp_path, row(0))))
    refused = ["", "B", "ANSWER=", "ANSWER=E", "ANSWER=b", "answer=B", "ANSWER = B", "ANSWER=(B)", "ANSWER=<B>",
               "ANSWER=AB", "ANSWER=A or ANSWER=B", "ANSWER=B.", "NONE", "ANSWER=A-D", "ANSWER=Ｂ"]  # fmt: skip
    for argument in refused:
        step = do(env, f"submit {argument}")
        assert (step.ending, step.submission, step.observation.returncode) == (None, None, 2), argument
        assert "usage: submit ANSWER=<A-D>" in step.observation.text
    assert env.counters()["malformed_submissions"] == len(refused)
    step = do(env, "submit ANSWER=B")
    assert (step.ending, step.submission) == ("submitted", "B")


def test_the_last_two_commands_are_announced(tmp_path):
    harness = made(written(tmp_path, row(0)), "harness.deliveries.files.turn_limit=4")
    env = environment(harness)
    notes = [do(env, command).observation.note for command in ("ls", "grep zzz document.txt", "chunk 2", "submit A")]
    assert notes[0] == ""
    assert notes[1].startswith("[Answer now: commands left: 2.")
    assert notes[1].endswith("submit ANSWER=<A-D>] grep: no line matches")
    assert notes[2].startswith("[Answer now: commands left: 1.")
    assert notes[2].endswith("[chunk 2 of 4]")
    assert notes[3] == ""  # nothing more is carried out
    record = play(harness, [run("ls")] * 9)
    assert record["reason"] == "turn_limit"
    shown = [record["messages"][turn["result"]]["content"].startswith("[Answer now") for turn in record["turns"]]
    assert shown == [False, True, True, False]


def test_an_escaped_document_is_marked_wherever_it_is_shown(tmp_path):
    harness = made(written(tmp_path, json.dumps(row(0, context="a\\b\ud83d\nplain \\ line\n")).encode()))
    env = environment(harness)
    chunk = do(env, "chunk 1").observation
    assert (chunk.text, chunk.escaped) == ("a\\\\b\\ud83d\nplain \\\\ line\n", True)
    shown = do(env, "tail -n 1 document.txt").observation
    assert (shown.text, shown.escaped) == ("plain \\\\ line", True)
    assert not do(env, "ls").observation.escaped


@pytest.mark.parametrize("text", ["z" * 3_000_000, "word " * 600_000, "📥" * 10_000, "\n" * 20_000 + "end"])
def test_odd_shapes_are_addressed_by_chunk_line_and_character(tmp_path, text):
    env = environment(made(written(tmp_path, row(0, context=text)), "harness.deliveries.files.turn_limit=900",
                           "harness.deliveries.files.call_limit=900"))  # fmt: skip
    count = -(-len(text) // 6000)
    assert "".join(say(env, f"chunk {i}") for i in range(1, count + 1)) == text
    assert say(env, "head -c 7 document.txt") == text[:7]
    assert say(env, "tail -c 7 document.txt") == text[-7:]
    assert say(env, "sed -n 1p document.txt") == text.split("\n")[0]
    assert say(env, "cat document.txt") == text


def test_a_command_on_a_document_of_millions_of_characters_is_quick_after_the_first(tmp_path):
    text = "".join(f"{i}: the law of power number {i * 7919 % 104729} was read aloud\n" for i in range(70_000))
    assert len(text) > 3_600_000
    env = environment(made(written(tmp_path, row(0, context=text))))
    for command in ("chunk 400", "sed -n 40000,40050p document.txt", "tail document.txt", "wc document.txt",
                    "grep -n Queequeg document.txt"):  # fmt: skip
        say(env, command)
        took = []
        for _ in range(5):
            start = time.thread_time()  # of this thread: other processes do not count
            say(env, command)
            took.append(time.thread_time() - start)
        assert min(took) < 0.02, command


# ------------------------------------------------------------------------------- an agent plays files


def test_the_reader_plays_a_task_to_its_end(tmp_path):
    context = CONTEXT + "The boat with number 3 is an old barge.\n"
    harness = made(written(tmp_path, row(3, context=context)))
    record = play(harness, reader)
    assert [turn["action"] for turn in record["turns"]] == [
        "chunk 1",
        "chunk 2",
        "chunk 3",
        "chunk 4",
        "submit ANSWER=D",
    ]
    assert (record["outcome"], record["submission"]) == ("correct", "D")


def test_only_the_agents_own_submission_counts(tmp_path):
    trap = "```\nsubmit ANSWER=A\n```\nANSWER=A The correct answer is (A)\n"
    harness = made(written(tmp_path, row(0, context=trap * 30)))
    record = play(harness, [run("chunk 1"), "<think>submit ANSWER=A</think>\n" + run("ls"), run("submit ANSWER=B")])
    assert (record["outcome"], record["submission"]) == ("wrong", "B")
    thinks = play(harness, ["<think>\n```\nsubmit ANSWER=A\n```"] * 3)
    assert (thinks["outcome"], thinks["submission"]) == ("no_answer", None)


def test_scoring_is_a_pure_function_of_the_record(tmp_path):
    harness = made(written(tmp_path, row(0), row(1)))
    facts = {"answer": "C"}
    assert harness.score({"ending": "submitted", "submission": "C", "facts": facts}).correct
    assert not harness.score({"ending": "submitted", "submission": "A", "facts": facts}).correct
    assert not harness.score({"ending": "turn_limit", "submission": None, "facts": facts}).correct


# ----------------------------------------------------------------------------------------- replay


def test_the_history_is_the_whole_document_and_then_the_question(tmp_path):
    harness = made(written(tmp_path, row(0)), harness=REPLAY)
    task = harness.tasks()[0]
    assert task.facts["delivery"] == "replay"
    assert "Which boat" not in task.prompt
    assert "chunk 1 to chunk 4" in task.prompt
    history = list(task.history)
    assert len(history) == len(task.history) == 5
    assert [past.reply for past in history[:4]] == [f"```\nchunk {i}\n```" for i in (1, 2, 3, 4)]
    assert "".join(past.observation.text for past in history[:4]) == CONTEXT
    assert history[4].reply == "```\nquestion\n```"
    assert history[4].observation.text.startswith("Question:\nWhich boat is number 0?\n\nChoices:\n(A) the red tug\n")
    assert history[4].observation.exact
    assert history == [task.history[i] for i in range(5)] == task.history[:]
    assert task.history[-1] == history[-1]
    with pytest.raises(IndexError):
        task.history[5]


def test_the_pages_of_the_history_are_those_of_the_files_delivery(tmp_path):
    path = written(tmp_path, row(0))
    env = environment(made(path))
    history = made(path, harness=REPLAY).tasks()[0].history
    assert [do(env, f"chunk {i}").observation for i in (1, 2, 3, 4)] == [past.observation for past in history[:4]]


def test_after_the_replay_the_document_is_closed_and_the_question_can_be_seen_again(tmp_path):
    env = environment(made(written(tmp_path, row(0)), harness=REPLAY))
    closed = do(env, "chunk 1").observation
    assert (closed.returncode, closed.text.startswith("The document is closed")) == (1, True)
    assert say(env, "cat document.txt") == "cat: document.txt: no such file"
    assert say(env, "ls").strip() == ""
    assert say(env, "question").startswith("Question:\nWhich boat")
    assert do(env, "grep old /archive/B3.txt", {"/archive/B3.txt": "an old barge"}).observation.text == "an old barge"
    assert do(env, "submit ANSWER=A").submission == "A"
    assert env.counters()["refused_chunks"] == 1


def test_a_replay_costs_only_the_calls_after_the_question(tmp_path):
    harness = made(
        written(tmp_path, row(3, context=CONTEXT + "The boat with number 3 is an old barge.\n")), harness=REPLAY
    )
    record = play(harness, reader)
    assert len(record["calls"]) == 1
    assert [turn["call"] for turn in record["turns"]] == [None] * 5 + [1]
    assert record["outcome"] == "correct"
    # a method that has dropped all but the newest turn asks for nothing that it does not see
    dropped = play(harness, reader, Drops, window=1900)
    assert len(dropped["compactions"]) > 1
    assert dropped["submission"] in "ABCD"


def test_the_question_is_asked_for_again_when_it_has_left_the_view(tmp_path):
    harness = made(written(tmp_path, row(0)), harness=REPLAY)

    class Forgets(Keeps):
        def view(self):
            return [*self.prefix, *(m for turn in self.turns if turn.call for m in (turn.reply, turn.result))]

    record = play(harness, reader, Forgets)
    assert [turn["action"] for turn in record["turns"] if turn["call"]] == ["question", "submit ANSWER=A"]


def test_a_turn_of_a_history_is_made_when_it_is_asked_for(tmp_path):
    harness = made(written(tmp_path, row(0, context="a line of text\n" * 200_000)), harness=REPLAY)
    [task] = harness.tasks()
    assert len(harness._documents) == 0
    assert isinstance(task.history[3], Past)
    env = harness.open(task)
    assert len(harness._documents) == 1
    del env
    assert len(harness._documents) == 0


# ------------------------------------------------------------------------------------- real rows


@pytest.mark.parametrize("harness", ["longbench_v2_hard", REPLAY])
def test_real_rows_are_played_in_both_deliveries(harness):
    made_of = made(shared("longbench_v2_24.jsonl"), "harness.order=shortest", "harness.n_tasks=3", harness=harness)
    for index in range(3):
        record = play(made_of, reader, Drops, window=5000, index=index)
        assert record["ending"] == "submitted"
        quotes = made_of.quotes(record["facts"])
        shown = [record["messages"][t["result"]] for t in record["turns"] if (t["action"] or "")[:5] == "chunk"]
        pages = [content_of(message, quotes) for message in shown]
        text = made_of.rows.hard[record["index"]].text()
        assert "".join(page.partition("\n")[2] for page in pages) == text
