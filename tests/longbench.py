"""LongBench-v2 rows that tests make, files of them, and the shipped harness on such a file."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import orjson
import pytest
from fakes import compose
from hydra.utils import instantiate

from harness.longbench_v2 import LongBench

SHARED = Path(__file__).resolve().parents[2] / "shared" / "longbench_v2"
CONTEXT = "".join(f"line {i} of a document about ferries\n" for i in range(600))


def row(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A sound hard row."""
    return {
        "_id": f"row{number}",
        "domain": "Single-Document QA",
        "sub_domain": "Academic",
        "difficulty": "hard",
        "length": "short",
        "question": f"Which boat is number {number}?",
        "choice_A": "the red tug",
        "choice_B": "the blue ferry",
        "choice_C": "the white yacht",
        "choice_D": "the old barge",
        "answer": "ABCD"[number % 4],
        "context": CONTEXT,
    } | changes


def written(folder: Path, *rows: Any, name: str = "rows.jsonl") -> str:
    """A file of rows (an object, or a line as it stands)."""
    lines = b"\n".join(each if isinstance(each, bytes) else orjson.dumps(each) for each in rows) + b"\n"
    path = folder / name
    path.write_bytes(lzma.compress(lines) if name.endswith(".xz") else lines)
    return str(path)


def config(data: str, *words: str, harness: str = "longbench_v2_hard") -> dict[str, Any]:
    """The resolved config of a command line on this file."""
    return compose(f"harness={harness}", f"harness.data_files='{data}'", *words)


def made(data: str, *words: str, harness: str = "longbench_v2_hard") -> LongBench:
    """The harness as shipped, on this file; what its constructor raises."""
    try:
        built = instantiate(config(data, *words, harness=harness)["harness"])
    except Exception as fault:  # Hydra wraps it
        raise fault.__cause__ or fault from None
    assert isinstance(built, LongBench)
    return built


def shared(name: str) -> str:
    """A file of real rows; skips the test where it is not there."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"no {name}: LongBench-v2 rows are not part of this repository")
    return str(path)
