"""Dollars per task, cache-aware: ``python -m analysis.cost [--runs DIR] [--tables DIR] [--prices FILE]``.

From the records alone, under a list of prices: every call of an episode is charged for the prompt tokens that the
cache did not serve, those that it did, and the tokens generated (VISTA, Table 2). Writes ``cost_<harness>``: one row
a method in each setting, seeds pooled. Exit status 2, with one line on standard error, for bad prices, no runs, or
runs that cannot be told apart.

What the cache served is what the engine recorded. Where one call of a row has no such number, it is what
:mod:`analysis.prefix_cache` models, for all calls of the row: a row is never part recorded, part modelled.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import stats

from analysis import render, settings
from analysis.accuracy import OUTCOMES, SCRIPTED, UNSCORED
from analysis.prefix_cache import cached_tokens
from analysis.render import DASH, Sheet, number
from analysis.rows import KEY, one_run_per_seed, order, settings_of
from analysis.settings import CONF
from arcbench.records import Run, RunError, identity, runs_below
from arcbench.types import ConfigError, Json

CONFIDENCE = 0.95
PRICES = ("uncached_input", "cached_input", "output")
RUN = ("run_dir", "seed", "planned", "protocol", "digest")
_PAYERS = ("agent", "method")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.cost", description="Dollars per task, cache-aware.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    parser.add_argument("--prices", type=Path, default=CONF / "prices/gemini-3-flash.yaml", help="file with the prices")
    args = parser.parse_args(argv)
    try:
        prices = Prices.read(args.prices)
        runs, episodes = frames(runs_below(args.runs), prices)
        if runs.empty:
            raise RunError(f"{args.runs}: only runs of engines whose tokens say nothing ({', '.join(UNSCORED)})")
        for harness, its_runs in runs.groupby("harness"):
            sheet = cost_sheet(str(harness), costs(its_runs, episodes, prices), prices)
            print(render.markdown(sheet))
            for path in render.write(sheet, args.tables):
                print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


# ------------------------------------------------------------------------------------------ prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A list of prices (``conf/prices``), in US dollars a million tokens. ``cache_block_tokens`` is the block of
    the prefix cache where it has to be modelled."""

    id: str
    source: str
    uncached_input: float
    cached_input: float
    output: float
    cache_block_tokens: int

    def __post_init__(self) -> None:
        """Raises :class:`ConfigError` for a price that is none."""
        for key in ("id", "source"):
            text = getattr(self, key)
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"{key}={text}: must be a text")
        for key in PRICES:
            price = getattr(self, key)
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
                raise ConfigError(f"usd_per_m_tokens.{key}={price}: must be a number of at least 0")
        block = self.cache_block_tokens
        if isinstance(block, bool) or not isinstance(block, int) or block < 1:
            raise ConfigError(f"cache_block_tokens={block}: must be a whole number of at least 1")

    @classmethod
    def read(cls, path: Path) -> Prices:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        given = settings.read(path, ("id", "source", "usd_per_m_tokens", "cache_block_tokens"))
        prices = settings.exactly(f"{path}: usd_per_m_tokens", given.pop("usd_per_m_tokens"), PRICES)
        try:
            return cls(**given, **prices)
        except ConfigError as fault:
            raise ConfigError(f"{path}: {fault}") from None

    def usd(self, *, input_tokens: float, cached_tokens: float, output_tokens: float) -> float:
        """Dollars for these tokens; the cached ones are among the input."""
        uncached = input_tokens - cached_tokens
        micro = uncached * self.uncached_input + cached_tokens * self.cached_input + output_tokens * self.output
        return micro / 1e6


# ----------------------------------------------------------------------------------- from records


