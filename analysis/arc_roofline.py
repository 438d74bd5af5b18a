"""Declared tables of cost: the roofline of each row's episodes, over successes as the paper has it, and over all.

A table of kind ``roofline`` becomes two sheets. The first has means over *successful* episodes, with the paper's
figures beside them; a method without a success has none. The second, ``<name>_all``, has means over all episodes that
were run, so that every method has a cost. Savings stand twice: of time, which is what the paper's column is, and of
traffic, which is what its text says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from analysis import serving
from analysis.accuracy import SCRIPTED
from analysis.arc_accuracy import METHOD, Published, Row, figures, put_together
from analysis.declared import Spec
from analysis.render import Sheet
from analysis.roofline import CACHED, Roofline, Switches
from analysis.roofline_facts import Hardware, ModelFacts
from arcbench.types import ConfigError

SUCCESSES, ALL = "successes", "all"
TB, MILLION = 1e12, 1e6
VOLUMES = ("mean_calls", "mean_prompt_tokens", "mean_decode_tokens", "mean_decode_context_mtokens2", "mean_batch")
"""What a cost follows from: calls, prompt tokens P, decoded tokens, those times their context Q, and the batch. They
stand beside every cost."""


def sheets(
    spec: Spec,
    rows: Sequence[Row],
    episodes: pd.DataFrame,
    calls: pd.DataFrame,
    published: Published,
    switches: Switches,
    *,
    scripted: bool,
) -> Iterator[Sheet]:
    """Both sheets, from the cells of a table and the frames of episodes and calls (where prefill is cached, those of
    :func:`analysis.serving.read`). Raises :class:`ConfigError` for a
    call without token counts, and where a model does not fit on the hardware."""
    spec = replace(spec, ours=(*spec.ours, *VOLUMES))
    hardware = Hardware.read(str(spec.hardware))
    ran = episodes.loc[episodes["outcome"] != "error", ["run_dir", "task", "outcome"]]
    costs, said = _costs(spec, rows, calls.merge(ran[["run_dir", "task"]]), hardware, switches)
    played = costs.merge(ran, on=["run_dir", "task"])
    for basis in (SUCCESSES, ALL):
        some = played[played["outcome"] == "correct"] if basis == SUCCESSES else played
        own = spec if basis == SUCCESSES else _without_paper(spec)
        beside_it = published if basis == SUCCESSES else {}
        made = _with_savings(spec, [row | _means(row, some) for row in rows])
        table = []
        for row in made:
            paper = beside_it.get((row["model"], *row["point"], row["method"]), {})
            table.append(row | {"figures": figures(own, row, row, paper, scripted=scripted)})
        says = _says(spec, basis, hardware, switches, scripted)
        sheet = put_together(own, table, rows, beside_it, METHOD, says, scripted=scripted)
        name = sheet.name if basis == SUCCESSES else f"{sheet.name}_all"
        yield replace(sheet, name=name, notes=(*sheet.notes, *said))


def _without_paper(spec: Spec) -> Spec:
    return replace(
        spec, title=f"{spec.title}, over all episodes", reference=None, quantities=(),
        ours=(*spec.quantities, *spec.ours),
    )  # fmt: skip


def _costs(
    spec: Spec, rows: Sequence[Row], calls: pd.DataFrame, hardware: Hardware, switches: Switches
) -> tuple[pd.DataFrame, list[str]]:
    """The cost of each episode of the rows, and what must be said of it: models whose architecture is not known, and
    rows whose cached tokens are modelled."""
    found = []
    unknown: dict[str, str] = {}
    modelled: list[str] = []
    for row in rows:
        its = calls[calls["run_dir"].isin(row.get("run_dirs", ()))]
        if its.empty:
            continue
        model = model_of(spec, row)
        try:
            facts = ModelFacts.read(model)
        except ConfigError as fault:
            unknown[model] = f"{model} has no cost: {fault}."
            continue
        if switches.prefill == CACHED:
            its, source = serving.served(its)
            if source == serving.MODELLED:
                modelled.append(f"{row['model']} {row['method']}")
        found.append(Roofline(model=facts, hardware=hardware, switches=switches).episodes(its))
    empty = pd.DataFrame(columns=["run_dir", "task"], dtype=object)
    said = [*unknown.values()]
    if modelled:
        who = ", ".join(dict.fromkeys(modelled))
        said.append(f"What the prefix cache served is modelled where a call does not say: {who}.")
    return pd.concat(found, ignore_index=True) if found else empty, said


def model_of(spec: Spec, row: Row) -> str:
    """Whose architecture is charged: the model's, and for the scripted reader that of the model whose budget it had."""
    of_budget = {budget: model for model, budget in spec.models.items()}
    return str(of_budget.get(row["budget"], row["model"]) if row["engine"] == SCRIPTED else row["model"])


def _means(row: Row, costs: pd.DataFrame) -> Row:
    """Means over the episodes of a row; none where there is no episode."""
    its = costs[costs["run_dir"].isin(row.get("run_dirs", ()))]
    made: Row = {"n_episodes": len(its) if "run_dirs" in row else None}
    return made if its.empty else made | means(its)


def means(its: pd.DataFrame) -> Row:
    """Means of the roofline's columns over episodes, named as the paper's tables name them."""
    return {
        "t_total_s": its["total_s"].mean(),
        "t_decode_s": its["decode_s"].mean(),
        "t_prefill_s": its["prefill_s"].mean(),
        "bandwidth_tb": its["decode_bytes"].mean() / TB,
        "mean_calls": its["n_calls"].mean(),
        "mean_prompt_tokens": its["prompt_tokens"].mean(),
        "mean_decode_tokens": its["decode_tokens"].mean(),
        "mean_decode_context_mtokens2": its["decode_context_tokens"].mean() / MILLION,
        "mean_batch": its["batch"].mean(),
    }


def _with_savings(spec: Spec, rows: Sequence[Row]) -> list[Row]:
    """Each row with its savings and speed-up against the base method of the same setting."""

    def setting(row: Row) -> tuple[Any, ...]:
        return row["model"], row["budget"], row["profile"], row["point"], row["shared"]

    bases: Mapping[tuple[Any, ...], Row] = {
        setting(row): row for row in reversed(rows) if row["method"] == spec.base and "t_total_s" in row
    }
    made = []
    for row in rows:
        base = bases.get(setting(row))
        saved = {}
        if base is not None and "t_total_s" in row:
            saved = {
                "savings_pct": 100 * (1 - row["t_total_s"] / base["t_total_s"]),
                # a base that decoded nothing has no traffic
                "savings_traffic_pct": 100 * (1 - row["bandwidth_tb"] / (base["bandwidth_tb"] or math.nan)),
                "speedup_x": base["t_total_s"] / row["t_total_s"],
            }
        made.append(row | saved)
    return made


def _says(spec: Spec, basis: str, hardware: Hardware, switches: Switches, scripted: bool) -> tuple[str, ...]:
    over = "successful episodes" if basis == SUCCESSES else "all episodes that were run, whatever came of them"
    made = ", ".join(f"{key} {value}" for key, value in asdict(switches).items())
    says = [
        f"Roofline of the {hardware.id}, computed from token counts, not measured: means over {over}, each episode at "
        f"its own mean context and batch. Savings and speed-up are against {spec.base}.",
        f"What the paper leaves open: {made}.",
    ]
    if scripted:
        says.append("The reader's tokens are charged as those of the model whose budget it had; its replies are short.")
    return tuple(says)
