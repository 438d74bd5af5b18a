"""Declared tables of accuracies: one row a method in each setting, and ARC's margin over the best other method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import declared
from analysis.accuracy import heading, notes_of, reasons_of
from analysis.beside import LABELS, Beside, beside
from analysis.declared import COMPLETE, INCOMPLETE, MISSING, Spec
from analysis.render import DASH, Sheet

Row = dict[str, Any]
Published = Mapping[tuple[str, ...], Mapping[str, str]]

PLAN = ("n_planned", "n_run", "n_error", "n_missing", "n_no_answer")
METHOD = ("method", "variant", "setting")
OVER_PLANNED = ("Accuracy is over planned tasks: an error, a missing task and one without an answer are no success.",)
_NAMES = ("engine", "model", "budget", "recall", "profile")
_WORDS = frozenset({*_NAMES, "method", "variant", "setting", "no answer because"})


def sheet(spec: Spec, rows: Sequence[Row], published: Published, *, scripted: bool) -> Sheet:
    """A table of kind ``accuracy`` from its cells; ``published`` are the paper's rows (none beside the scripted
    engine's)."""
    table = []
    for row in rows:
        key = (row["model"], *row["point"], row["method"])
        table.append(row | {"figures": figures(spec, row, row, published.get(key, {}), scripted=scripted)})
    return put_together(spec, table, rows, published, METHOD, OVER_PLANNED, scripted=scripted)


def margin_sheet(spec: Spec, rows: Sequence[Row], published: Published, *, scripted: bool) -> Sheet:
    """A table of kind ``margin``: of the first method over the best of the others, at each point."""
    table = []
    for row in margins(spec, rows):
        key = (row["model"], *row["point"])
        table.append(row | {"figures": figures(spec, row, row, published.get(key, {}), scripted=scripted)})
    return put_together(spec, table, rows, published, (), OVER_PLANNED, scripted=scripted)


def margins(spec: Spec, rows: Sequence[Row]) -> Iterator[Row]:
    """One row a point of each model, budget and profile; without a margin as long as a method lacks
    anything there."""
    places = dict.fromkeys((row["model"], row["budget"], row["profile"], row["point"]) for row in rows)
    for place in places:
        its = [row for row in rows if (row["model"], row["budget"], row["profile"], row["point"]) == place]
        (first,) = spec.first
        there = [row for row in its if row["state"] != MISSING]
        states = {row["state"] for row in its}
        made = {key: its[0][key] for key in ("benchmark", *_NAMES, *spec.axes, "point")}
        made |= {key: sum(row[key] for row in there) for key in _counts(there)}
        made |= {"state": COMPLETE if states == {COMPLETE} else INCOMPLETE if there else MISSING, "n_seeds": 0}
        if states == {COMPLETE}:
            ours = max(row["accuracy_pct"] for row in its if row["method"] == first)
            others = [row for row in its if row["method"] != first]
            best = max(row["accuracy_pct"] for row in others)
            made |= {
                "arc_accuracy_pct": ours,
                "runner_up_method": ";".join(dict.fromkeys(r["method"] for r in others if r["accuracy_pct"] == best)),
                "runner_up_accuracy_pct": best,
                "margin_pp": ours - best,
            }
        yield made


def figures(
    spec: Spec, row: Mapping[str, Any], values: Mapping[str, Any], paper: Mapping[str, str], *, scripted: bool
) -> list[Beside]:
    """The quantities of a row beside the paper's: a figure of the paper belongs to its own model under its own budget,
    and to the first profile."""
    of_paper = not scripted and spec.models.get(row["model"]) == row["budget"] and row["profile"] == spec.profiles[0]
    size = spec.tasks * len(spec.seeds_of(scripted))
    state = {"whole": row["state"] == COMPLETE, "same_size": values.get("n_planned") == size}
    return [
        beside(quantity, values.get(quantity), paper if of_paper else {}, **state)
        for quantity in (*spec.quantities, *spec.ours)
    ]


# ---------------------------------------------------------------------------------------- the sheet


def put_together(
    spec: Spec,
    table: Sequence[Row],
    rows: Sequence[Row],
    published: Published,
    named_by: Sequence[str],
    says: Sequence[str],
    *,
    scripted: bool,
) -> Sheet:
    """The sheet of rows that have their ``figures``; ``says`` stands above it, the notes are on the cells behind it."""
    with_paper = bool(published) and not scripted
    # the axes of a recall sweep say what its name says
    by_recall = any(axis["key"].startswith("budget.recall") for axis in spec.axes.values())
    names = [*(name for name in _NAMES if name != "recall" or not by_recall), *spec.axes, *named_by]
    common = [name for name in names if _agree(name, table)]
    shown = [name for name in names if name not in common or name == "method"]
    body = [cells_of(row, shown) | _side_by_side(spec, row, with_paper) | plan_of(row) for row in table]
    return Sheet(
        name=name_of(spec, scripted),
        title=title_of(spec, scripted),
        lead=tuple(lead(spec, table, common, says, with_paper, scripted)),
        data=data_of(spec, table, names, with_paper),
        body=pd.DataFrame(body),
        text_columns=_WORDS | {LABELS["runner_up_method"][0]},
        notes=tuple(notes(spec, rows, [name for name in shown if name != "engine"], scripted)),
    )