def frames(runs: Iterator[Run], prices: Prices) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a run, and one row an episode with the tokens of its calls by who they are billed to
    (``agent_*``, ``method_*``). ``*_recorded`` is NaN for an episode with a call without that number."""
    run_rows: list[dict[str, Any]] = []
    episodes: list[dict[str, Any]] = []
    for run in runs:
        columns = run.columns
        if columns["engine"] in UNSCORED:
            continue
        config = identity(run.config, run.config.get("digest_ignores", ()))
        run_rows.append({name: columns[name] for name in (*RUN, *KEY)} | {"config": config})
        for record in run.episodes():
            if record["outcome"] not in OUTCOMES:
                raise ConfigError(
                    f"{run.path}: outcome={record['outcome']} of task {record['task']}: must be one of "
                    f"{', '.join(OUTCOMES)}"
                )
            row = {"run_dir": columns["run_dir"], "task": record["task"], "outcome": record["outcome"]}
            episodes.append(row | tokens_of(record, block_tokens=prices.cache_block_tokens))
    names = [f"{payer}_{kind}" for payer in _PAYERS for kind in ("input", "output", "recorded", "modelled")]
    run_frame = pd.DataFrame(run_rows, columns=[*RUN, *KEY, "config"])
    for name in KEY:
        run_frame[name] = ["" if value is None or pd.isna(value) else str(value) for value in run_frame[name]]
    run_frame["setting"] = settings_of(run_frame)
    return run_frame, pd.DataFrame(episodes, columns=["run_dir", "task", "outcome", *names])


def tokens_of(record: Mapping[str, Json], *, block_tokens: int) -> dict[str, float]:
    """Tokens of all calls of an episode by payer: input, output, and the input that the cache served, as recorded
    (NaN when a call of the payer does not say) and as modelled."""
    total: dict[str, float] = {f"{p}_{k}": 0 for p in _PAYERS for k in ("input", "output", "recorded", "modelled")}
    for call, modelled in zip(record["calls"], cached_tokens(record, block_tokens=block_tokens), strict=True):
        payer = call["billed"]
        recorded = call["cached_tokens"]
        total[f"{payer}_input"] += call["prompt_tokens"]
        total[f"{payer}_output"] += call["completion_tokens"]
        total[f"{payer}_recorded"] += math.nan if recorded is None else recorded
        total[f"{payer}_modelled"] += modelled
    return total


# ------------------------------------------------------------------------------------------ numbers


def costs(runs: pd.DataFrame, episodes: pd.DataFrame, prices: Prices) -> pd.DataFrame:
    """One row for each method in each setting, seeds pooled. ``*_per_episode`` are means over the episodes that were
    run (an error is not), shares are of the tokens of all of them. Raises :class:`ConfigError` when two runs claim
    the same seed of a row."""
    rows = []
    for key, group in runs.groupby([*KEY, "setting"], sort=False):
        one_run_per_seed(group)
        its_episodes = episodes[episodes["run_dir"].isin(group["run_dir"])]
        rows.append(dict(zip([*KEY, "setting"], key, strict=True)) | _row(group, its_episodes, prices))
    rows.sort(key=order)
    return pd.DataFrame(rows).rename(columns={"harness": "benchmark"})


def _row(runs: pd.DataFrame, episodes: pd.DataFrame, prices: Prices) -> dict[str, Any]:
    ran = episodes[episodes["outcome"] != "error"]
    # a run that was planned anew with fewer tasks keeps what it has recorded
    recorded_in = runs["run_dir"].map(episodes["run_dir"].value_counts()).fillna(0).astype(int)
    planned = int(pd.concat([runs["planned"].astype(int), recorded_in], axis=1).max(axis=1).sum())
    correct = int((ran["outcome"] == "correct").sum())
    inputs = ran["agent_input"] + ran["method_input"]
    outputs = ran["agent_output"] + ran["method_output"]
    served = {kind: ran[f"agent_{kind}"] + ran[f"method_{kind}"] for kind in ("recorded", "modelled")}
    silent = int(served["recorded"].isna().sum())
    cache = "modelled" if silent else "recorded"
    usd = {payer: _usd(ran, payer, cache, prices) for payer in _PAYERS}
    each = usd["agent"] + usd["method"]
    total = float(each.sum())
    low, high = mean_interval(each, ran["task"])
    return {
        "seeds": " ".join(str(seed) for seed in sorted(runs["seed"])),
        "n_planned": planned,
        "n_run": len(ran),
        "n_error": len(episodes) - len(ran),
        "n_missing": planned - len(episodes),
        "n_no_answer": int((ran["outcome"] == "no_answer").sum()),
        "n_success": correct,
        "input_tokens_per_episode": inputs.mean(),
        "cache": cache if len(ran) else "",
        "n_cache_not_recorded": silent,
        "cached_recorded_pct": 100 * _over(served["recorded"].sum(skipna=False), inputs.sum()),
        "cached_modelled_pct": 100 * _over(served["modelled"].sum(), inputs.sum()),
        "output_tokens_per_episode": outputs.mean(),
        "prices": prices.id,
        "usd_per_episode": each.mean(),
        "usd_t95_low": low,
        "usd_t95_high": high,
        "agent_usd_per_episode": usd["agent"].mean(),
        "method_usd_per_episode": usd["method"].mean(),
        "method_share_pct": 100 * _over(float(usd["method"].sum()), total),
        "usd_per_success": _over(total, correct),
        "usd_total": total if len(ran) else math.nan,
    }


def _usd(episodes: pd.DataFrame, payer: str, cache: str, prices: Prices) -> pd.Series[float]:
    """Dollars of each episode's calls that are billed to ``payer``."""
    tokens = _columns(episodes, f"{payer}_input", f"{payer}_{cache}", f"{payer}_output")
    dollars = [prices.usd(input_tokens=i, cached_tokens=c, output_tokens=o) for i, c, o in tokens]
    return pd.Series(dollars, index=episodes.index, dtype=float)


