"""Runs in which every episode broke, or none has begun: every command over runs, and every notebook, writes what there
is, or says in one line that there is nothing."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest
from longbench import row, written
from recorded import cell_run

from arcbench.engines.scripted import ScriptedEngine
from arcbench.records import EPISODES
from arcbench.types import Reply, Request

ROOT = Path(__file__).resolve().parent.parent
OVER_RUNS = sorted(path.stem for path in (ROOT / "analysis").glob("*.py") if '"--runs"' in path.read_text("utf-8"))
WRITE_REGARDLESS = {"arc_tables", "cost", "figures", "serving", "status", "tables"}
"""They say how many episodes broke; the others need one that did not."""
NOTEBOOKS = sorted(
    path.stem for path in (ROOT / "analysis/notebooks").glob("*.py") if "ARCBENCH_RUNS" in path.read_text("utf-8")
)


class Dead(ScriptedEngine):
    """An engine that has died."""

    async def complete(self, request: Request) -> Reply:
        raise RuntimeError("gone,\nwithout a trace")


DEAD = f"engine._target_={Dead.__module__}.{Dead.__qualname__}"


@pytest.fixture(scope="module", params=["errors", "not begun"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rows = written(folder, row(0), row(1))
    for method in ("arc", "sliding_window", "vista"):
        for words in (["harness.n_tasks=2"], ["harness=longbench_v2_hard", f"harness.data_files='{rows}'"]):
            at = cell_run(folder / "runs", f"method={method}", *words, DEAD)
            if request.param == "not begun":
                (at / EPISODES).unlink()
    return folder / "runs"


@pytest.mark.parametrize("name", OVER_RUNS)
def test_a_command_over_runs(runs, name, tmp_path, capsys):
    words = ["--runs", str(runs)] + ([] if name == "status" else ["--tables", str(tmp_path / "tables")])
    status = importlib.import_module(f"analysis.{name}").main(words)
    said = capsys.readouterr()
    if name in WRITE_REGARDLESS:
        assert status == 0, said.err
        sheets = [path.read_text("utf-8") for path in (tmp_path / "tables").glob("*.md")]
        assert not re.search(r"\bnan\b", said.out + "".join(sheets), re.I)
    else:
        assert (status, said.err.count("\n")) == (2, 1), said.err


def test_what_broke_them_is_told_on_one_line(tmp_path, capsys):
    cell_run(tmp_path, "harness.n_tasks=2", DEAD)
    assert "arcbench: 2 x RuntimeError: gone, without a trace\n" in capsys.readouterr().err


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook(runs, name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ARCBENCH_RUNS", str(runs))
    monkeypatch.setenv("ARCBENCH_OUT", str(tmp_path))
    runpy.run_path(str(ROOT / f"analysis/notebooks/{name}.py"))
    assert "nan" not in capsys.readouterr().out.lower().split()
