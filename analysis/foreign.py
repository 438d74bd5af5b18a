"""Logs of other suites as paired outcomes: Inspect logs (``.eval``, ``.json``) and lm-evaluation-harness samples
(``.jsonl``, written with ``--log_samples``).

Read from the files alone; neither suite need be installed. A sample is *correct* by the score that its suite gave,
*completed* when it was neither cut by a limit nor left without an answer, and has no outcome when it broke.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from arcbench.types import ConfigError, Json

SUFFIXES = (".eval", ".json", ".jsonl")
INSPECT, LM_EVAL = "inspect_ai", "lm_eval"
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)  # an id may hold a slash
_ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a zip entry: at its end the lengths of name and extra field
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_NO_ANSWER = "N"  # Inspect's score for it
_INVALID = "[invalid]"  # what lm_eval's extraction filters give when nothing was found
# what a line of lm_eval's samples holds beside its metrics
_LM_EVAL_FIELDS = frozenset(
    (
        "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
        "doc_hash", "prompt_hash", "target_hash",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One scored sample. ``correct`` is ``None`` when there is no outcome (it broke, or was not scored);
    ``fingerprint`` tells whether two logs mean the same thing by one id ("" where it cannot be told)."""

    id: str
    epoch: int
    correct: bool | None
    completed: bool
    cluster: str | None
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log: which suite wrote it, which of its scores was read, and the samples."""

    path: Path
    suite: str
    task: str
    score: str
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to read of a log where it leaves a choice. ``score``: the name of Inspect's scorer (``scorer/key`` when
    its value has keys) or of lm_eval's metric; ``filter``: lm_eval's filter; ``threshold``: scores from here on are
    correct, needed where they are not all 0 or 1; ``cluster_by``: field of the sample's metadata (Inspect) or
    document (lm_eval) that several samples share."""

    score: str | None = None
    filter: str | None = None
    threshold: float | None = None
    cluster_by: str | None = None


def read(path: Path, choice: Choice) -> Log:
    """Read one log. Raises :class:`ConfigError` when it is no such log, is damaged, holds no samples, or leaves a
    choice that ``choice`` does not make; ``OSError`` when it cannot be opened."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{path}: not a log that can be read; allowed: {', '.join(SUFFIXES)}")
    log = _lm_eval(path, choice) if path.suffix == ".jsonl" else _inspect(path, choice)
    if not log.samples:
        raise ConfigError(f"{path}: no samples in this log; run the evaluation with its samples logged")
    return log


# ------------------------------------------------------------------------------------------ Inspect


def _inspect(path: Path, choice: Choice) -> Log:
    header, samples = _archive(path) if path.suffix == ".eval" else _document(path)
    try:
        # a sample without scores broke; if all of them did, nothing says which score was meant
        name = _one_of(
            path, "score", choice.score, sorted({name for sample in samples for name in _scores(path, sample)})
        )
        status = header.get("status", "unfinished")
        return Log(
            path=path,
            suite=INSPECT,
            task=str(header["eval"]["task"]) if "eval" in header else "",
            score=name,
            samples=tuple(_inspect_sample(path, sample, name, choice) for sample in samples),
            notes=() if status == "success" else (f"{path}: the evaluation ended with status {status}.",),
        )
    except (KeyError, TypeError, AttributeError) as fault:
        raise ConfigError(f"{path}: not an Inspect log ({type(fault).__name__}: {fault})") from None


def _inspect_sample(path: Path, sample: Mapping[str, Json], name: str, choice: Choice) -> Sample:
    id_ = str(sample["id"])
    broken = sample.get("error") is not None
    value = None if broken else _scores(path, sample).get(name)
    return Sample(
        id=id_,
        epoch=int(sample["epoch"]),
        correct=_correct(path, id_, value, choice.threshold),
        completed=not broken and sample.get("limit") is None and value != _NO_ANSWER,
        cluster=_cluster(path, id_, sample.get("metadata") or {}, choice.cluster_by),
        fingerprint=json.dumps(sample["target"]),
    )


def _scores(path: Path, sample: Mapping[str, Json]) -> dict[str, Json]:
    """Values by name; a value with keys gives one entry for each, ``scorer/key``. Oldest logs have one ``score``."""
    scores = sample.get("scores") or ({"score": sample["score"]} if sample.get("score") else {})
    found: dict[str, Json] = {}
    for name, score in scores.items():
        if isinstance(score["value"], dict):
            found |= {f"{name}/{key}": value for key, value in score["value"].items()}
        else:
            found[name] = score["value"]
    return found


def _document(path: Path) -> tuple[Mapping[str, Json], list[Mapping[str, Json]]]:
    """Header and samples of the one-document format."""
    try:
        log = json.loads(path.read_bytes())
    except ValueError:
        raise ConfigError(f"{path}: damaged, not JSON") from None
    if not isinstance(log, dict) or "eval" not in log:
        raise ConfigError(f"{path}: not an Inspect log: no entry eval")
    return log, list(log.get("samples") or [])


def _archive(path: Path) -> tuple[Mapping[str, Json], list[Mapping[str, Json]]]:
    """Header and samples of the zip format. A log that was cut short has no header."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            header = json.loads(_content(archive, entries["header.json"])) if "header.json" in entries else {}
            samples = [
                json.loads(_content(archive, entry)) for name, entry in entries.items() if _SAMPLE.fullmatch(name)
            ]
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as fault:
        raise ConfigError(f"{path}: damaged, or no Inspect log ({fault})") from None
    return header, samples


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """One entry. Inspect compresses with Zstandard, which Python's zipfile does not know before 3.14."""
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    try:
        import pyarrow  # only here: older logs do without
    except ModuleNotFoundError:
        raise ConfigError(f"{archive.filename}: compressed with Zstandard; install pyarrow to read it") from None
    raw = archive.fp
    assert raw is not None
    raw.seek(entry.header_offset)
    name_bytes, extra_bytes = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    raw.seek(name_bytes + extra_bytes, 1)
    try:
        content = bytes(pyarrow.decompress(raw.read(entry.compress_size), entry.file_size, "zstd", asbytes=True))
    except (OSError, pyarrow.ArrowException) as fault:
        raise zipfile.BadZipFile(f"{entry.filename}: {fault}") from None
    if zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"{entry.filename}: wrong checksum")
    return content


