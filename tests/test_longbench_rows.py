"""Reading LongBench-v2 rows: what is checked, what it costs, what a document may hold."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from longbench import CONTEXT, made, row, shared, written

from arcbench.text import restore
from arcbench.types import ConfigError
from harness.longbench_rows import COLUMNS, check, chunk_bounds, from_file, from_hub

ROOT = Path(__file__).resolve().parent.parent


def fault(folder: Path, *rows: object, name: str = "rows.jsonl") -> str:
    path = written(folder, *rows, name=name)
    with pytest.raises(ConfigError) as caught:
        from_file(path)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"harness.data_files={path}: ")
    return said.removeprefix(f"harness.data_files={path}: ")


def without(column: str) -> dict[str, str]:
    return {name: value for name, value in row().items() if name != column}


def test_the_hard_rows_are_kept_in_order_and_the_easy_ones_counted(tmp_path):
    rows = from_file(written(tmp_path, row(0), row(1, difficulty="easy"), b"", row(2, domain="Code")))
    assert [(r.index, r.id, r.domain, r.answer) for r in rows.hard] == [
        (0, "row0", "Single-Document QA", "A"),
        (1, "row2", "Code", "C"),
    ]
    assert rows.read == 3
    assert rows.hard[0].text() == CONTEXT
    assert rows.hard[0].choices == ("the red tug", "the blue ferry", "the white yacht", "the old barge")
    assert (rows.hard[0].chars, rows.hard[0].lines) == (len(CONTEXT), 600)
    assert rows.hard[0].context_sha256 == hashlib.sha256(CONTEXT.encode()).hexdigest()


def test_the_hash_is_of_the_content_however_it_is_packed(tmp_path):
    plain = from_file(written(tmp_path, row(0), row(1)))
    packed = from_file(written(tmp_path, row(0), row(1), name="rows.jsonl.xz"))
    turned = {name: row(1)[name] for name in reversed(COLUMNS)} | {"extra": "ignored"}
    other = from_file(written(tmp_path, orjson.dumps(turned), json.dumps(row(0)).encode(), name="other.jsonl"))
    assert plain.sha256 == packed.sha256 == other.sha256
    for changes in ({"context": CONTEXT + " "}, {"answer": "D"}, {"choice_B": "the ferry"}):
        assert from_file(written(tmp_path, row(0, **changes), row(1), name="changed.jsonl")).sha256 != plain.sha256


def test_a_file_is_read_once_while_it_stays_as_it_is(tmp_path):
    path = written(tmp_path, row(0))
    assert from_file(path) is from_file(path)
    written(tmp_path, row(0), row(1))
    assert len(from_file(path).hard) == 2


def test_rows_of_one_context_share_it(tmp_path):
    rows = from_file(written(tmp_path, row(0), row(1), row(2, context="another")))
    assert rows.hard[0].context is rows.hard[1].context
    assert rows.describe()["distinct_contexts"] == 2


def test_the_description_says_what_is_there_and_what_is_missing(tmp_path):
    known = "66f3ad93821e116aacb2e29f"
    about = from_file(written(tmp_path, row(0, _id=known), row(1), row(5, difficulty="easy"))).describe()
    assert (about["rows_read"], about["rows_hard"], about["rows_of_benchmark"]) == (3, 2, 311)
    assert len(about["missing"]) == 310
    assert known not in about["missing"]
    assert about["not_of_benchmark"] == 1
    assert about["answers"] == {"A": 1, "B": 1, "C": 0, "D": 0}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"answer": "E"}, "answer='E': must be one of A, B, C, D"),
        ({"answer": "b"}, "answer='b': must be one of A, B, C, D"),
        ({"answer": ""}, "answer='': must be one of A, B, C, D"),
        ({"context": ""}, "context is empty"),
        ({"context": " \n\t "}, "context is empty"),
        ({"question": " "}, "question is empty"),
        ({"choice_C": ""}, "choice_C is empty"),
        ({"context": None}, "context must be a text, not NoneType"),
        ({"choice_A": 7}, "choice_A must be a text, not int"),
        ({"difficulty": "Hard"}, "difficulty='Hard': must be one of easy, hard"),
        ({"length": "huge"}, "length='huge': must be one of short, medium, long"),
        ({"difficulty": "easy", "answer": "E"}, "answer='E': must be one of A, B, C, D"),
    ],
)
def test_a_fault_of_a_row_is_one_line_that_names_the_row(tmp_path, changes, says):
    assert fault(tmp_path, row(0), row(1, **changes)) == f"line 2 (_id row1): {says}"


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named(tmp_path, column):
    where = "line 1" if column == "_id" else "line 1 (_id row0)"
    assert fault(tmp_path, without(column)).startswith(f"{where}: no column {column}; there must be _id, domain")


def test_an_id_may_stand_only_once_also_among_the_easy_rows(tmp_path):
    twice = fault(tmp_path, row(0), b"", row(0, difficulty="easy"))
    assert twice == "line 3 (_id row0): this _id stands in line 1 already"


@pytest.mark.parametrize("line", [b'{"_id": "x', b"\xff\xfe", b"[" * 100_000, b'{"a": }', b'{"a": "\xff"}'])
def test_a_broken_line_is_named(tmp_path, line):
    assert fault(tmp_path, row(0), line).startswith("line 2: not JSON (")


def test_a_line_that_is_no_object_is_named(tmp_path):
    assert fault(tmp_path, [1, 2]).startswith("line 1: must be an object with the columns _id,")


def test_a_file_without_hard_rows_is_refused(tmp_path):
    assert fault(tmp_path, row(0, difficulty="easy")) == "none of its 1 rows has difficulty hard"
    assert fault(tmp_path, b"") == "none of its 0 rows has difficulty hard"


def test_a_packed_file_that_is_damaged_or_cut_is_refused(tmp_path):
    path = Path(written(tmp_path, *(row(i) for i in range(9)), name="rows.jsonl.xz"))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"no archive", whole[:-40] + bytes(40)):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"rows\.jsonl\.xz: line \d+: damaged or cut short \("):
            from_file(str(path))


@pytest.mark.parametrize("path", ["rows.json", "rows.jsonl.gz", "", 7])
def test_another_kind_of_file_is_refused(path):
    with pytest.raises(ConfigError, match="must be a .jsonl or .jsonl.xz file, or null for the hub"):
        from_file(path)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"harness\.data_files=.*none\.jsonl: cannot be read \(No such file"):
        from_file(str(tmp_path / "none.jsonl"))
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)"):
        from_file(str(tmp_path / "folder.jsonl"))


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbf" + orjson.dumps(row(0)) + b"\r", orjson.dumps(row(1)) + b"\r")
    assert [r.id for r in from_file(path).hard] == ["row0", "row1"]


def test_the_hub_is_read_with_the_package_datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "repo").mkdir()
    path = written(tmp_path / "repo", row(0), row(1, difficulty="easy"), row(2))
    rows = from_hub(str(tmp_path / "repo"), "any", "train")  # a local folder is a repository to it
    assert [each.id for each in rows.hard] == ["row0", "row2"]
    assert (rows.read, rows.sha256) == (3, from_file(path).sha256)


def test_a_hub_out_of_reach_is_one_line_that_says_how_to_get_a_file(tmp_path):
    code = f"from harness.longbench_rows import from_hub; from_hub('{tmp_path}/none', '2b48e49', 'train')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
                          env={**os.environ, "HF_HUB_OFFLINE": "1"})  # fmt: skip
    said = done.stderr.strip().rpartition("\n")[2]
    assert said.startswith(f"arcbench.types.ConfigError: harness.hub_id={tmp_path}/none: cannot be loaded (")
    assert said.endswith("run: make longbench-data, then give harness.data_files=data/longbench_v2.jsonl")


def test_rows_of_any_source_are_checked_alike():
    assert len(check("harness.hub_id=x", "row", [(1, row(0)), (2, row(1))]).hard) == 2
    with pytest.raises(ConfigError, match=r"^harness\.hub_id=x: row 2 \(_id row1\): context is empty$"):
        check("harness.hub_id=x", "row", [(1, row(0)), (2, row(1, context=""))])


# -------------------------------------------------------------------------------- odd documents

ODD = {
    "nul": "before\x00after\x00\n" * 900,
    "right to left": "שלום עולם\n\u202eمرحبا\u202c\n" * 700,
    "mixed line ends": "one\r\ntwo\rthree\nfour\u2028five\x85six\x0bseven\r\n" * 300,
    "surrogates": "a\\b\ud83d lone \udc00\n" * 800,
    "emoji": "📥 letter e\u0301\ufe0f\n" * 900,
    "one line": "x1" * 40_000,
    "one line end": "\n",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_document_is_read_as_it_is(tmp_path, text):
    if not text.strip():
        text = "a" + text
    [read] = from_file(written(tmp_path, json.dumps(row(0, context=text)).encode())).hard
    assert read.escaped == any("\ud800" <= c <= "\udfff" for c in text)
    assert (restore(read.text()) if read.escaped else read.text()) == text
    bounds = read.bounds(6000)
    assert "".join(read.text()[a:b] for a, b in pairwise(bounds)) == read.text()


@given(st.text(alphabet="ab\n\r", max_size=60), st.integers(1, 9))
def test_chunks_are_exact_slices_that_end_at_line_ends_where_there_are_any(text, most):
    bounds = list(chunk_bounds(text, most))
    assert bounds[0] == 0
    assert bounds[-1] == len(text)
    for start, end in pairwise(bounds):
        assert 0 < end - start <= most
        if end < len(text):
            assert text[end - 1] == "\n" or (end - start == most and "\n" not in text[start:end])


# ------------------------------------------------------------------------------- the real rows


def test_the_24_rows_are_what_their_readme_says():
    rows = from_file(shared("longbench_v2_24.jsonl"))
    assert (rows.read, len(rows.hard)) == (24, 24)
    assert rows.sha256 == "854c3c404b8fea8b6424ba2a23128639650065fd57f33bf42abf6e1f90a2d2f7"
    about = rows.describe()
    assert (len(about["missing"]), about["not_of_benchmark"]) == (287, 0)
    [graph] = [r for r in rows.hard if r.sub_domain == "Knowledge graph reasoning"]
    assert (graph.chars, graph.lines, len(graph.bounds(6000)) - 1) == (416_747, 1, 70)


def test_the_index_has_the_ids_that_are_known_and_the_hashes_that_are_computed():
    index = [orjson.loads(line) for line in Path(shared("longbench_v2_index.jsonl")).read_bytes().splitlines()]
    hashes = {r["_id"]: r["context_sha256"] for r in index if r["difficulty"] == "hard"}
    rows = from_file(shared("longbench_v2_24.jsonl"))
    assert all(hashes[r.id] == r.context_sha256 for r in rows.hard)
    assert set(rows.describe()["missing"]) == set(hashes) - {r.id for r in rows.hard}


def test_memory_is_proportional_to_the_text(tmp_path):
    """A document with one character beyond the usual is not held at four bytes a character."""
    [read] = from_file(written(tmp_path, row(0, context="📥" + "plain text " * 10_000))).hard
    assert sys.getsizeof(read.context) < 1.01 * len(read.text())
    assert sys.getsizeof(read.text()) > 3.9 * len(read.text())


def test_the_same_rows_whatever_was_asked_for_before(tmp_path):
    path = written(tmp_path, row(0), row(1))
    assert made(path).rows is made(path, "harness.order=shortest", "seed=7").rows
