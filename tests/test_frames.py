"""What is kept of the records: never stale, never needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from bench import budget
from fakes import FakeEngine, FakeHarness, Keeps, played, run, setup, task
from pandas.testing import assert_frame_equal
from recorded import record_run

from analysis import frames
from arcbench import records
from arcbench.records import EPISODES, RUN_COLUMNS, Frames, Part, Run, RunFolder, repair, runs_below
from arcbench.types import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of three episodes, each with calls and compactions."""
    odd = FakeHarness(answer=lambda command, mounts: "\u2028\x85 \x00")
    limits = budget(999, 50, force_at_calls=(2,))
    cell = setup(FakeEngine([run("look"), run("submit 42")], window=999), Keeps, limits, odd)
    manifest = dict.fromkeys(RUN_COLUMNS[1:]) | {"harness": "fake", "method": "keeps", "planned": 3, "seed": 7}
    with RunFolder(tmp_path / "run", {"seed": 7}, ignored=()) as opened:
        opened.write_manifest(manifest)
        for i in range(3):
            opened.append(played(task(i), cell))
    return tmp_path / "run"


class Counted:
    """A part that knows how many records it was read from."""

    def __init__(self) -> None:
        self.n = 0
        self.part = Part("counted", ("task", "turns"), self.rows)

    def rows(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        self.n += 1
        yield {"task": record["task"], "turns": len(record["turns"])}


def only_run(folder: Path) -> Run:
    (found,) = runs_below(folder)
    return found


def assert_same(ours: Frames, theirs: Frames) -> None:
    for name in ("runs", "episodes", "calls", "compactions"):
        assert_frame_equal(getattr(ours, name), getattr(theirs, name))


def test_the_frames_are_those_of_the_records_read_anew_and_kept(folder: Path) -> None:
    plain = records.load(folder)
    assert len(plain.calls) == 6
    assert_same(frames.load(folder), plain)
    assert sorted(path.name for path in (folder / ".frames").iterdir()) == [
        "calls.parquet",
        "compactions.parquet",
        "episodes.parquet",
    ]
    assert_same(frames.load(folder), plain)


def test_an_unchanged_run_is_not_read_again(folder: Path) -> None:
    counted = Counted()
    first = frames.take(only_run(folder), [counted.part])
    assert first == {"counted": {"task": ["fake/0", "fake/1", "fake/2"], "turns": [2, 2, 2]}}
    assert counted.n == 3
    assert frames.take(only_run(folder), [counted.part]) == first
    assert counted.n == 3
    # a copy elsewhere brings what is kept along
    folder.rename(folder.parent / "moved")
    frames.take(only_run(folder.parent / "moved"), [counted.part])
    assert counted.n == 3


def lines(folder: Path) -> list[bytes]:
    return (folder / EPISODES).read_bytes().splitlines(keepends=True)


def appended(folder: Path) -> None:
    last = orjson.loads(lines(folder)[-1])
    with (folder / EPISODES).open("ab") as file:
        file.write(orjson.dumps(last | {"task": "fake/3"}) + b"\n")


def repaired(folder: Path) -> None:
    whole = (folder / EPISODES).read_bytes()
    (folder / EPISODES).write_bytes(whole[:-5])
    repair(folder / EPISODES)


def replaced_in_the_same_moment(folder: Path) -> None:
    """Same size, same times, another outcome in the middle."""
    file = folder / EPISODES
    before = file.stat()
    first, second, third = lines(folder)
    other = second.replace(b'"outcome":"correct"', b'"outcome":"correcT"')
    assert other != second
    file.write_bytes(first + other + third)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def removed(folder: Path) -> None:
    (folder / EPISODES).unlink()


@pytest.mark.parametrize("change", [appended, repaired, replaced_in_the_same_moment, removed])
def test_a_changed_file_never_gives_old_frames(folder: Path, change: Callable[[Path], None]) -> None:
    old = frames.load(folder)
    change(folder)
    new = records.load(folder)
    assert not new.episodes.equals(old.episodes)
    assert_same(frames.load(folder), new)
    assert_same(frames.load(folder), new)


def test_what_is_kept_by_other_code_is_not_used(folder: Path) -> None:
    """The key ends with the hash of the source."""
    counted = Counted()
    frames.take(only_run(folder), [counted.part])
    file = folder / ".frames" / "counted.parquet"
    table = pq.read_table(file)
    (name,) = table.schema.metadata
    older = table.schema.metadata[name].rpartition(b" ")[0] + b" another"
    pq.write_table(table.replace_schema_metadata({name: older}), file)
    frames.take(only_run(folder), [counted.part])
    assert counted.n == 6


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("damage", [truncated, lambda content: b"", lambda content: b"PAR1 no PAR1"])
def test_a_damaged_file_is_made_anew(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    plain = frames.load(folder)
    file = folder / ".frames" / "episodes.parquet"
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert_same(frames.load(folder), plain)
    assert file.read_bytes() == whole


def test_a_single_bit_off_is_damage(folder: Path) -> None:
    """Wherever it is: it is found, or it is where nothing is said."""
    run_ = only_run(folder)
    first = frames.take(run_, records.PARTS)
    file = folder / ".frames" / "episodes.parquet"
    whole = file.read_bytes()
    for at in range(0, len(whole), 29):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert frames.take(run_, records.PARTS) == first, at


def test_a_folder_that_cannot_be_written_costs_time_only(folder: Path) -> None:
    (folder / ".frames").write_text("in the way")
    plain = records.load(folder)
    assert_same(frames.load(folder), plain)
    assert_same(frames.load(folder), plain)


@pytest.mark.parametrize("values", [[1, "one"], [2**70, 1], [{"a": 1}, {"b": 1}], [[1], []], ["\ud800", "x"]])
def test_values_that_make_no_column_are_not_kept(folder: Path, values: list[Any]) -> None:
    mixed = Part("mixed", ("task", "x"), lambda record: [{"task": "a", "x": value} for value in values])
    for _ in range(2):
        assert frames.take(only_run(folder), [mixed])["mixed"]["x"] == values * 3
    assert list((folder / ".frames").iterdir()) == []


def test_a_run_that_is_being_written_is_not_kept(folder: Path) -> None:
    def rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
        if record["task"] == "fake/0":
            appended(folder)
        return [{"task": record["task"]}]

    writing = Part("writing", ("task",), rows)
    assert frames.take(only_run(folder), [writing])["writing"]["task"] == [f"fake/{i}" for i in range(4)]
    assert not (folder / ".frames").exists()


def test_runs_of_two_protocols_are_refused_with_their_folders(tmp_path: Path) -> None:
    record_run(tmp_path, "cc")
    record_run(tmp_path, "cc", method="vista", protocol=2)
    with pytest.raises(
        ConfigError, match=r"^needle: runs of 2 protocols .*\(1 in .*/arc/42, 2 in .*/vista/42\); run one of them again"
    ):
        frames.load(tmp_path)
    assert len(frames.load(tmp_path / "arc").episodes) == 2
    record_run(tmp_path / "b", "cc", method="vista", protocol=2, harness="other")
    record_run(tmp_path / "b", "cc")
    assert len(frames.load(tmp_path / "b").episodes) == 4
