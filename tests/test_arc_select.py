"""`_recall §id FIRST-LAST` and `_recall §id /pattern/`: matching something, nothing, everything, or not valid."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bench import PREFIX, Bench, budget, turn
from fakes import compose
from hydra.utils import instantiate

from arcbench.arc import ArcSelect
from arcbench.types import Action, ConfigError, Message, Observation, Turn

BODY = "\n".join([f"line {number} of the log" for number in range(1, 101)] + ["ERROR: disk full", ""])


class Reader:
    """One stored observation, and recalls of it."""

    def __init__(self, body: str = BODY, **changes: Any) -> None:
        self.bench = Bench(budget(20_000, 1_000, **changes))
        self.arc: ArcSelect = instantiate(compose("method=arc_select")["method"], _convert_="all")(bench=self.bench)
        assert self.arc.begin(PREFIX) is None
        self.count = 0
        self.observe(turn(0, body, "cat log"))
        self.id = self.arc.records[0].id

    def observe(self, seen: Turn) -> None:
        asyncio.run(self.arc.observe(seen))
        self.count += 1

    def recall(self, argument: str, action: str = "_recall") -> Observation:
        command = Action(action, f"§{self.id} {argument}".strip(), f"{action} §{self.id} {argument}")
        answer = asyncio.run(self.arc.handle(command))
        shown = Message("user", f"{answer.note}\n{answer.text}")
        reply = Message("assistant", f"```\n{command.text}\n```")
        self.observe(Turn(self.count, self.count + 1, reply, command, answer, shown, "method"))
        return answer


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        ("40-42", "40: line 40 of the log\n41: line 41 of the log\n42: line 42 of the log"),
        ("7", "7: line 7 of the log"),
        ("100-", "100: line 100 of the log\n101: ERROR: disk full"),
        ("101-999", "101: ERROR: disk full"),
        ("/ERROR/", "101: ERROR: disk full"),
        ("/error: DISK/i", "101: ERROR: disk full"),
        ("/^line [45]0 /", "40: line 40 of the log\n50: line 50 of the log"),
    ],
)
def test_lines_by_number_and_by_pattern(selection: str, text: str) -> None:
    answer = Reader().recall(selection)
    assert (answer.text, answer.restored, answer.returncode) == (text, True, 0)
    shown = text.count("\n") + 1
    assert answer.note.endswith(f"`cat log`, {shown} of its 101 lines ({selection}):")


@pytest.mark.parametrize("selection", ["/./", "1-", "1-101"])
def test_everything(selection: str) -> None:
    lines = Reader().recall(selection).text.split("\n")
    assert [line.partition(": ")[2] for line in lines] == BODY.rstrip("\n").split("\n")


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        ("/nowhere/", "/nowhere/ matches none of the 101 lines"),
        ("102-110", "102-110 matches none of the 101 lines"),
        ("60-40", "60-40 is no selection"),
        ("0-3", "0-3 is no selection"),
        ("-3", "-3 is no selection"),
        ("4-5-6", "4-5-6 is no selection"),
        ("//", "// is no selection"),
        ("/open", "/open is no selection"),
        ("all of it", "all of it is no selection"),
        ("/(/", "/(/ is not a regular expression"),
        ("/[z-a]/", "/[z-a]/ is not a regular expression"),
        ("/*/", "/*/ is not a regular expression"),
    ],
)
def test_what_matches_nothing_or_is_not_valid_gets_one_line_and_costs_no_recall(selection: str, says: str) -> None:
    reader = Reader()
    answer = reader.recall(selection)
    assert says in answer.text
    assert "\n" not in answer.text
    assert answer.text.endswith("Nothing was recalled.")
    assert not answer.restored
    assert reader.arc.recalls_this_step == 0
    assert reader.recall("7").text == "7: line 7 of the log"


def test_a_pattern_that_never_ends_is_given_up() -> None:
    assert "takes too long" in Reader("a" * 40 + "b\n").recall("/^(a|aa)+$/").text


def test_a_match_in_one_enormous_line_comes_back_with_its_surroundings() -> None:
    reader = Reader("x" * 50_000 + "NEEDLE" + "y" * 50_000, recall_max_chars=1_000)
    text = reader.recall("/NEEDLE/").text
    assert "xxxNEEDLEyyy" in text
    assert len(text) < 1_000


def test_without_a_selection_it_is_arc() -> None:
    reader = Reader()
    assert reader.recall("").text == BODY
    assert "Recalled 1 times." in reader.recall("", "_recall_meta").text


def test_two_selections_of_one_body_stand_side_by_side_and_count_against_the_limit() -> None:
    reader = Reader()
    first, second = reader.recall("1-2"), reader.recall("50")
    view = "\n".join(message.content for message in reader.arc.view())
    assert first.text in view
    assert second.text in view
    assert reader.arc.recalled.total_chars == len(first.text) + len(second.text)
    assert "Only 2 recalls" in reader.recall("3").text
    reader.observe(turn(reader.count, "ok", "ls"))
    assert reader.recall("3").text == "3: line 3 of the log"


def test_the_time_limit_is_checked() -> None:
    config = compose("method=arc_select")["method"] | {"pattern_timeout_s": 0}
    with pytest.raises(ConfigError, match="method.pattern_timeout_s=0: must be a number above 0"):
        instantiate(config, _convert_="all")(bench=Bench(budget(2_000, 100)))
