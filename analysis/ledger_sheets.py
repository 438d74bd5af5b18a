"""The tables of the ledger: by method, where the fact or the pages were, and why episodes failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import ledger_facts, ledger_pages
from analysis.accuracy import accuracy, heading, kinds, notes_of
from analysis.render import DASH, Sheet, number
from analysis.rows import BLOCK, records_of

NAMES = (*BLOCK[1:], "method", "variant", "setting")
"""Columns that name a row. What is the same in all rows is said once, above the table."""

STATES = {
    "verbatim": "as it was observed",
    "whole": "all of the page",
    "in_part": "some of it, 200 characters or more",
    "brought_back": "in what was read back at a command, or found by the method's own search",
    "carried": "in the agent's own words",
    "summary": "in a text of the method's",
    "set_aside": "kept, and out of sight while the agent is told to make room",
    "handle": "outside, behind a handle that stood in the view",
    "search": "outside, where the method's own search may find it",
    "hidden": "outside, and no handle of it in the view",
    "summarised": "rewritten",
    "lost": "gone",
    "unseen": "not read yet",
}
FACT_CAUSES = {
    "lost": "gone, or rewritten without it, when the agent answered or gave up",
    "not_fetched": "outside the view and reachable, and never read back",
    "fetched_in_part": "so too, and what was read back through its handle did not hold it",
    "not_used": "in the view, or read back earlier, and the answer was another",
    "never_read": "never observed",
}
PAGE_CAUSES = {
    "lost": "some page was gone, or rewritten, when the agent answered",
    "never_read": "some of the document was never shown",
    "not_fetched": "some page was not whole in the view, and never read back",
    "not_used": "every page was whole in the view, or read back",
}
WHICH_PAGE = (
    "Which page was needed is not known: a wrong answer counts under the first cause that was true of any page."
)
OTHER_CAUSES = {
    "never_answered": "no turns, calls or room were left",
    "cut": "replies that were cut or malformed",
    "refused": "ended by the harness (premature submissions)",
}


def sheets(runs: pd.DataFrame, episodes: pd.DataFrame, facts: pd.DataFrame, pages: pd.DataFrame) -> list[Sheet]:
    """The two tables of each harness, those of the scripted engine apart. Raises :class:`ConfigError` as
    :func:`analysis.accuracy.accuracy`."""
    made = []
    for kind, harness, some in kinds(runs):
        name = f"{'mechanism_' if kind == 'mechanism' else ''}ledger_{harness}"
        lead = heading(kind, harness)[1]
        if facts["run_dir"].isin(some["run_dir"]).any():
            data = accuracy(some, episodes, lambda group, _: _facts(facts[facts["run_dir"].isin(group["run_dir"])]))
            made += [_fact_sheet(name, lead, data), _failures(name, lead, data, FACT_CAUSES)]
        agents = some[some["profile"].isin(ledger_pages.AGENTS)]
        if pages["run_dir"].isin(agents["run_dir"]).any():
            data = accuracy(agents, episodes, lambda group, _: _pages(pages[pages["run_dir"].isin(group["run_dir"])]))
            made += [_page_sheet(name, lead, data), _failures(name, [*lead, WHICH_PAGE], data, PAGE_CAUSES)]
    return made


# ----------------------------------------------------------------------------------------- numbers


def _facts(rows: pd.DataFrame) -> dict[str, Any]:
    """Episodes by where the fact was at the last call, by cause of failure, and by what brought the fact back."""
    events = ("left", "recalled", "retrieved", "reread", "tried")
    return {
        **{f"n_{event}": int(rows[f"{event}_call"].notna().sum()) for event in events},
        "left_call_median": rows["left_call"].median(),
        **{f"n_last_{state}": int((rows["state"] == state).sum()) for state in ledger_facts.STATES},
        "n_right_without": int(((rows["outcome"] == "correct") & ~rows["state"].isin(ledger_facts.IN_VIEW)).sum()),
        **_causes(rows, ledger_facts.CAUSES),
    }


def _pages(rows: pd.DataFrame) -> dict[str, Any]:
    """Pages, over all episodes, by where they were when the question came and at the last call."""
    counts = [f"{when}_{state}" for when in ("asked", "last") for state in ledger_pages.STATES]
    return {
        **{f"n_{name}": int(rows[name].sum()) for name in ("pages", "read_back", "retrieved", *counts)},
        "n_asked": int(rows["asked_call"].notna().sum()),
        "shown_pct": 100 * rows["shown_chars"].sum() / rows["document_chars"].sum() if len(rows) else None,
        **_causes(rows, ledger_pages.CAUSES),
    }


def _causes(rows: pd.DataFrame, causes: Sequence[str]) -> dict[str, int]:
    return {f"n_cause_{cause}": int((rows["cause"] == cause).sum()) for cause in causes}


# ------------------------------------------------------------------------------- what people read


def _fact_sheet(name: str, lead: Sequence[str], data: pd.DataFrame) -> Sheet:
    states = _occurring(data, "n_last_", ledger_facts.STATES)
    back = _occurring(data, "n_", ("recalled", "retrieved", "reread"))
    rows = []
    for row in records_of(data):
        cells = _named(row, data) | {"right": str(row["n_success"]), "left the view": str(row["n_left"])}
        cells["before call"] = number(row["left_call_median"], 0)
        cells |= {event: str(row[f"n_{event}"]) for event in back}
        rows.append(cells | {state.replace("_", " "): str(row[f"n_last_{state}"]) for state in states})
    notes = [
        "left the view: episodes in which the first copy did, and before which call (median). "
        "recalled: read back at a command; retrieved: found by the method's own search; reread: shown once more by the "
        "environment.",
        *_explained(states),
        *(
            f"{_label(row, data)}: {row['n_right_without']} right answers without the fact in the last view."
            for row in records_of(data)
            if row["n_right_without"]
        ),
    ]
    lead = [
        *lead,
        *_common(data),
        "Episodes; from the first word for a place on: by where the fact was at the last call.",
    ]
    return _sheet(name, "Where the fact was", lead, data, rows, notes)


def _page_sheet(name: str, lead: Sequence[str], data: pd.DataFrame) -> Sheet:
    states = [
        state for state in ledger_pages.STATES if any(data[f"n_{when}_{state}"].any() for when in ("asked", "last"))
    ]
    rows = []
    for row in records_of(data):
        for when, said in (("asked", "when asked"), ("last", "at the last call")):
            total = sum(row[f"n_{when}_{state}"] for state in ledger_pages.STATES)
            if when == "asked" and not row["n_asked"]:
                continue
            cells = _named(row, data) | {"shown %": number(row["shown_pct"], 1), "pages": str(row["n_pages"])}
            cells |= {"read back": str(row["n_read_back"]), "retrieved": str(row["n_retrieved"]), "when": said}
            rows.append(
                cells
                | {state.replace("_", " "): number(_share(row[f"n_{when}_{state}"], total), 1) for state in states}
            )
    notes = [
        "shown: of the documents' characters, those that the agent was shown in quotes of 200 or more. pages: what one "
        "answer quoted. read back: pages of which something came back at a command; retrieved: found by the method's "
        "own search.",
        *_explained(states),
    ]
    lead = [*lead, *_common(data), "% of the pages that had been shown by then, over all episodes, by where they were."]
    return _sheet(name, "Where the pages were", lead, data, rows, notes)


def _failures(name: str, lead: Sequence[str], data: pd.DataFrame, own: Mapping[str, str]) -> Sheet:
    said = {**own, **OTHER_CAUSES}
    causes = _occurring(data, "n_cause_", tuple(said))
    rows = [
        _named(row, data)
        | {"right": str(row["n_success"]), "failed": str(row["n_wrong"] + row["n_no_answer"])}
        | {cause.replace("_", " "): str(row[f"n_cause_{cause}"]) for cause in causes}
        for row in records_of(data)
    ]
    notes = [f"{cause.replace('_', ' ')}: {said[cause]}." for cause in causes]
    lead = [*lead, *_common(data), "Episodes that were run and not right, each under one cause."]
    return _sheet(f"{name}_failures", "Why episodes failed", lead, data, rows, notes)


def _sheet(
    name: str, title: str, lead: Sequence[str], data: pd.DataFrame, rows: list[dict[str, str]], notes: Sequence[str]
) -> Sheet:
    return Sheet(
        name=name,
        title=f"{title} ({data['benchmark'].iloc[0]})",
        lead=tuple(lead),
        data=data.drop(columns="tasks_repeat_over_seeds"),
        body=pd.DataFrame(rows),
        text_columns=frozenset({*NAMES, "when"}),
        notes=(*notes, *notes_of(data, _names(data))),
    )


def _names(data: pd.DataFrame) -> list[str]:
    return [column for column in NAMES if column == "method" or data[column].nunique() > 1]


def _named(row: Mapping[str, Any], data: pd.DataFrame) -> dict[str, str]:
    cells = {column: row[column] or DASH for column in _names(data)}
    if row["incomplete"]:
        cells["method"] += " †"
    return cells | {"planned/run/error": "/".join(str(row[f"n_{name}"]) for name in ("planned", "run", "error"))}


def _label(row: Mapping[str, Any], data: pd.DataFrame) -> str:
    return ", ".join(row[column] for column in _names(data) if row[column])


def _common(data: pd.DataFrame) -> Iterator[str]:
    same = [f"{c} {data[c].iloc[0]}" for c in NAMES if c not in _names(data) and data[c].iloc[0]]
    if same:
        yield f"All rows: {', '.join(same)}."


def _occurring(data: pd.DataFrame, prefix: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if data[f"{prefix}{name}"].any()]


def _explained(states: Sequence[str]) -> Iterator[str]:
    yield "; ".join(f"{state.replace('_', ' ')}: {STATES[state]}" for state in states) + "."


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