# ------------------------------------------------------------------------------------------ lm_eval


def _lm_eval(path: Path, choice: Choice) -> Log:
    rows = list(_lines(path))
    try:
        filter_ = _one_of(path, "filter", choice.filter, sorted({row.get("filter", "none") for row in rows}))
        rows = [row for row in rows if row.get("filter", "none") == filter_]
        metric = _one_of(path, "score", choice.score, sorted({name for row in rows for name in _metrics(row)}))
        samples = [
            Sample(
                id=str(row["doc_id"]),
                epoch=1,
                correct=_correct(path, str(row["doc_id"]), row[metric], choice.threshold),
                completed=_INVALID not in row["filtered_resps"],
                cluster=_cluster(path, str(row["doc_id"]), row["doc"], choice.cluster_by),
                fingerprint=str(row.get("doc_hash", "")),
            )
            for row in rows
        ]
    except (KeyError, TypeError) as fault:
        raise ConfigError(
            f"{path}: not written by lm_eval with --log_samples ({type(fault).__name__}: {fault})"
        ) from None
    return Log(
        path=path,
        suite=LM_EVAL,
        task=path.stem.removeprefix("samples_").rpartition("_")[0],
        score=metric if filter_ == "none" else f"{metric} ({filter_})",
        samples=tuple(samples),
        notes=(),
    )


def _lines(path: Path) -> Iterator[Mapping[str, Json]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                raise ConfigError(f"{path}: line {number} is damaged, not JSON") from None
            if not isinstance(row, dict) or "doc_id" not in row:
                raise ConfigError(f"{path}: line {number} was not written by lm_eval with --log_samples: no doc_id")
            yield row


def _metrics(row: Mapping[str, Json]) -> list[str]:
    """Names of the metrics of a line; older versions do not list them."""
    return list(row["metrics"]) if "metrics" in row else [name for name in row if name not in _LM_EVAL_FIELDS]


# ------------------------------------------------------------------------------------------- common


def _one_of(path: Path, what: str, chosen: str | None, there: list[str]) -> str:
    """The one that is meant, which must be named where there are several."""
    if chosen is None and len(there) == 1:
        return there[0]
    if not there:
        raise ConfigError(f"{path}: no sample has a {what}")
    if chosen not in there:
        asked = f"--{what} {chosen}: not in {path}" if chosen else f"{path} has more than one {what}"
        raise ConfigError(f"{asked}; name one with --{what}: {', '.join(there)}")
    return chosen


def _correct(path: Path, id_: str, value: Json, threshold: float | None) -> bool | None:
    """A score as an outcome; ``None`` where there is none (NaN is Inspect's mark for not scored)."""
    if value is None:
        return None
    try:
        number = _WORDS[value] if value in _WORDS else _WORDS.get(str(value).lower(), math.nan)
        number = float(value) if math.isnan(number) else number
    except (TypeError, ValueError):
        raise ConfigError(f"{path}: sample {id_} has the score {value!r}, which is no outcome; name another") from None
    if math.isnan(number):
        return None
    if threshold is not None:
        return number >= threshold
    if number not in (0.0, 1.0):
        raise ConfigError(
            f"{path}: sample {id_} has the score {value}, neither 0 nor 1; say from where on it is correct with "
            "--threshold"
        )
    return number == 1.0


def _cluster(path: Path, id_: str, fields: Mapping[str, Json], name: str | None) -> str | None:
    if name is None:
        return None
    if name not in fields:
        raise ConfigError(f"--cluster-by {name}: sample {id_} of {path} does not have it; it has {', '.join(fields)}")
    return str(fields[name])
