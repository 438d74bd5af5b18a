"""What the prompt tokens went to, worked out by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from fakes import compose

from analysis import overhead
from arcbench.records import RunFolder, runs_below
from arcbench.runner.cell import Cell, run_episodes

# A record of four messages of the task and one turn, a citation of 7 tokens, a recalled body and a catalog page.
MESSAGES = [("system", 10), ("user", 20), ("assistant", 3), ("user", 100), ("user", 7), ("user", 50), ("user", 40)]
RECORD: dict[str, Any] = {
    "outcome": "correct",
    "messages": [{"role": role, "content": str(i), "tokens": n} for i, (role, n) in enumerate(MESSAGES)],
    "turns": [
        {"reply": 2, "result": 3, "action": "cat a", "answered_by": "environment", "restored": False, "exact": False},
        {"reply": 2, "result": 5, "action": "_recall §1", "answered_by": "method", "restored": True, "exact": False},
        {"reply": 2, "result": 6, "action": "_catalog_next", "answered_by": "method", "restored": False, "exact": True},
    ],
    "calls": [
        {"billed": "agent", "messages": [0, 1], "prompt_tokens": 33},
        {"billed": "agent", "messages": [0, 1, 2, 3], "prompt_tokens": 136},
        {"billed": "method", "messages": [4], "prompt_tokens": 10},
        {"billed": "agent", "messages": [0, 1, 2, 4, 2, 5, 2, 6], "prompt_tokens": 139},
    ],
    "events": [
        {
            "after_call": 2, "event": "citations", "cited": 1, "full": 1, "tokens": 7, "replaced_tokens": 100,
            "bare_tokens": 5, "hint_tokens": 2, "archive_chars": 420, "payload_chars": 400,
        }
    ],
}  # fmt: skip


class OneRun:
    """Stands for a run folder."""

    columns: ClassVar = {name: name for name in overhead.KEY} | {"variant": None}
    config: ClassVar = {"budget": {"completion_tokens": 96}}

    def __init__(self, *records: dict[str, Any]) -> None:
        self.records = records

    def episodes(self) -> list[dict[str, Any]]:
        return list(self.records)


def test_each_message_is_of_one_kind() -> None:
    kinds = ["task", "task", "turns", "turns", "own_text", "recalled", "pages"]
    assert overhead.kinds_of(RECORD) == kinds


def test_what_is_read_back_from_a_method_s_files_is_recalled() -> None:
    turns = [RECORD["turns"][0], RECORD["turns"][1] | {"action": "cat /archive/B3.txt", "answered_by": "environment"}]
    assert overhead.kinds_of(RECORD | {"turns": turns})[5] == "recalled"


def test_tokens_of_an_episode_by_kind() -> None:
    error = RECORD | {"outcome": "error"}
    episodes, calls, compactions = overhead.frames(iter([OneRun(RECORD, error)]))  # type: ignore[list-item]
    (row,) = episodes.to_dict("records")
    # task 3 x 30; turns 3 + 100 + 3 x 3; citation 7; recalled 50; page 40; the hint stands in the last call only
    assert {kind: row[f"{kind}_tokens"] for kind in overhead.KINDS} == {
        "task": 90, "turns": 112, "own_text": 7, "recalled": 50, "pages": 40,
    }  # fmt: skip
    assert (row["calls"], row["method_calls"], row["prompt_tokens"], row["hint_tokens"]) == (3, 1, 308, 2)
    assert list(calls["prompt_tokens"]) == [33, 136, 139]
    sheet = overhead.spent(episodes, calls, compactions)
    (body,) = sheet.body.to_dict("records")
    assert (body["task %"], body["cited: tokens replaced"], body["by"]) == ("29.2", "100", "7")
    assert body["archive/payload"] == "1.050"


def test_the_number_of_citations_that_fills_a_window() -> None:
    _, _, compactions = overhead.frames(iter([OneRun(RECORD)]))  # type: ignore[list-item]
    (row,) = overhead.stubs(compactions).data.to_dict("records")
    # room for 4,096 - 96 - 30 = 3,970 tokens, 5 each: 794 fit, one more does not
    assert row["bare_tokens_each"] == 5
    assert row["n_at_4096"] == 795


def test_a_method_with_its_catalog_outside_the_prompt_has_no_such_number() -> None:
    outside = RECORD | {"events": [RECORD["events"][0] | {"bare_tokens": None}]}
    _, _, compactions = overhead.frames(iter([OneRun(outside)]))  # type: ignore[list-item]
    assert overhead.stubs(compactions).data.empty


def test_the_command_on_real_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("sliding_window", "arc", "arc_paged"):
        cell = Cell.compose(compose(f"method={method}", "harness.n_tasks=2", f"results_dir={tmp_path / 'runs'}"))
        with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as folder:
            tasks = cell.harness.tasks()
            folder.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
            asyncio.run(run_episodes(cell.setup(cell.engine), tasks, folder, cell.timeout_s, len(tasks)))
    assert overhead.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 0
    spent = pd.read_csv(tmp_path / "tables/overhead_needle.csv").set_index("method")
    parts = [f"{kind}_tokens_per_episode" for kind in overhead.KINDS]
    # what is not in any message is the generation prompt: 7 tokens a call
    gap = spent["prompt_tokens_per_episode"] - spent[parts].sum(axis=1)
    assert list(gap / spent["calls_per_episode"]) == [7.0, 7.0, 7.0]
    growth = pd.read_csv(tmp_path / "tables/overhead_growth_needle.csv").set_index(["method", "call"])
    assert growth.loc[("arc_paged", 18), "prompt_tokens_max"] < growth.loc[("arc", 18), "prompt_tokens_max"]
    assert {path.suffix for path in (tmp_path / "tables").glob("overhead_growth_needle.*")} == {".csv", ".md", ".tex"}
    assert list(pd.read_csv(tmp_path / "tables/overhead_stubs_needle.csv")["method"]) == ["arc"]


def test_no_runs_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert overhead.main(["--runs", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(RuntimeError):
        list(runs_below(tmp_path))