def _agree(name: str, table: Sequence[Row]) -> bool:
    """Whether a column says the same in all rows; a row without a run says nothing of what it was run with."""
    return len({row[name] for row in table if row["state"] != MISSING or name not in ("engine", "recall")}) <= 1


def name_of(spec: Spec, scripted: bool) -> str:
    """Of the table's files."""
    return f"mechanism_{spec.name}" if scripted else spec.name


def title_of(spec: Spec, scripted: bool) -> str:
    """What stands above the table."""
    return f"Mechanism check in the shape of {spec.title} (scripted engine)" if scripted else spec.title


def lead(
    spec: Spec, table: Sequence[Row], common: Sequence[str], says: Sequence[str], with_paper: bool, scripted: bool
) -> Iterator[str]:
    """What must be read before the table."""
    if scripted:
        yield from heading("mechanism", spec.harness)[1]
    values = {name: next((row[name] for row in table if row[name]), "") for name in common}
    if any(values.values()):
        yield f"All rows: {', '.join(f'{name} {value}' for name, value in values.items() if value)}."
    yield from says
    if with_paper:
        yield f"Each quantity is ours, the paper's as printed, and ours less the paper's. {where_paper_s(spec)}"


def where_paper_s(spec: Spec) -> str:
    """Beside which rows the paper's figures stand."""
    models = " and ".join(f"{model} ({budget})" for model, budget in spec.models.items())
    profile = f", profile {spec.profiles[0]}" if len(spec.profiles) > 1 else ""
    return f"The paper's stand beside {models}{profile}."


def cells_of(row: Mapping[str, Any], shown: Sequence[str]) -> Row:
    """The cells that name a row; an incomplete one is marked."""
    cells = {name: row[name] or DASH for name in shown}
    if row["state"] == INCOMPLETE:
        last = "method" if "method" in cells else next(reversed(cells))
        cells[last] = f"{cells[last]} †"
    return cells


def _side_by_side(spec: Spec, row: Mapping[str, Any], with_paper: bool) -> Row:
    cells = {}
    for figure in row["figures"]:
        label = LABELS[figure.quantity][0]
        ours, paper, difference = figure.shown()
        cells[label] = ours
        if with_paper and figure.quantity in spec.quantities:
            cells |= {f"{label}, paper": paper, f"{label}, diff.": difference}
    return cells


def plan_of(row: Mapping[str, Any]) -> Row:
    """What was planned and what became of it."""
    if row["state"] == MISSING:
        return {"planned/run/error": DASH, "no answer because": DASH}
    return {
        "planned/run/error": "/".join(str(row[key]) for key in ("n_planned", "n_run", "n_error")),
        "no answer because": reasons_of(row),
    }


def _counts(rows: Sequence[Row]) -> list[str]:
    """The columns that count what was planned and what became of it."""
    return [*PLAN, *dict.fromkeys(key for row in rows for key in row if key.startswith("n_no_answer_"))] if rows else []


def data_of(spec: Spec, table: Sequence[Row], names: Sequence[str], with_paper: bool) -> pd.DataFrame:
    """All columns of a table, for its CSV."""
    counts = _counts([row for row in table if row["state"] != MISSING]) or list(PLAN)
    written = []
    for row in table:
        made = {name: row[name] for name in ("benchmark", *names, "state")}
        for figure in row["figures"]:
            made |= figure.written(with_paper and figure.quantity in spec.quantities)
        written.append(made | {key: row.get(key) for key in counts} | {"seeds": row.get("seeds")})
    whole = [*counts, *(quantity for quantity in (*spec.quantities, *spec.ours) if quantity.startswith("n_"))]
    return pd.DataFrame(written).astype(dict.fromkeys(whole, "Int64"))


def notes(spec: Spec, rows: Sequence[Row], names: Sequence[str], scripted: bool) -> Iterator[str]:
    """What must be said of the cells: those that lack, those with holes, those on other tasks than the table's."""
    if spec.device and all(row["state"] == MISSING for row in rows):
        yield f"There is no run on an {spec.device} yet; its figures stay empty until the device of a run is one."
    yield from declared.lacking(spec, rows, scripted=scripted)
    played = [row for row in rows if row["state"] != MISSING]
    if played:
        yield from notes_of(pd.DataFrame(played), ["model", *(name for name in names if name != "model")])
    yield from declared.sizes(spec, rows)
    if spec.reference and not scripted and any(row["state"] == INCOMPLETE for row in rows):
        yield "A row marked † has no difference: what it lacks might change it."
