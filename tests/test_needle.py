"""The needle harness: the protocol as an agent plays it, with guidance, with many needles. Configured as shipped."""

from __future__ import annotations

import re

import pytest
from needles import ALPHABET, BUDGET, carry_out, code_in, do, last_line, make, say

# ----------------------------------------------------------------------------------- the protocol


@pytest.mark.parametrize("profile", ["strict", "lenient", "paper"])
def test_playing_by_the_text_alone(profile: str) -> None:
    needle = make(profile=profile)
    for task in needle.tasks():
        environment = needle.open(task)
        seen = say(environment, "cat secrets.txt")
        found = re.search(r"^NEEDLE=(\w+)$", seen, re.MULTILINE)
        assert found
        pages = carry_out(environment, seen)
        assert len(pages) == len(task.facts["codes"])
        assert last_line(pages[-1]) == "ALL WORK ORDERS DONE. Now: submit NEEDLE=<value>"
        step = do(environment, f"submit NEEDLE={found[1]}")
        assert (step.ending, step.submission) == ("submitted", task.facts["value"])
        assert environment.counters() == {
            "orders_done": len(pages),
            "premature_submissions": 0,
            "malformed_submissions": 0,
            "wrong_codes": 0,
            "refused_rereads": 0,
            "partial_reads": 0,
        }


def test_two_environments_of_a_task_answer_alike() -> None:
    needle = make()
    commands = ["ls -l", "cat secrets.txt", "wc secrets.txt", f"next {needle.task(1).facts['codes'][0]}", "submit X"]
    one, other = needle.open(needle.task(1)), make(n_tasks=9).open(needle.task(1))
    assert [do(one, command) for command in commands] == [do(other, command) for command in commands]


def test_only_the_awaited_code_opens_a_page() -> None:
    needle = make()
    task = needle.task(0)
    codes = task.facts["codes"]
    environment = needle.open(task)
    for code in (codes[1], codes[15], "ZZZZZZ", codes[0].lower()):
        step = do(environment, f"next {code}")
        assert step.observation.returncode == 1
        assert step.ending is None
        assert not any(known in step.observation.text for known in codes)
    assert environment.counters()["wrong_codes"] == 4
    assert say(environment, f"next {codes[0]}").startswith("WORK ORDER 1 of 16")
    assert "Refused" in say(environment, f"next {codes[0]}")
    assert "Refused" in say(environment, f"next {codes[2]}")
    for command in ("next", f"next {codes[1]} {codes[2]}", f"next {codes[1]}; next {codes[2]}"):
        assert do(environment, command).observation.returncode == 2
    assert environment.counters()["wrong_codes"] == 6
    assert environment.counters()["orders_done"] == 1
    assert say(environment, f"next '{codes[1]}'").startswith("WORK ORDER 2 of 16")


def test_after_the_last_order_there_is_no_other() -> None:
    needle = make()
    task = needle.task(0)
    environment = needle.open(task)
    carry_out(environment, say(environment, "cat secrets.txt"))
    step = do(environment, f"next {task.facts['codes'][15]}")
    assert step.observation.returncode == 1
    assert last_line(step.observation.text) == "ALL WORK ORDERS DONE. Now: submit NEEDLE=<value>"
    assert environment.counters()["orders_done"] == 16


WHOLE = ["cat secrets.txt", "cat ./secrets.txt", "cat '/secrets.txt'"]
PARTIAL = [
    "head secrets.txt",
    "head -n 5 /secrets.txt",
    "head -n 999 secrets.txt",
    "tail -c 100 secrets.txt",
    "tail -n +1 secrets.txt",
    "sed -n 28p secrets.txt",
    "sed -n '1,$p' secrets.txt",
    "grep NEEDLE= secrets.txt",
    "grep -n NEEDLE= ./secrets.txt",
    "grep -c zzz secrets.txt",
    "grep = /archive/a secrets.txt",
    "cat secrets.txt secrets.txt",
    "cat /archive/a secrets.txt",
    "head -n 1 secrets.txt /archive/a",
]
MOUNTS = {"/archive/a": "stored = text\n"}