def mean_interval(values: Iterable[float], tasks: Iterable[str]) -> tuple[float, float]:
    """Student's interval for the mean over episodes, 95 %, no lower than 0 (dollars are not negative).

    Episodes of one task, under several seeds, count as one cluster: the error is that of the clusters' sums of
    residuals, with a degree of freedom less than there are tasks. Where each task was played once this is the common
    interval. NaN for fewer than two tasks.
    """
    frame = pd.DataFrame({"value": list(values), "task": list(tasks)})
    clusters = frame["task"].nunique()
    if clusters < 2:
        return math.nan, math.nan
    mean = frame["value"].mean()
    sums = (frame["value"] - mean).groupby(frame["task"]).sum()
    error = math.sqrt(clusters / (clusters - 1) * float((sums**2).sum())) / len(frame)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, clusters - 1)) * error
    return max(0.0, mean - reach), mean + reach


def _over(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


# ------------------------------------------------------------------------------- what people read


def cost_sheet(harness: str, data: pd.DataFrame, prices: Prices) -> Sheet:
    """The table of one harness."""
    words = ("profile", "budget", "recall", "engine", "model", "method", "variant", "setting", "cache")
    shown = [c for c in words[:-1] if c in ("engine", "method") or data[c].nunique() > 1]
    common = {c: data[c].iloc[0] for c in words[:-1] if c not in shown and data[c].iloc[0]}
    body = data[shown].replace("", DASH)
    holes = (data["n_error"] > 0) | (data["n_missing"] > 0)
    body["method"] = body["method"].where(~holes, body["method"] + " †")
    body["planned/run/error"] = [f"{p}/{r}/{e}" for p, r, e in _columns(data, "n_planned", "n_run", "n_error")]
    body["no answer"] = data["n_no_answer"].map(str)
    body["correct"] = data["n_success"].map(str)
    body["input tokens"] = data["input_tokens_per_episode"].map(lambda v: number(v, 0))
    body["cached %, recorded"] = data["cached_recorded_pct"].map(lambda v: number(v, 1))
    body["cached %, modelled"] = data["cached_modelled_pct"].map(lambda v: number(v, 1))
    body["cache"] = data["cache"].replace("", DASH)
    body["output tokens"] = data["output_tokens_per_episode"].map(lambda v: number(v, 0))
    body["usd per task"] = data["usd_per_episode"].map(lambda v: number(v, 4))
    body["95 % interval"] = [
        DASH if math.isnan(low) else f"{number(low, 4)} to {number(high, 4)}"
        for low, high in _columns(data, "usd_t95_low", "usd_t95_high")
    ]
    body["method's own %"] = data["method_share_pct"].map(lambda v: number(v, 1))
    body["usd per correct"] = data["usd_per_success"].map(lambda v: number(v, 4))
    body["usd total"] = data["usd_total"].map(lambda v: number(v, 4))
    lead = [
        f"Prices {prices.id}, in US dollars a million tokens: {prices.uncached_input:g} uncached input, "
        f"{prices.cached_input:g} cached input, {prices.output:g} output. Source: {prices.source}.",
        "Per task: means over the episodes that were run, all calls of an episode counted, the agent's and the "
        "method's own; the interval is Student's over tasks (one task under several seeds is one cluster).",
    ]
    if common:
        lead.append("All rows: " + ", ".join(f"{name} {value}" for name, value in common.items()) + ".")
    if SCRIPTED in set(data["engine"]):
        lead.insert(
            0,
            "Rows of the scripted engine: no language model took part; the replies are the reader's and short, so "
            "these are the dollars of the protocol, not of a model.",
        )
    return Sheet(
        name=f"cost_{harness}",
        title=f"Dollars per task, cache-aware, {harness}",
        lead=tuple(lead),
        data=data,
        body=body,
        text_columns=frozenset(words),
        notes=tuple(_notes(data, shown, prices)),
    )


def _notes(data: pd.DataFrame, shown: Sequence[str], prices: Prices) -> Iterator[str]:
    caches = set(data["cache"])
    if "recorded" in caches:
        yield (
            "cache recorded: the dollars rest on the cached tokens that the engine reported, in blocks of its own, "
            "hits on other episodes' prompts among them."
        )
    if "modelled" in caches:
        yield (
            "cache modelled: the engine did not report cached tokens; the dollars rest on the longest common prefix "
            f"with the episode's earlier prompts, in whole messages and blocks of {prices.cache_block_tokens} tokens, "
            "the last token never cached: a lower bound for a cache of such blocks that evicts nothing."
        )
    for row in data.to_dict("records"):
        name = ", ".join(row[column] for column in shown if row[column])
        if 0 < row["n_cache_not_recorded"] < row["n_run"]:
            yield (
                f"{name}: {row['n_cache_not_recorded']} of {row['n_run']} episodes have calls without reported cached "
                "tokens; modelled for all of them."
            )
        if row["n_error"] or row["n_missing"]:
            yield (
                f"† {name} is incomplete: {row['n_error']} error, {row['n_missing']} missing of {row['n_planned']} "
                "planned; what they cost is in no number here."
            )


def _columns(data: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    return data[list(names)].itertuples(index=False, name=None)


if __name__ == "__main__":
    sys.exit(main())
