"""Where the fact was, in episodes that were really played: the states that follow from the protocol, the prompts
themselves, and what holds of any agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import budget
from fakes import FakeEngine, FakeHarness, build, played, run, setup, task
from hypothesis import given
from hypothesis import strategies as st
from longbench import CONTEXT, row, written
from recorded import cell_run

from analysis import ledger, ledger_facts
from analysis.ledger_facts import IN_VIEW, STATES
from arcbench.records import runs_below
from arcbench.transcript import messages_of
from arcbench.types import Observation, Request

# ------------------------------------------------------------------------------------- real methods

SETTINGS = {
    "sliding_window": (),
    "full_context": (),
    "llm_summary": ("engine.summary_bound=head_tail",),
    "structured_state": ("engine.summary_bound=keeps_announced",),
    "rag_memory": (),
    "arc": ("recall=4k_2k",),
    "arc_select": (),
    "arc_paged": ("recall=4k_2k",),
    "vista": (),
    "vista_fixed_archive": (),
}
LONG = "".join(f"line {i} of a document about ferries\n" for i in range(2400))
EIGHT = ("harness.needles=8", "harness.reveal=end")
"""One of eight facts, and which one is asked for is said last."""


def states(record: Mapping[str, Any]) -> list[str]:
    return [call["state"] for call in ledger_facts.calls_of(record)]


def episode(record: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = ledger_facts.episode_of(record)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger")
    for method, words in SETTINGS.items():
        cell_run(folder / "one", f"method={method}", "harness.n_tasks=2", *words)
    for method in ("vista", "vista_no_archive", "vista_no_recovery", "arc_paged"):
        cell_run(folder / "eight", f"method={method}", "harness.n_tasks=2", *EIGHT)
    rows = written(folder, row(0, context=CONTEXT), row(1, context=LONG))
    for method in ("sliding_window", "arc", "vista"):
        cell_run(folder / "document", f"method={method}", "harness=longbench_v2_replay", f"harness.data_files='{rows}'")
    cell_run(folder / "document", "method=rag_memory", "harness=longbench_v2_hard", f"harness.data_files='{rows}'")
    return folder


# The file is read at call 1 and compactions are forced before calls 5, 10 and 15; the last work order is call 17.
# Call 18 submits, gives up or reads back; where a call reads back the next one submits or gives up.
PLAYED = {
    "full_context": ("unseen 1, verbatim 10", "never_answered", None),  # the window is full before call 12
    "sliding_window": ("unseen 1, verbatim 3, lost 14", "lost", "dropped"),
    "llm_summary": ("unseen 1, verbatim 3, lost 14", "lost", "summarised"),
    "structured_state": ("unseen 1, verbatim 3, summary 14", None, "summarised"),
    "rag_memory": ("unseen 1, verbatim 3, brought_back 14", None, "archived"),
    # a recall gives the two ends of the file, and the value stands in its middle
    "arc": ("unseen 1, verbatim 3, handle 15", "fetched_in_part", "cited"),
    "arc_select": ("unseen 1, verbatim 3, handle 14, brought_back 1", None, "cited"),
    # its recent turns have a budget of their own, met before call 4; the value is in the second chunk
    "arc_paged": ("unseen 1, verbatim 2, handle 16, brought_back 1", None, "cited"),
    # the agent is told to make room once before each of 5, 10 and 15, sees nothing whole then, and keeps the file
    "vista": ("unseen 1, verbatim 3, set_aside 1, verbatim 4, set_aside 1, verbatim 4, set_aside 1, verbatim 7",
              None, None),
    "vista_fixed_archive": ("unseen 1, verbatim 3, handle 14, brought_back 1", None, "archived"),
}  # fmt: skip


@pytest.mark.parametrize("method", SETTINGS)
def test_the_states_of_played_episodes(method: str, runs: Path) -> None:
    said, cause, fate = PLAYED[method]
    (made,) = [each for each in runs_below(runs / "one") if each.columns["method"] == method]
    for record in made.episodes():
        assert ", ".join(f"{state} {len(list(some))}" for state, some in groupby(states(record))) == said
        row = episode(record)
        assert (row["cause"], row["left_fate"]) == (cause, fate)
        assert row["read_call"] == 1


HANDLE = re.compile(r"§[0-9a-f]{8,} `|/archive/[BG][0-9]+")


def check(record: Mapping[str, Any], value: str) -> list[str]:
    """What must hold of any record, against the prompts themselves; the states."""
    found = states(record)
    agent = [call["number"] for call in record["calls"] if call["billed"] == "agent"]
    assert len(found) == len(agent)
    assert set(found) <= set(STATES)
    shown = [t["call"] for t in record["turns"] if value in record["messages"][t["result"]]["content"]]
    for number, (call, state) in enumerate(zip(agent, found, strict=True), start=1):
        view = "\n".join(message.content for message in messages_of(record, call))
        if value in view:
            assert state in IN_VIEW
        elif state in IN_VIEW:  # a recall in parts has it in two of them
            assert state == "brought_back"
            assert len(re.findall(r", part \d+ of \d+:", view)) >= 2
        if state == "handle":
            assert HANDLE.search(view)
        assert (state == "unseen") == (not shown or number <= min(shown))
        if state == "lost" and number < len(found):  # for good, unless it is shown once more
            assert found[number] == "lost" or number in shown
    row = episode(record)
    assert (row["cause"] is None) == (record["outcome"] == "correct")
    assert row["cause"] in (None, *ledger_facts.CAUSES)
    assert row["state"] == (found[-1] if found else None)
    if record["outcome"] == "correct":
        assert IN_VIEW & set(found)
    return found


@pytest.mark.parametrize("kind", ["one", "eight"])
def test_the_states_agree_with_the_prompts(kind: str, runs: Path) -> None:
    for made in runs_below(runs / kind):
        for record in made.episodes():
            check(record, record["facts"]["value"])


def test_one_of_eight_facts(runs: Path) -> None:
    """The second task asks for a fact of the newest pages, which never left; the first for one that did."""
    read = ledger.read(runs / "eight")
    rows = read.facts.merge(read.runs[["run_dir", "method"]], on="run_dir").set_index(["method", "index"])
    assert list(rows.xs(1, level="index")["state"]) == ["verbatim"] * 4
    left = rows.xs(0, level="index")
    assert left["state"].to_dict() == {
        "arc_paged": "brought_back", "vista": "brought_back", "vista_no_archive": "lost", "vista_no_recovery": "lost",
    }  # fmt: skip
    assert left["left_fate"].to_dict() == {
        "arc_paged": "cited", "vista": "archived", "vista_no_archive": "dropped", "vista_no_recovery": "dropped",
    }  # fmt: skip
    assert left["cause"].dropna().to_dict() == {"vista_no_archive": "lost", "vista_no_recovery": "lost"}


def test_frames_for_a_notebook(runs: Path) -> None:
    read = ledger.read(runs)
    assert set(read.facts["run_dir"]) | set(read.pages["run_dir"]) == set(read.runs["run_dir"])
    for rows, calls in ((read.facts, read.fact_calls), (read.pages, read.page_calls)):
        last = calls.groupby(["run_dir", "task"], sort=False)["call"].max()
        assert list(last) == list(rows["calls"])
        assert not calls.duplicated(["run_dir", "task", "call"]).any()
    pd.testing.assert_frame_equal(ledger.read(runs).fact_calls, read.fact_calls)  # now from what was kept


def test_the_pages_of_played_documents(runs: Path) -> None:
    read = ledger.read(runs / "document")
    rows = read.pages.merge(read.runs[["run_dir", "method"]], on="run_dir").set_index(["method", "index"])
    lost = {"sliding_window": "lost", "arc": "handle", "vista": "handle"}
    for method, state in lost.items():
        short, long = rows.loc[(method, 0)], rows.loc[(method, 1)]
        assert (short["pages"], short["asked_whole"], short["asked_call"]) == (4, 4, 1)
        assert long["asked_whole"] + long[f"asked_{state}"] == long["pages"] == 16
        assert long[f"asked_{state}"] > 0
        assert long["shown_chars"] == long["document_chars"] == len(LONG)
    files = rows.loc[("rag_memory", 1)]
    assert files["retrieved"] > 0
    assert pd.isna(files["asked_call"])


def test_the_command(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main(["--runs", str(runs / "one"), "--tables", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "mechanism_ledger_needle.csv").set_index("method")
    assert list(table["n_planned"]) == list(table["n_run"]) == [2] * len(SETTINGS)
    assert table.loc["arc", "n_last_handle"] == table.loc["arc", "n_tried"] == 2
    assert table.loc["arc", "left_call_median"] == 5
    causes = [name for name in table.columns if name.startswith("n_cause_")]
    assert (table[causes].sum(axis=1) == table["n_planned"] - table["n_success"]).all()
    places = [f"n_last_{state}" for state in STATES]
    assert (table[places].sum(axis=1) == table["n_run"]).all()
    why = (tmp_path / "mechanism_ledger_needle_failures.md").read_text()
    assert "fetched in part" in why
    assert "not fetched" not in why  # no episode failed so
    assert (tmp_path / "mechanism_ledger_needle.tex").exists()
    assert "They are not a model's score." in capsys.readouterr().out


def test_the_command_on_documents(runs: Path, tmp_path: Path) -> None:
    assert ledger.main(["--runs", str(runs / "document"), "--tables", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "mechanism_ledger_longbench_v2_hard.csv").set_index("method")
    assert table.loc["sliding_window", "n_asked_lost"] > 0
    assert table.loc["arc", ["n_asked_lost", "n_asked_hidden"]].sum() == 0
    text = (tmp_path / "mechanism_ledger_longbench_v2_hard.md").read_text()
    assert text.count("when asked") == 3  # where the question came first there is one row


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main(["--runs", str(tmp_path / "none"), "--tables", str(tmp_path)]) == 2
    rows = written(tmp_path, row())
    cell_run(tmp_path / "runs", "harness=longbench_v2_hard", f"harness.data_files='{rows}'",
             "harness.delivery=no_context", "method=full_context")  # fmt: skip
    capsys.readouterr()
    assert ledger.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.endswith("no episode here, errors aside, that asks for a fact or about a document\n")
    assert error.count("\n") == 1


# ----------------------------------------------------------------------------------- any agent at all

SECRET = "x9-SECRET-9x"
SPLIT = {"prefix": 250, "log": 150, "recent": 300, "page": 120, "recalled": 200, "overhead": 60}
MADE: Mapping[str, Mapping[str, Any]] = {
    "full_context": {},
    "sliding_window": {},
    "llm_summary": {"variant": None},
    "structured_state": {"variant": None},
    "rag_memory": {"variant": None, "retriever": "bm25", "chunk_chars": 300},
    "arc": {},
    "arc_select": {},
    "arc_paged": {"split": SPLIT, "chars_per_token": 20},
    "vista": {"dashboard": "full"},
    "vista_no_archive": {"dashboard": "folded"},
    "vista_fixed_archive": {"dashboard": "full"},
    "vista_status_board": {"dashboard": "full"},
}
MOVES = ("show", "say 60", "say 90", "think", "recall", "more", "list", "read", "archive", "delete", "board")
ENDS = ("right", "submit nothing", "submit NONE")


def environment(command: str, mounts: Mapping[str, str]) -> str | Observation:
    """``show`` shows the value between long lines, ``read PATH`` a file of an archive; ``say N`` says N words."""
    name, _, argument = command.partition(" ")
    if name == "show":
        return f"{'before ' * 45}\nNEEDLE={SECRET}\n{'after ' * 45}"
    if name == "read":
        return Observation(mounts.get(argument, "no such file"), restored=argument in mounts)
    return " ".join(f"w{i}" for i in range(int(argument))) if name == "say" else "what?"


def agent(moves: Sequence[str]) -> Callable[[Request], str]:
    """An agent that makes these moves, with the handles that it sees. A summary it is asked for keeps the value every
    other time. It never writes a value that it does not see."""
    left = list(moves)

    def said(request: Request) -> str:
        view = "\n".join(message.content for message in request.messages)
        value = SECRET if SECRET in view else "unknown"
        if request.billed == "method":
            known = value if len(left) % 2 else "nothing"
            state = {"goal": "", "progress": "", "facts": [known], "files": [], "errors": [], "open_items": []}
            return json.dumps(state) if request.schema else f"Known: {known}."
        move = left.pop(0) if left[1:] else left[0]  # where the last one is refused it is made again
        shown = re.findall("§([0-9a-f]{8,}) `show`", view) or re.findall("§([0-9a-f]{8,})", view) or ["00000000"]
        paths = re.findall("/archive/[BG][0-9]+.txt", view) or ["/archive/B1.txt"]
        blocks = re.findall(r"^\[?(B[0-9]+)\b", view, re.M) or ["B3"]
        verb = "_recall_start" if "_recall_start" in request.messages[0].content else "_recall"
        commands = {
            "think": "say 5",
            "recall": f"{verb} §{shown[-1]}",
            "more": f"_recall_next §{shown[-1]}",
            "list": "_catalog_first",
            "read": f"read {paths[-1]}",
            "archive": f'archive {",".join(blocks[1:7])} "about {value}"',
            "delete": f'delete {blocks[len(blocks) // 2]} "old"',
            "board": f'board "{value}"',
            "right": f"submit {value}",
        }
        return run(commands.get(move, move), f"I know {value}." if move == "think" else "")

    return said


@given(
    method=st.sampled_from(sorted(MADE)),
    moves=st.lists(st.sampled_from(MOVES), min_size=4, max_size=18),
    end=st.sampled_from(ENDS),
    forced=st.sets(st.integers(3, 16), max_size=3),
    room=st.integers(150, 700),
    recall=st.sampled_from([200, 600, 2000]),
)
def test_of_any_agent_the_states_agree_with_the_prompts(
    method: str, moves: list[str], end: str, forced: set[int], room: int, recall: int
) -> None:
    window = 60 + sum(SPLIT.values()) if method == "arc_paged" else 450 + room
    limits = budget(window, 60, force_at_calls=tuple(sorted(forced)), keep_verbatim_chars=100, recall_max_chars=recall)
    engine = FakeEngine(agent([moves[0], "show", *moves[1:], end]), window=window)
    cell = setup(engine, build(f"method/{method}", **MADE[method]), limits, FakeHarness(answer=environment))
    record = played(task(facts={"value": SECRET}), cell)
    assert record["error"] is None, record.get("detail")
    check(record, SECRET)