@pytest.mark.parametrize("profile", ["strict", "lenient", "paper"])
def test_the_file_opens_only_whole(profile: str) -> None:
    needle = make(profile=profile)
    task = needle.task(0)
    environment = needle.open(task)
    for count, command in enumerate(PARTIAL, start=1):
        seen = do(environment, command, MOUNTS).observation
        assert seen.text == "Refused: this file opens only whole and alone. Use: cat secrets.txt"
        assert (seen.returncode, seen.restored, seen.note) == (1, False, "")
        assert environment.counters()["partial_reads"] == count
    assert environment.counters()["refused_rereads"] == 0
    # none of these was the one reading, and all that is ever seen of the file is longer than what is kept verbatim
    seen = do(environment, "cat secrets.txt", MOUNTS).observation
    assert seen.text == needle.secrets(task) + f"NEXT CODE: {task.facts['codes'][0]}"
    assert len(seen.text) > BUDGET["keep_verbatim_chars"]
    # sizes are no part of it, and what is not the file is read as before
    assert "secrets.txt" in say(environment, "wc secrets.txt")
    assert do(environment, "grep stored /archive/a", MOUNTS).observation.text == "stored = text"
    assert environment.counters()["partial_reads"] == len(PARTIAL)


@pytest.mark.parametrize("guidance", ["none", "next_command"])
def test_a_refused_part_of_the_file_names_the_right_command(guidance: str) -> None:
    environment = make(guidance=guidance, file_name="notes/a.txt").open(make().task(0))
    notice = "Refused: this file opens only whole and alone. Use: cat notes/a.txt"
    hint = {"none": "", "next_command": "\nNext command: cat notes/a.txt"}[guidance]
    assert say(environment, "head notes/a.txt") == notice + hint


@pytest.mark.parametrize("first", WHOLE)
def test_strict_gives_one_reading_and_with_it_the_code(first: str) -> None:
    needle = make()
    task = needle.task(0)
    environment = needle.open(task)
    for harmless in ("ls", "ls -l", "wc secrets.txt", "cat nothing.txt", "cat secrets.txt nothing.txt", "cat"):
        text = say(environment, harmless)
        assert task.facts["value"] not in text
        assert "NEXT CODE" not in text
    assert "secrets.txt" in say(environment, "ls")
    assert code_in(say(environment, first)) == task.facts["codes"][0]
    for count, again in enumerate((*WHOLE, *PARTIAL), start=1):
        step = do(environment, again, MOUNTS)
        assert "rotated" in step.observation.text
        assert task.facts["value"] not in step.observation.text
        assert "NEXT CODE" not in step.observation.text
        assert (step.observation.returncode, step.ending) == (1, None)
        assert environment.counters()["refused_rereads"] == count
    assert environment.counters()["partial_reads"] == 0


@pytest.mark.parametrize("first", [*WHOLE, *PARTIAL])
def test_with_parts_any_reading_is_the_one_and_shows_what_it_shows(first: str) -> None:
    needle = make(read="parts")
    task = needle.task(0)
    environment = needle.open(task)
    assert "even if only in part" in task.prompt
    assert code_in(do(environment, first, MOUNTS).observation.text) == task.facts["codes"][0]
    assert "rotated" in say(environment, "cat secrets.txt")
    assert environment.counters()["partial_reads"] == 0
    shown = say(needle.open(task), "head -n 5 secrets.txt")
    assert shown == "\n".join([*needle.secrets(task).split("\n")[:5], f"NEXT CODE: {task.facts['codes'][0]}"])


def test_lenient_rereads_and_says_where_the_protocol_stands() -> None:
    needle = make(profile="lenient")
    task = needle.task(0)
    environment = needle.open(task)
    assert code_in(say(environment, "cat secrets.txt")) == task.facts["codes"][0]
    say(environment, f"next {task.facts['codes'][0]}")
    assert "opens only whole" in say(environment, "grep NEEDLE= secrets.txt")
    again = say(environment, "cat secrets.txt")
    assert f"NEEDLE={task.facts['value']}" in again
    assert code_in(again) == task.facts["codes"][1]
    assert environment.counters()["refused_rereads"] == 0


def test_strict_and_lenient_refuse_early_submissions_and_end_at_the_third() -> None:
    for profile in ("strict", "lenient"):
        needle = make(profile=profile)
        environment = needle.open(needle.task(0))
        say(environment, "cat secrets.txt")
        for count in (1, 2):
            step = do(environment, f"submit NEEDLE={needle.task(0).facts['value']}")
            assert (step.ending, step.submission) == (None, None)
            assert "16 work orders are left" in step.observation.text
            assert environment.counters()["premature_submissions"] == count
        step = do(environment, "submit NEEDLE=ANYTHING")
        assert (step.ending, step.submission) == ("premature", None)


def test_paper_ends_at_the_first_early_submission() -> None:
    needle = make(profile="paper")
    environment = needle.open(needle.task(0))
    step = do(environment, f"submit NEEDLE={needle.task(0).facts['value']}")
    assert (step.ending, step.submission) == ("premature", None)
    assert environment.counters()["premature_submissions"] == 1


