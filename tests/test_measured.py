"""Predicted and measured time: hand-made records in, numbers worked out by hand out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recorded import record_run

from analysis import measured

CALLS = [(15884, 1001)]
TOKEN_BYTES = 16.38e9 / 51 + 16384 * 147456
PREFILL_S = 2 * 6.95e9 * 15884 / 989e12


def play(tmp_path: Path, letters: str = "cc", *, sessions: list[dict[str, Any]] | None = None, **given: Any) -> None:
    sessions = sessions or [{"engine": {"device": "NVIDIA H200"}, "played_s": 4.0}]
    config = {"model": {"dtype": "bfloat16"}, "engine": {"concurrency": 10, "tensor_parallel_size": 1}}
    record_run(tmp_path / "runs", letters, config=config, calls=CALLS, sessions=sessions, **given)


def table(tmp_path: Path, *args: str) -> pd.DataFrame:
    assert measured.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), *args]) == 0
    return pd.read_csv(tmp_path / "tables" / "measured_needle.csv")


def test_both_predictions_by_hand(tmp_path):
    play(tmp_path)
    row = table(tmp_path).iloc[0]
    room = 2 * 1001 * TOKEN_BYTES / 4.8e12
    run = 2 * 1001 * (16.38e9 / 10 + 16384 * 147456) / 4.8e12  # ten together, as the engine was let run
    assert (row["device"], row["prefill"], row["n_episodes"], row["measured_s"]) == ("h200", "uncached", 2, 4.0)
    assert row["prefill_s"] == pytest.approx(2 * PREFILL_S, abs=1e-6)
    assert row["decode_room_s"] == pytest.approx(room, abs=1e-6)
    assert row["decode_run_s"] == pytest.approx(run, abs=1e-6)
    assert row["times_run"] == pytest.approx(4 / (run + 2 * PREFILL_S), abs=1e-6)


def test_sessions_add_up(tmp_path):
    engine = {"device": "NVIDIA H200"}
    play(tmp_path, sessions=[{"engine": engine, "played_s": 1.5}, {"engine": engine, "played_s": 2.0}])
    assert table(tmp_path).iloc[0]["measured_s"] == 3.5


@pytest.mark.parametrize(
    "sessions",
    [
        [{"engine": {"device": "NVIDIA H200"}}],  # killed
        [{"engine": {"device": "NVIDIA L4"}, "played_s": 1.0}],
        [{"engine": {"device": d}, "played_s": 1.0} for d in ("NVIDIA H200", "AMD Instinct MI300X")],
    ],
)
def test_what_was_not_measured_on_one_known_device_is_in_no_row(tmp_path, capsys, sessions):
    play(tmp_path, sessions=sessions)
    assert measured.main(["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables")]) == 2
    error = capsys.readouterr().err
    assert "no run with recorded time on a device that is known (H200, MI300X)" in error
    assert error.count("\n") == 1


def test_another_device_is_known_by_its_file(tmp_path):
    play(tmp_path, sessions=[{"engine": {"device": "some CPU"}, "played_s": 1.0}])
    file = tmp_path / "cpu.yaml"
    file.write_text(
        "id: cpu\ndevice: some CPU\nhbm_bytes: 141.0e+9\nbandwidth_bytes_per_s: 4.8e+10\npeak_flop_per_s: 9.89e+12\n"
        "source: made up\n"
    )
    row = table(tmp_path, "--hardware", str(file)).iloc[0]
    assert row["device"] == "cpu"
    assert row["decode_room_s"] == pytest.approx(200 * 1001 * TOKEN_BYTES / 4.8e12, abs=1e-5)


def test_a_bad_device_file_gets_one_line(tmp_path, capsys):
    play(tmp_path)
    file = tmp_path / "cpu.yaml"
    file.write_text("id: cpu\n")
    args = ["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), "--hardware", str(file)]
    assert measured.main(args) == 2
    assert "device is missing" in capsys.readouterr().err
