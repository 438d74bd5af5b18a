"""The perception probe as a command: asking, stopping, going on, bad input."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from bench import words
from fakes import FakeEngine
from probes import COMMITTED, EIGHT, TABLE5, asked, asks_of, settings

from analysis import perception, probe_scores
from analysis.probe import Settings
from arcbench.runner.building import make_engine
from arcbench.types import ConfigError, EngineError, Message, Reply, Request

# ------------------------------------------------------------------------------------------- the run


def reads_the_dashboard(request: Request) -> str:
    """Looks every answer up in the dashboard, and has none where there is no dashboard."""
    ledger = request.messages[-2].content
    if "<context_workspace_status>" not in ledger:
        return "I cannot know."
    sizes = {line.split()[0]: int(line.split()[1]) for line in ledger.split("\n") if re.match(r"B\d+ ", line)}
    asked_for = re.findall(r"\bB\d+\b", request.messages[-1].content)
    if len(asked_for) == 2:
        larger = max(sorted(asked_for, key=lambda id: int(id[1:])), key=lambda id: sizes[id])
        return orjson.dumps({"larger": larger}).decode()
    return orjson.dumps({"tokens": sizes[asked_for[0]] if asked_for else sum(sizes.values())}).decode()


def test_who_reads_the_dashboard_makes_no_error_with_it_and_says_nothing_without(
    transcripts: Path, tmp_path: Path
) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    (sheet,) = perception.probe(asked(engine), transcripts, settings(snapshots=2), tmp_path)
    rows = sheet.data[sheet.data["by"] == "fake"].set_index(["dashboard", "probe", "metric"])
    for probe, metrics in probe_scores.METRICS.items():
        for metric in metrics:
            right = rows.loc[("with", probe, metric)]
            assert right["value"] == (1 if probe == "pairwise" else 0)
            assert right["unparsed"] == 0
            assert rows.loc[("without", probe, metric)]["unparsed"] == rows.loc[("without", probe, metric)]["asked"] > 0
    body = sheet.body.set_index(["answers by", "dashboard"])
    assert body.loc[("fake", "without"), "unparsed"] == "22 of 22"
    assert body.loc[("fake", "with"), "unparsed"] == "0 of 22"
    assert list(body.index)[2:] == [("no model: characters / 4", "—"), ("no model: median block", "—")]
    assert any("lookup" in note for note in sheet.notes)
    assert not any("0.84" in cell for cell in body.to_numpy().ravel())  # the paper's numbers stay in a note
    # the file has all that the scores were made of
    answers = [orjson.loads(line) for line in (tmp_path / "perception/needle/fake/answers.jsonl").open("rb")]
    assert len(answers) == 44
    errors = [abs(a["guess"] - a["truth"]) / a["truth"] for a in answers if a["probe"] == "block_size" and a["guess"]]
    assert errors == [0.0] * 8
    shown = [orjson.loads(line) for line in (tmp_path / "perception/needle/fake/snapshots.jsonl").open("rb")]
    assert [each["tokens"] for each in shown] == [sum(words(b["text"]) for b in each["blocks"]) for each in shown]
    assert {path.suffix for path in tmp_path.glob("perception_needle.*")} == {".csv", ".md", ".tex"}


def test_every_call_is_unthinking_and_asks_for_the_json_of_its_question(transcripts: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    perception.probe(asked(engine), transcripts, settings(snapshots=1), tmp_path)
    assert len(engine.requests) == 22
    for request in engine.requests:
        assert (request.thinking, request.max_tokens, request.grammar) == (False, settings().reply_tokens, None)
        assert request.schema
        assert request.schema["additionalProperties"] is False


def test_answers_on_file_are_not_asked_for_again(transcripts: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    (first,) = perception.probe(asked(engine), transcripts, settings(snapshots=1), tmp_path)
    file = tmp_path / "perception/needle/fake/answers.jsonl"
    whole = file.read_bytes()
    again = FakeEngine(reads_the_dashboard, window=8000)
    (second,) = perception.probe(asked(again), transcripts, settings(snapshots=1), tmp_path)
    assert again.requests == []
    pd.testing.assert_frame_equal(first.data, second.data)
    file.write_bytes(whole[:-20])  # a torn last line is asked again
    perception.probe(asked(again), transcripts, settings(snapshots=1), tmp_path)
    assert len(again.requests) == 1
    assert len(file.read_bytes().splitlines()) == 22
    perception.probe(asked(again), transcripts, settings(snapshots=2), tmp_path)  # more of the same: only those
    assert len(again.requests) == 1 + 22
    # other words or another model are other questions
    other = settings(snapshots=1, system="Answer with JSON.")
    perception.probe(asked(again), transcripts, other, tmp_path)
    assert len(again.requests) == 1 + 22 + 22
    perception.probe(replace(asked(again), identity="other"), transcripts, settings(snapshots=1), tmp_path)
    assert len(again.requests) == 1 + 22 + 22 + 22


def test_a_question_that_broke_is_owed_and_the_others_are_kept(transcripts: Path, tmp_path: Path) -> None:
    broken = iter([True])

    def breaks_once(request: Request) -> str | Exception:
        return EngineError("no power") if next(broken, False) else reads_the_dashboard(request)

    engine = FakeEngine(breaks_once, window=8000)
    with pytest.raises(EngineError, match="1 of 22 questions: no power; run the same command again"):
        perception.probe(asked(engine), transcripts, settings(snapshots=1), tmp_path)
    assert not list(tmp_path.glob("perception_needle.*"))
    perception.probe(asked(engine), transcripts, settings(snapshots=1), tmp_path)
    assert len(engine.requests) == 22
    assert (tmp_path / "perception_needle.md").is_file()


def test_a_reply_cut_at_its_limit_is_unparsed(transcripts: Path, tmp_path: Path) -> None:
    engine = FakeEngine(lambda request: Reply('{"tokens": 1', "length", 9, 9, None, 0.0), window=8000)
    (sheet,) = perception.probe(asked(engine), transcripts, settings(snapshots=1), tmp_path)
    assert list(sheet.body["unparsed"])[:2] == ["11 of 11", "11 of 11"]
    assert list(sheet.body["total size: error"])[:2] == ["— (0)", "— (0)"]


def test_the_sheet_has_every_model_that_was_asked(transcripts: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    perception.probe(asked(engine), transcripts, settings(snapshots=1), tmp_path)
    (sheet,) = perception.probe(replace(asked(engine), model="second"), transcripts, settings(snapshots=1), tmp_path)
    assert list(dict.fromkeys(sheet.body["tokens of"])) == ["fake", "second"]
    assert sum(note.startswith(("fake: 1 of 1", "second: 1 of 1")) for note in sheet.notes) == 2


# --------------------------------------------------------------------------------------- bad input


def test_an_engine_without_a_model_is_refused(
    capsys: pytest.CaptureFixture[str], transcripts: Path, tmp_path: Path
) -> None:
    for words_ in ([], ["engine=mock"]):
        assert perception.main(["--runs", str(transcripts), "--tables", str(tmp_path), *words_]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"perception: engine={'mock' if words_ else 'scripted'}: has no model")
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_runs_that_will_not_do_are_one_line(transcripts: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no runs here"):
        perception.probe(asked(FakeEngine([], window=8000)), tmp_path, settings(), tmp_path)
    with pytest.raises(RuntimeError, match="no episode here will do: needle: 0 of 5 snapshots, no blocks"):
        perception.probe(asked(FakeEngine([], window=400)), transcripts, settings(), tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("snapshots", 0, "snapshots=0: must be a whole number of at least 1"),
        ("blocks_least", 4, "blocks_least=4: must be a whole number of at least 5"),
        ("pairs", 29, "pairs=29: must be a whole number from 1 to 28"),
        ("near", 1, "near=1: must be a number above 1"),
        ("ends_at", "archive", "ends_at=archive: must be a list of texts"),
        ("label", "$text", "label='$text': must be a text with exactly these places: $id, $text"),
        ("questions", {}, "questions.total_size=None"),
        ("paper", {}, "paper.total_size.without=None: must be two numbers"),
        ("dashboard", {"head": "x"}, "dashboard.head"),
    ],
)
def test_settings_that_will_not_do_are_one_line(key: str, value: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as fault:
        settings(**{key: value})
    assert complaint in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_settings_file_has_exactly_its_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "probe.yaml"
    file.write_text("snapshots: 3\n")
    assert perception.main(["--settings", str(file)]) == 2
    assert "must have exactly these keys: snapshots, blocks_least" in capsys.readouterr().err
    assert perception.main(["--settings", str(tmp_path / "none.yaml")]) == 2
    assert perception.main(["--snapshots", "0"]) == 2
    assert Settings.read(COMMITTED, snapshots=29).snapshots == 29


@pytest.mark.parametrize(
    ("words_", "complaint"),
    [
        (["engine=abacus"], "engine=abacus: must be one of mock, replay, scripted, server, vllm"),
        (["enginee=vllm"], "enginee=vllm: there is no such key"),
        (["seed=-1"], "seed=-1: must be a whole number of at least 0"),
        (["engine=vllm", "model=scripted"], "not a language model"),
        (["experiment=a,b"], "one experiment at a time"),
        (["budget.completion_tokens=99999"], "budget.completion_tokens=99999: must be smaller than"),
    ],
)
def test_make_engine_complains_in_one_line(words_: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError) as fault:
        make_engine(words_)
    assert complaint in str(fault.value)
    assert "\n" not in str(fault.value)


def test_make_engine_gives_the_engine_that_the_overrides_choose() -> None:
    engine, config = make_engine(["engine=mock", "model=scripted", "budget=tiny"])
    assert (engine.id, engine.model) == ("mock", "scripted")
    assert config["budget"]["window_tokens"] == 2048
    assert engine.count_text("one two three") == 3


def test_the_model_is_asked_greedily_unless_told_otherwise() -> None:
    for words_, temperature in (([], 0.0), (["model.sampling.no_thinking.temperature=0.7"], 0.7)):
        _, config = make_engine([*settings().overrides, "model=qwen3-8b", "engine=mock", *words_])
        assert config["engine"]["model"]["sampling"]["no_thinking"]["temperature"] == temperature


def test_the_papers_ranges_are_those_of_its_table() -> None:
    if not TABLE5.is_file():
        pytest.skip(f"no {TABLE5}")
    found: dict[tuple[str, str], list[float]] = {}
    with TABLE5.open() as file:
        for row in csv.DictReader(file):
            found.setdefault((row["probe"], row["dashboard"]), []).append(float(row["value"]))
    assert len(found) == 6
    for (probe, shown), values in found.items():
        assert list(settings().paper[probe][shown]) == [min(values), max(values)]  # type: ignore[index]


def test_the_tests_own_snapshots_are_messages_of_their_roles() -> None:
    _, asks, _ = asks_of(EIGHT)
    assert [message.role for message in asks[0].messages] == ["system", *["user", "assistant"] * 4, "user"]
    assert asks[0].messages[2] == Message("assistant", f"[B2]\n{'r ' * 3}")