def test_early_submissions_can_be_accepted() -> None:
    needle = make(profile="lenient", profiles__lenient__submit_early="accepted")
    step = do(needle.open(needle.task(0)), "submit NEEDLE=EARLY")
    assert (step.ending, step.submission) == ("submitted", "EARLY")
    assert "first submission counts" in needle.task(0).prompt


def test_giving_up_is_possible_at_any_time() -> None:
    needle = make()
    step = do(needle.open(needle.task(0)), "submit NONE")
    assert (step.ending, step.submission) == ("gave_up", None)


# ---------------------------------------------------------------------------------------- guidance


def test_with_guidance_the_last_line_is_all_one_needs() -> None:
    needle = make(guidance="next_command")
    for task in needle.tasks():
        environment = needle.open(task)
        seen = task.prompt
        commands = []
        while not commands or not commands[-1].startswith("submit"):
            line = last_line(seen)
            assert line.startswith("Next command: ")
            assert task.facts["value"] not in line
            commands.append(line.removeprefix("Next command: "))
            seen = say(environment, commands[-1])
        assert commands == [
            "cat secrets.txt",
            *(f"next {code}" for code in task.facts["codes"]),
            "submit NEEDLE=<value>",
        ]


def test_guidance_follows_every_answer_that_does_not_end_the_episode() -> None:
    needle = make(guidance="next_command")
    code = needle.task(0).facts["codes"][0]
    environment = needle.open(needle.task(0))
    for command in ("ls", "fly", "cat nothing", "next WRONG", "next", "submit", "submit NEEDLE=X"):
        assert last_line(say(environment, command)) == "Next command: cat secrets.txt"
    seen = say(environment, "cat secrets.txt")
    assert seen.endswith(f"\nNEXT CODE: {code}\nNext command: next {code}")
    for command in ("cat secrets.txt", "ls", "fly", "next WRONG"):
        assert last_line(say(environment, command)) == f"Next command: next {code}"


def test_without_guidance_nothing_names_the_next_command() -> None:
    needle = make()
    environment = needle.open(needle.task(0))
    seen = say(environment, "cat secrets.txt")
    assert not any("Next command" in text for text in (needle.task(0).prompt, seen, *carry_out(environment, seen)))


# ------------------------------------------------------------------------------------- many needles


def asked_code(text: str) -> str:
    match = re.search(rf"^ *ASKED FOR: the value that was shown by the command: next ([{ALPHABET}]{{6}})$", text, re.M)
    assert match
    return match[1]


@pytest.mark.parametrize("reveal", ["start", "end"])
@pytest.mark.parametrize("position", ["random", "even"])
def test_many_needles_played_by_the_text_alone(reveal: str, position: str) -> None:
    needle = make(needles=5, reveal=reveal, position=position, n_tasks=6)
    asked = set()
    for task in needle.tasks():
        environment = needle.open(task)
        assert do(environment, "cat secrets.txt").observation.returncode == 1
        opened: dict[str, str] = {}
        seen = task.prompt
        pages = []
        while not last_line(seen).startswith("ALL WORK ORDERS DONE"):
            code = code_in(seen)
            seen = say(environment, f"next {code}")
            pages.append(seen)
            assert not any(code in line for line in seen.split("\n") if not line.startswith("ASKED FOR"))
            for value in re.findall(r"^RECORD=(\w+)$", seen, re.M):
                opened[code] = value
        assert sorted(opened.values()) == sorted(task.facts["values"])
        assert len(set(opened.values())) == 5
        texts = {"start": task.prompt, "end": seen}
        assert [name for name, text in texts.items() if "ASKED FOR" in text] == [reveal]
        assert not any("ASKED FOR" in page for page in pages[:-1])
        answer = opened[asked_code(texts[reveal])]
        assert answer == task.facts["value"]
        assert do(environment, f"submit NEEDLE={answer}").submission == task.facts["value"]
        asked.add(task.facts["asked"])
    assert len(asked) > 1


def test_a_fact_stands_in_the_middle_of_its_page() -> None:
    for share in (0.0, 0.35, 1.0):
        needle = make(needles=16, log_share=share)
        task = needle.task(0)
        assert task.facts["pages"] == list(range(1, 17))
        for number in range(1, 17):
            page = needle.page(task, number)
            assert 0.35 < page.index("\nRECORD=") / len(page) < 0.65


def test_facts_are_spread_as_told() -> None:
    assert make(needles=4, position="even").task(0).facts["pages"] == [3, 7, 11, 15]
    drawn = {tuple(task.facts["pages"]) for task in make(needles=4, n_tasks=20).tasks()}
    assert len(drawn) > 15
    assert all(list(pages) == sorted(set(pages)) and set(pages) <= set(range(1, 17)) for pages in drawn)
