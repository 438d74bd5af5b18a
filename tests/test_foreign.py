"""Logs that the other suites wrote themselves (tests/data/README.md says how)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from analysis.foreign import INSPECT, LM_EVAL, Choice, read
from arcbench.types import ConfigError

DATA = Path(__file__).parent / "data"
NOTHING = Choice()


def correct(path: Path, choice: Choice = NOTHING) -> dict[tuple[str, int], bool | None]:
    return {(sample.id, sample.epoch): sample.correct for sample in read(path, choice).samples}


def rewritten(name: str, folder: Path, change: Any) -> Path:
    """A copy of a JSON log with something changed in its first sample."""
    log = json.loads((DATA / name).read_text("utf-8"))
    change(log["samples"][0])
    path = folder / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    return path


def relined(name: str, folder: Path, change: Any) -> Path:
    """A copy of a samples file with something changed in its first line."""
    lines = [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]
    change(lines[0])
    path = folder / "samples_x_2026.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


# ------------------------------------------------------------------------------------------ Inspect


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("inspect_zstandard.eval", {(1, 0), (1, 1), (1, 2), (1, 3), (1, 5), (2, 0), (2, 2)}),
        ("inspect_deflate.eval", {(1, 0), (1, 1), (2, 0), (2, 3)}),
    ],
)
def test_inspect_logs_of_both_compressions(name: str, right: set[tuple[int, int]]) -> None:
    log = read(DATA / name, NOTHING)
    assert (log.suite, log.score, log.notes) == (INSPECT, "match", ())
    names = {i: f"item/{i}" if i == 4 else f"item-{i}" for i in range(6)}
    expected = {(names[i], epoch): (epoch, i) in right for i in range(6) for epoch in (1, 2)}
    assert correct(DATA / name) == expected
    assert all(sample.completed for sample in log.samples)


def test_the_compressions_are_what_their_names_say() -> None:
    for name, compression in (("inspect_zstandard.eval", 93), ("inspect_deflate.eval", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(DATA / name) as archive:
            assert {entry.compress_type for entry in archive.infolist()} == {compression}


def test_a_sample_that_broke_has_no_outcome() -> None:
    log = read(DATA / "inspect_one_error.json", NOTHING)
    broken = [sample for sample in log.samples if sample.correct is None]
    assert [(sample.id, sample.completed) for sample in broken] == [("item-5", False)]
    assert sum(sample.correct or False for sample in log.samples) == 3


def test_several_scorers_must_be_told_apart() -> None:
    path = DATA / "inspect_two_scorers.eval"
    with pytest.raises(ConfigError, match="has more than one score; name one with --score: includes, match$"):
        read(path, NOTHING)
    with pytest.raises(ConfigError, match="^--score f1: not in .*; name one with --score: includes, match$"):
        read(path, Choice(score="f1"))
    assert sum(filter(None, correct(path, Choice(score="includes")).values())) == 2


def test_an_unknown_compressed_entry_that_was_damaged_is_refused(tmp_path: Path) -> None:
    content = bytearray((DATA / "inspect_zstandard.eval").read_bytes())
    content[5000] ^= 0xFF
    path = tmp_path / "damaged.eval"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="damaged, or no Inspect log"):
        read(path, NOTHING)
    path.write_bytes(content[:9000])
    with pytest.raises(ConfigError, match="damaged, or no Inspect log"):
        read(path, NOTHING)


@pytest.mark.parametrize(
    ("value", "choice", "expected"),
    [
        ("C", NOTHING, True),
        ("I", NOTHING, False),
        ("N", NOTHING, False),
        (1, NOTHING, True),
        (0.0, NOTHING, False),
        (True, NOTHING, True),
        ("yes", NOTHING, True),
        ("P", Choice(threshold=0.5), True),
        (0.37, Choice(threshold=0.5), False),
        (float("nan"), NOTHING, None),  # Inspect's mark for not scored
    ],
)
def test_the_values_of_a_score(tmp_path: Path, value: Any, choice: Choice, expected: bool | None) -> None:
    path = rewritten("inspect_one_error.json", tmp_path, lambda s: s["scores"]["match"].update(value=value))
    assert read(path, choice).samples[0].correct is expected


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("P", "sample item-0 has the score P, neither 0 nor 1; say from where on it is correct with --threshold"),
        (0.37, "sample item-0 has the score 0.37, neither 0 nor 1"),
        ([1, 0], r"sample item-0 has the score \[1, 0\], which is no outcome"),
        ("good", "sample item-0 has the score 'good', which is no outcome"),
    ],
)
def test_a_value_that_is_no_outcome_is_refused(tmp_path: Path, value: Any, complaint: str) -> None:
    path = rewritten("inspect_one_error.json", tmp_path, lambda s: s["scores"]["match"].update(value=value))
    with pytest.raises(ConfigError, match=complaint):
        read(path, NOTHING)


def test_a_value_with_keys_is_several_scores(tmp_path: Path) -> None:
    path = rewritten(
        "inspect_one_error.json", tmp_path, lambda s: s["scores"].update(match={"value": {"em": "I", "f1": 0.4}})
    )
    with pytest.raises(ConfigError, match="match, match/em, match/f1"):
        read(path, NOTHING)
    assert read(path, Choice(score="match/em")).samples[0].correct is False


def test_completion_is_no_limit_and_an_answer(tmp_path: Path) -> None:
    path = rewritten("inspect_one_error.json", tmp_path, lambda s: s.update(limit={"type": "token", "limit": 9}))
    assert read(path, NOTHING).samples[0].completed is False
    path = rewritten("inspect_one_error.json", tmp_path, lambda s: s["scores"]["match"].update(value="N"))
    assert read(path, NOTHING).samples[0].completed is False


def test_clusters_come_from_the_metadata(tmp_path: Path) -> None:
    log = json.loads((DATA / "inspect_one_error.json").read_text("utf-8"))
    for i, sample in enumerate(log["samples"]):
        sample["metadata"] = {"document": i // 2}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    samples = read(path, Choice(cluster_by="document")).samples
    assert [sample.cluster for sample in samples] == ["0", "0", "1", "1", "2", "2"]
    with pytest.raises(
        ConfigError, match="^--cluster-by source: sample item-0 of .* does not have it; it has document"
    ):
        read(path, Choice(cluster_by="source"))


def test_an_evaluation_that_did_not_end_well_says_so(tmp_path: Path) -> None:
    log = json.loads((DATA / "inspect_one_error.json").read_text("utf-8"))
    log["status"] = "cancelled"
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    assert read(path, NOTHING).notes == (f"{path}: the evaluation ended with status cancelled.",)


# ------------------------------------------------------------------------------------------ lm_eval


def test_lm_eval_samples_by_metric() -> None:
    path = DATA / "samples_first.jsonl"
    with pytest.raises(ConfigError, match="more than one score; name one with --score: acc, acc_norm"):
        read(path, NOTHING)
    log = read(path, Choice(score="acc"))
    assert (log.suite, log.score) == (LM_EVAL, "acc")
    # the table that lm_eval printed for this run: acc 0.6667, acc_norm 0.8333
    assert sum(sample.correct or False for sample in log.samples) == 4
    assert sum(filter(None, correct(path, Choice(score="acc_norm")).values())) == 5
    assert [sample.id for sample in log.samples] == ["0", "1", "2", "3", "4", "5"]


def test_lm_eval_filters_must_be_told_apart() -> None:
    path = DATA / "samples_filters.jsonl"
    with pytest.raises(
        ConfigError, match="more than one filter; name one with --filter: flexible-extract, strict-match"
    ):
        read(path, NOTHING)
    strict = correct(path, Choice(filter="strict-match"))
    flexible = correct(path, Choice(filter="flexible-extract"))
    assert [key[0] for key, ok in strict.items() if ok] == ["1", "3", "5"]
    assert [key[0] for key, ok in flexible.items() if ok] == ["0", "2", "4"]


def test_what_a_filter_could_not_find_is_not_completed(tmp_path: Path) -> None:
    path = relined("samples_filters.jsonl", tmp_path, lambda line: line.update(filtered_resps=["[invalid]"]))
    samples = read(path, Choice(filter="strict-match")).samples
    assert [sample.completed for sample in samples] == [False, True, True, True, True, True]


def test_older_samples_list_no_metrics_and_no_filter(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (DATA / "samples_first.jsonl").read_text("utf-8").splitlines()]
    for line in lines:
        del line["metrics"], line["filter"], line["acc_norm"]
    path = tmp_path / "samples_x.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert read(path, NOTHING).score == "acc"


def test_clusters_come_from_the_document() -> None:
    samples = read(DATA / "samples_first.jsonl", Choice(score="acc", cluster_by="gold")).samples
    assert [sample.cluster for sample in samples] == ["0", "1", "2", "3", "0", "1"]
    with pytest.raises(ConfigError, match="--cluster-by page: sample 0 .* it has question, answer, gold"):
        read(DATA / "samples_first.jsonl", Choice(score="acc", cluster_by="page"))


# ------------------------------------------------------------------------------------------- others


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("x.csv", b"a,b\n", r"not a log that can be read; allowed: \.eval, \.json, \.jsonl"),
        ("x.eval", b"no zip", "damaged, or no Inspect log"),
        ("x.json", b"{", "damaged, not JSON"),
        ("x.json", b"{}", "not an Inspect log: no entry eval"),
        ("x.json", b'{"eval": {"task": "t"}, "samples": null}', "no sample has a score"),
        ("x.json", b'{"eval": {"task": "t"}, "samples": [{"scores": {"m": {"value": 1}}}]}', "not an Inspect log"),
        ("x.jsonl", b'{"doc_id": 0', "line 1 is damaged, not JSON"),
        ("x.jsonl", b'{"text": "hi"}\n', "line 1 was not written by lm_eval with --log_samples: no doc_id"),
        ("x.jsonl", b'{"doc_id": 0, "acc": 1.0}\n', "not written by lm_eval with --log_samples"),
        ("x.jsonl", b"", "no sample has a filter"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint) as refused:
        read(path, NOTHING)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
