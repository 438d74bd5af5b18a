"""The answers of the perception probe scored, beside two guessers that are no model, and the sheet of it all."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from analysis.probe import PROBES, Asked, Plan, Probe, Question, Settings, larger, read
from analysis.render import DASH, Sheet, number
from analysis.snapshots import Snapshot

SCORES = "scores.json"
"""What :func:`sheet` reads of each model that was asked."""

Guess = int | float | str | None
METRICS: Mapping[Probe, tuple[str, ...]] = {
    "total_size": ("median_relative_error",),
    "block_size": ("median_relative_error",),
    "pairwise": ("accuracy_fraction_near", "accuracy_fraction_all"),
}


def scores(each: Plan, answers: Mapping[str, str], asked: Asked, settings: Settings) -> list[dict[str, Any]]:
    """Rows of the sheet: the model without and with the dashboard, and two guessers that are no model."""
    facts = {"harness": each.harness, "model": asked.model}
    rows: list[dict[str, Any]] = []
    for show in (False, True):
        asks = [ask for ask in each.questions if ask.dashboard is show]
        guesses: list[Guess] = [read(ask, answers[ask.key]) for ask in asks]
        who = {"by": asked.model, "dashboard": "with" if show else "without"}
        rows += [facts | who | row for row in score(asks, guesses, settings.near)]
    asks = [ask for ask in each.questions if not ask.dashboard]
    for name, sizes in guessers(each.snapshots, settings.chars_per_token).items():
        guesses = [guessed(ask, sizes[ask.snapshot]) for ask in asks]
        rows += [facts | {"by": name, "dashboard": None} | row for row in score(asks, guesses, settings.near)]
    return rows


def score(asks: Sequence[Question], guesses: Sequence[Guess], near: float) -> list[dict[str, Any]]:
    """One row a metric: its value, over how many answers, and how many questions had no answer that could be read."""
    rows = []
    for probe in PROBES:
        answered = [(ask, guess) for ask, guess in zip(asks, guesses, strict=True) if ask.probe == probe]
        for metric in METRICS[probe]:
            counted = [(a, g) for a, g in answered if metric != "accuracy_fraction_near" or (a.ratio or 0) < near]
            values = [
                float(guess == ask.truth) if probe == "pairwise" else relative_error(guess, ask.truth)
                for ask, guess in counted
                if guess is not None
            ]
            middle = statistics.mean if probe == "pairwise" else statistics.median
            rows.append(
                {
                    "probe": probe,
                    "metric": metric,
                    "value": middle(values) if values else None,
                    "asked": len(counted),
                    "scored": len(values),
                    "unparsed": len(counted) - len(values),
                }
            )
    return rows


def relative_error(guess: Guess, truth: Guess) -> float:
    """|guess - truth| / truth."""
    assert isinstance(guess, int | float)
    assert isinstance(truth, int | float)
    return abs(guess - truth) / truth


def guessers(snapshots: Sequence[Snapshot], chars_per_token: float) -> dict[str, dict[str, dict[str, float]]]:
    """What two guessers that are no model take for the size of each block of each snapshot. The second one says
    the same of every block: the median of them all, which it has been told."""
    every = statistics.median(block.tokens for snapshot in snapshots for block in snapshot.blocks)
    return {
        f"no model: characters / {chars_per_token:g}": {
            snapshot.id: {block.id: len(block.text) / chars_per_token for block in snapshot.blocks}
            for snapshot in snapshots
        },
        "no model: median block": {
            snapshot.id: {block.id: every for block in snapshot.blocks} for snapshot in snapshots
        },
    }


def guessed(ask: Question, sizes: Mapping[str, float]) -> Guess:
    """The answer of someone who takes the blocks of a snapshot to have these sizes."""
    if ask.probe == "total_size":
        return sum(sizes.values())
    if ask.probe == "block_size":
        return sizes[ask.blocks[0]]
    return larger(sorted(ask.blocks, key=lambda id: int(id[1:])), sizes)


def sheet(harness: str, folder: Path, settings: Settings) -> Sheet:
    """Every model that was asked about this harness, as last scored (``<folder>/<model>/scores.json``)."""
    scored = [orjson.loads(path.read_bytes()) for path in sorted(folder.glob(f"*/{SCORES}"))]
    data = pd.DataFrame([row for each in scored for row in each["rows"]])
    rows = []
    for (model, by, shown), group in data.groupby(["model", "by", "dashboard"], sort=False, dropna=False):
        cells = {row.metric if row.probe == "pairwise" else row.probe: row for row in group.itertuples()}
        once = group[group["metric"] != "accuracy_fraction_near"]
        rows.append(
            {
                "answers by": by,
                "tokens of": model,
                "dashboard": shown if isinstance(shown, str) else DASH,
                "total size: error": _cell(cells["total_size"]),
                "block size: error": _cell(cells["block_size"]),
                f"larger of two, below {settings.near:g}x": _cell(cells["accuracy_fraction_near"]),
                "of all pairs": _cell(cells["accuracy_fraction_all"]),
                "unparsed": f"{once['unparsed'].sum()} of {once['asked'].sum()}",
            }
        )
    paper = "; ".join(
        f"{name} {ends['without'][0]:.2f} to {ends['without'][1]:.2f} without the dashboard, "
        f"{ends['with'][0]:.2f} to {ends['with'][1]:.2f} with it"
        for name, ends in zip(
            ("total size", "block size", "larger of two"), map(settings.paper.get, PROBES), strict=True
        )
        if ends is not None
    )
    return Sheet(
        name=f"perception_{harness}",
        title=f"What a model knows of the sizes of its own context, {harness}",
        lead=(
            "Error: the median of |guess - truth| / truth over all answers. Larger of two: the share that is right. In "
            "brackets: over how many answers.",
        ),
        data=data,
        body=pd.DataFrame(rows),
        text_columns=frozenset({"answers by", "tokens of", "dashboard"}),
        notes=(
            *(each["about"] for each in scored),
            "A size is the number of tokens of a block's text, by the tokenizer of the model that is asked; labels, "
            "roles and the dashboard do not count. Of two equal blocks the one with the lower id counts as the larger.",
            "The two prompts of a question differ by the dashboard alone, which prints the total and every block's "
            "size: there an error of zero is a lookup, no estimate.",
            "unparsed: replies without one JSON object of the form asked for; they are in no median and no share.",
            "no model: guesses that cost nothing, scored the same way. The median block is that of the blocks shown: "
            "whoever guesses that has been told something. To it all blocks are equal.",
            f"The paper's four models on transcripts of another benchmark (Table 5): {paper}.",
        ),
    )


def _cell(row: Any) -> str:
    return f"{number(row.value)} ({row.scored})"
