"""The two papers' published figures (``results/paper``), read with their columns and types checked.

``table("arc_table07")`` gives numbers, ``printed("arc_table07")`` the same cells as the paper prints them, which
tell how far each was rounded; ``parameter("arc.seeds")`` gives a number of the protocol. The columns are
described in ``results/paper/README.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import pandas as pd
import yaml

from arcbench.types import ConfigError, Json

PAPER = Path(__file__).resolve().parent.parent / "results" / "paper"
PARAMETERS = "parameters.yaml"

_WORD, _COUNT, _NUMBER, _DEGREE = "word", "count", "number", "degree"
_DEGREES = ("yes", "partial", "no")
_KNOWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "benchmark": frozenset(("longbench_v2_hard", "needle", "loca_bench", "browsecomp_plus", "gaia", "ama_bench")),
        "model": frozenset(
            ("qwen3-8b", "qwen3-32b", "gemini-3-flash", "deepseek-v4-pro", "claude-sonnet-4.5", "glm-5")
        ),
        "hardware": frozenset(("h200", "mi300x")),
    }
)
_KEY = "benchmark model method hardware"
_ACCURACY = (
    f"{_KEY} context_window_ktokens:count max_completion_tokens:count n_success:count n_attempts:count "
    "mean_no_answer:number mean_n_success:number accuracy_pct:number accuracy_sd_pct:number "
    "combined_accuracy_pct:number combined_accuracy_sd_pct:number"
)
_COST = "t_total_s:number t_decode_s:number t_prefill_s:number bandwidth_tb:number savings_pct:number"
_MCNEMAR = (
    "benchmark model method_a method_b n_a_only:count n_b_only:count n_both:count n_neither:count p_chi2:number "
    "p_exact:number odds_ratio:number per_seed_odds_mean:number per_seed_odds_sd:number n_discordant_seeds:count"
)
_RECALL = "recall_budget_kchars:count recall_max_kchars:count"
_ABLATION = f"benchmark model method {_RECALL} n_success:count n_fail:count accuracy_pct:number"
_COST_ABLATION = f"n_success:count {_COST} speedup_x:number"

_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "arc_table01": _ACCURACY,
        "arc_table02": _ACCURACY,
        "arc_table03": f"{_KEY} {_COST}",
        "arc_table04": f"{_KEY} {_COST}",
        "arc_table05": _MCNEMAR,
        "arc_table06": _MCNEMAR,
        "arc_table07": _ABLATION,
        "arc_table08": _ABLATION,
        "arc_table09": f"{_KEY} {_RECALL} {_COST_ABLATION}",
        "arc_table10": f"{_KEY} force_at_calls {_COST_ABLATION}",
        "arc_table11": f"{_KEY} noise_lines_per_side:count {_COST_ABLATION}",
        "arc_table12": f"{_KEY} n_success:count n_attempts:count accuracy_pct:number accuracy_sd_pct:number",
        "arc_table13": f"{_KEY} t_total_s:number bandwidth_tb:number savings_pct:number",
        "arc_recall_budget_margin": f"benchmark model {_RECALL} arc_accuracy_pct:number runner_up_method "
        "runner_up_accuracy_pct:number margin_pp:number",
        "vista_table01": "benchmark model method method_group mechanism_state:degree mechanism_control:degree "
        "mechanism_recovery:degree accuracy_pct:number trajectory_tokens:count trajectory_tokens_printed",
        "vista_table02": "benchmark model method input_tokens_m:number output_tokens_m:number cache_rate_pct:number "
        "cost_usd:number",
        "vista_table03": "benchmark model method regime train_benchmark accuracy_pct:number gain_pp:number",
        "vista_table04": "benchmark method f1_fraction:number accuracy_fraction:number runtime_s_per_episode:number "
        "tokens_k_per_episode:number",
        "vista_table05": "benchmark model probe dashboard metric value:number",
        "vista_table06": "method training_free:degree model_agnostic:degree agent_controlled:degree "
        "exact_recovery:degree context_dashboard:degree",
        "vista_table07": "benchmark model method family n_success:count n_attempts:count accuracy_pct:number "
        "n_timeout:count n_error:count mean_steps:number mean_tokens_m:number n_trim_events:count "
        "n_clear_events:count n_archive_events:count n_read_events:count",
        "vista_table08": "benchmark model method n_both:count n_method_only:count n_vista_only:count n_neither:count",
        "vista_table09": "benchmark model method context_growth_ktokens:count accuracy_pct:number mean_steps:number "
        "mean_tokens_m:number status",
        "vista_table10": "benchmark method domain accuracy_fraction:number f1_fraction:number",
        "vista_table11": "benchmark case failed_methods n_vista_steps:count n_archive_calls:count "
        "n_payload_reads:count",
        "claims": "claim_id paper place quantity stated_value unit computed_from",
    }
)
_PATTERN = {
    _COUNT: re.compile(r"\d+"),
    _NUMBER: re.compile(r"-?\d+(\.\d+)?(e-?\d+)?|inf"),
    _DEGREE: re.compile("|".join(_DEGREES)),
}

TABLES = tuple(_COLUMNS)
"""The names of the tables, ``claims`` among them."""


@dataclass(frozen=True)
class Reference:
    """The figures of one folder, so that corrected ones can stand beside the published ones."""

    folder: Path = PAPER

    def printed(self, name: str) -> pd.DataFrame:
        """A table with every cell as text, digits as printed; "" where the paper prints nothing.

        Raises :class:`ConfigError` when there is no such table, or its columns or a cell are not as declared.
        """
        kinds = _kinds(name)
        path = self.folder / f"{name}.csv"
        try:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
        except FileNotFoundError:
            raise ConfigError(f"{path}: not there; the papers' tables belong in {self.folder}") from None
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as fault:
            raise ConfigError(f"{path}: not a CSV table ({' '.join(str(fault).split())})") from None
        if list(frame.columns) != list(kinds) or not isinstance(frame.index, pd.RangeIndex):
            raise ConfigError(f"{path}: columns {', '.join(frame.columns)}; must be, in every row, {', '.join(kinds)}")
        for column, row, cell, allowed in _strange(frame, kinds):
            raise ConfigError(f"{path}: {column}={cell} in row {row}; must be {allowed}")
        return frame

    def table(self, name: str) -> pd.DataFrame:
        """A table with counts as ``Int64``, other numbers as ``float64`` and words as ``str``; a number that the
        paper does not print is missing. Raises as :meth:`printed`."""
        kinds, frame = _kinds(name), self.printed(name)
        for column, kind in kinds.items():
            if kind == _COUNT:
                frame[column] = pd.to_numeric(frame[column].replace("", None)).astype("Int64")
            elif kind == _NUMBER:
                frame[column] = [float(cell) if cell else math.nan for cell in frame[column]]
        return frame

    def parameter(self, key: str) -> Json:
        """A protocol number by dotted key: ``arc.benchmarks.needle.attempts``. An entry that has a ``value`` stands
        for it (``arc.seeds``), its other parts are one level below (``arc.seeds.source``). ``None`` is a number that
        the paper names and does not give. Raises :class:`ConfigError` for an unknown key."""
        node: Json = self._parameters
        walked: list[str] = []
        for part in key.split("."):
            if not isinstance(node, dict) or part not in node:
                there = ", ".join(node) if isinstance(node, dict) else "nothing"
                raise ConfigError(f"{key}: no such parameter; below {'.'.join(walked) or 'the top'} are {there}")
            node = node[part]
            walked.append(part)
        return node["value"] if isinstance(node, dict) and "value" in node else node

    @cached_property
    def _parameters(self) -> Mapping[str, Json]:
        path = self.folder / PARAMETERS
        try:
            found = yaml.safe_load(path.read_text("utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{path}: not there; the papers' parameters belong in {self.folder}") from None
        except (yaml.YAMLError, UnicodeDecodeError):
            found = None
        if not isinstance(found, dict):
            raise ConfigError(f"{path}: not a YAML mapping")
        return found


def _kinds(name: str) -> dict[str, str]:
    """Columns of a table with what each holds."""
    if name not in _COLUMNS:
        raise ConfigError(f"table {name}: unknown; allowed: {', '.join(TABLES)}")
    columns = (column.partition(":") for column in _COLUMNS[name].split())
    return {column: kind or _WORD for column, _, kind in columns}


def _strange(frame: pd.DataFrame, kinds: Mapping[str, str]) -> Iterator[tuple[str, int, str, str]]:
    """Cells that are not what their column holds: column, row (from 1), cell, what is allowed."""
    for column, kind in kinds.items():
        for row, cell in enumerate(frame[column], start=1):
            if not cell:  # not printed
                continue
            if column in _KNOWN and cell not in _KNOWN[column]:
                yield column, row, cell, f"one of {', '.join(sorted(_KNOWN[column]))}"
            elif kind in _PATTERN and not _PATTERN[kind].fullmatch(cell):
                allowed = {_COUNT: "a whole number", _NUMBER: "a number", _DEGREE: f"one of {', '.join(_DEGREES)}"}
                yield column, row, cell, allowed[kind]
