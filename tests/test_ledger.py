"""Where the fact was, and the pages: every class and every cause, on records whose answer was worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import ledger_facts, ledger_pages
from analysis.ledger_pages import common, length, union

# ----------------------------------------------------------------------------- records made by hand

VALUE = "K7QX"
TEXTS = {
    "system": "You act.",
    "task": "Hand in the value.",
    "say0": "```\ncat notes\n```",
    "seen": f"the value is {VALUE}, between other lines",
    "say1": "```\nlook\n```",
    "other": "nothing of note",
    "recall": "```\n_recall §ab12cd34\n```",
    "back": f"Recalled §ab12cd34 `cat notes`, 39 characters:\nthe value is {VALUE}, between",
    "excerpt": "Recalled §ab12cd34 `cat notes`, an excerpt:\nthe value",
    "note": f"I keep in mind: {VALUE}.\n```\nlook\n```",
    "passages": f"[Passages]\n[turn 0, part 1 of 1]\nthe value is {VALUE}",
    "summary": f"[Summary: the value is {VALUE}.]",
    "empty": "[Summary: some notes were read.]",
    "citation": "§ab12cd34 `cat notes`",
    "cut": "§ab12cd34 `cat n…`",
    "citation of another": "§ab12cd35 `look`",
    "block": "[B3, moved out of view: answer to `cat notes` | 39 characters in /archive/B3.txt]",
    "group": "[G2 = B2-B3, B5, archived, L1: first steps | 3 blocks | 90 characters in /archive/G2.txt]",
    "group with the value": f"[G2 = B2-B3, archived, L1: value {VALUE} | 2 blocks | 90 characters in /archive/G2.txt]",
    "group of others": "[G1 = B4-B5, archived, L1: B3 is elsewhere | 2 blocks | 40 characters in /archive/G1.txt]",
    "board": f"Your status board: {VALUE}",
    "chunk1": f"§ab12cd34, part 1 of 2:\nthe value is {VALUE[:2]}",
    "chunk2": f"§ab12cd34, part 2 of 2:\n{VALUE[2:]}, between",
    "page": "Catalog, page 1 of 1:\n§ab12cd34 `cat notes` (39 characters, exit code 0)",
}
NAMES = list(TEXTS)


def turn(call: int | None, reply: str, result: str, action: str | None, by: str = "environment", **changes: Any) -> Any:
    shown = {"restored": False, "exact": False, "returncode": 0} | changes
    return {
        "call": call, "reply": NAMES.index(reply), "result": NAMES.index(result), "action": action, "answered_by": by,
        "chars": len(TEXTS[result]),
    } | shown  # fmt: skip


READ = turn(1, "say0", "seen", "cat notes")
LOOK = turn(2, "say1", "other", "look")
ENDED = {"correct": None, "wrong": None, "no_answer": "gave_up"}


def hand(
    *views: str | Sequence[str],
    turns: Sequence[Any] = (READ, LOOK),
    fates: Mapping[str, Sequence[str]] | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    method_said: str = "",
    outcome: str = "wrong",
    reason: str | None = None,
    read: bool = True,
) -> dict[str, Any]:
    """A record: the notes are read at call 1, call 2 looks elsewhere, and before the last call ``fates`` befell what
    was in the view. ``views`` are those of the last calls, beside the task."""
    first: list[Sequence[str]] = [[], ["say0", "seen"] if read else []]
    seen = [*first, *([view] if isinstance(view, str) else view for view in views)]
    calls = [
        {"billed": "agent", "messages": [NAMES.index(n) for n in ("system", "task", *view)], "prompt_tokens": 9,
         "text": ""}
        for view in seen
    ]  # fmt: skip
    if method_said:
        calls.insert(2, {"billed": "method", "messages": [0], "prompt_tokens": 9, "text": method_said})
    compaction = {"before_call": 3, "trigger": "forced", "outcome": "done", "fates": fates or {}, "failure": None}
    return {
        "task": "t/0", "index": 0, "outcome": outcome, "reason": reason or ENDED[outcome], "facts": {"value": VALUE},
        "messages": [{"role": "assistant" if "```" in text else "system" if name == "system" else "user",
                      "content": text, "tokens": 3} for name, text in TEXTS.items()],
        "turns": list(turns), "calls": calls, "compactions": [compaction] if fates else [], "events": list(events),
    }  # fmt: skip


def states(record: Mapping[str, Any]) -> list[str]:
    return [row["state"] for row in ledger_facts.calls_of(record)]


def episode(record: Mapping[str, Any]) -> dict[str, Any]:
    (row,) = ledger_facts.episode_of(record)
    return row


KEPT = {"kept": ["0.reply", "0.result", "1.reply", "1.result"]}
GONE = {"dropped": ["0.reply", "0.result"], "kept": ["1.reply", "1.result"]}
REWRITTEN = {"summarised": ["0.reply", "0.result"]}
CITED = {"cited": ["0.result"], "kept": ["0.reply"]}
AWAY = {"archived": ["0.reply", "0.result"]}
SEARCH = {"after_call": 2, "event": "retrieval"}


@pytest.mark.parametrize(
    ("state", "record"),
    [
        ("verbatim", hand(["say0", "seen", "say1", "other"], fates=KEPT)),
        ("verbatim", hand(["seen", "summary"])),
        ("brought_back", hand("passages", fates=AWAY, events=[SEARCH | {"chunks": ["1.1", "0.1"]}])),
        ("carried", hand("note", turns=[READ, turn(2, "note", "other", "look")], fates=GONE)),
        ("carried", hand("board", turns=[READ, turn(2, "note", "other", 'board "K7QX"', "method")], fates=GONE)),
        ("carried", hand("group with the value", turns=[READ, turn(2, "note", "other", "archive")], fates=AWAY)),
        ("summary", hand("summary", fates=REWRITTEN, method_said=f"It is {VALUE}.")),
        ("summary", hand("summary", turns=[READ, turn(2, "note", "other", "look")], fates=REWRITTEN,
                         method_said=f"It is {VALUE}.")),
        # found by search, but not from the turn that showed it
        ("summary", hand("passages", fates=AWAY, events=[SEARCH | {"chunks": ["1.1"]}])),
        ("set_aside", hand("other")),
        ("set_aside", hand("citation of another", fates=KEPT)),
        ("set_aside", hand("empty", turns=[READ, turn(2, "note", "other", "look")], fates={"dropped": ["0.result"]})),
        ("handle", hand("citation", fates=CITED)),
        ("handle", hand("block", fates=AWAY)),
        ("handle", hand("group", fates=AWAY)),
        ("handle", hand("citation", fates=AWAY)),
        ("handle", hand("cut", fates=AWAY)),
        ("handle", hand("page", turns=[READ, turn(2, "say1", "page", "_catalog_first", "method", exact=True)],
                        fates=AWAY)),
        ("search", hand("empty", fates=AWAY, events=[SEARCH | {"chunks": ["1.1"]}])),
        ("hidden", hand("empty", fates=AWAY)),
        ("hidden", hand("citation of another", fates=AWAY)),
        ("hidden", hand("group of others", fates=AWAY)),
        # what an answer of the environment quotes is no handle
        ("hidden", hand("citation", turns=[READ, turn(2, "say1", "citation", "look")], fates=AWAY)),
        ("lost", hand("empty", fates=GONE)),
        ("lost", hand("empty", fates=REWRITTEN, method_said="Some notes were read.")),
        # a reply that is kept in another form, without its thought
        ("lost", hand(["say1", "other"], turns=[READ, turn(2, "note", "other", "look")], fates=GONE)),
        ("lost", hand("group", fates=AWAY, events=[{"after_call": 2, "event": "delete", "blocks": ["B2", "B3"]}])),
        ("unseen", hand("other", turns=[LOOK, LOOK], read=False)),
    ],
)  # fmt: skip
def test_where_the_fact_was_at_the_last_call(state: str, record: dict[str, Any]) -> None:
    before = ["unseen", "unseen" if state == "unseen" else "verbatim"]
    assert states(record) == [*before, state]


def test_a_retrieval_is_known_from_the_next_call_on_and_the_newest_one_counts() -> None:
    at = [
        {"after_call": n, "event": "retrieval", "chunks": [chunk]} for n, chunk in ((1, "0.1"), (2, "1.1"), (3, "0.1"))
    ]
    turns = [READ, LOOK, turn(3, "say1", "other", "look")]
    record = hand("passages", "passages", turns=turns, fates=AWAY, events=at)
    assert states(record)[2:] == ["summary", "brought_back"]
    assert episode(record)["retrieved_call"] == 4


RECALL = turn(3, "recall", "back", "_recall §ab12cd34", "method", restored=True)
TRY = turn(3, "recall", "excerpt", "_recall §ab12cd34", "method", restored=True)


def test_a_recall_brings_it_back_until_it_goes_again() -> None:
    again = turn(4, "say1", "other", "look")
    cited = ["say0", "citation"]
    record = hand(cited, [*cited, "back"], cited, turns=[READ, LOOK, RECALL, again], fates=CITED)
    assert states(record)[2:] == ["handle", "brought_back", "handle"]
    row = episode(record)
    assert (row["read_call"], row["left_call"], row["recalled_call"], row["tried_call"]) == (1, 3, 3, None)
    assert (row["left_compaction"], row["left_trigger"], row["left_fate"]) == (1, "forced", "cited")
    assert row["cause"] == "not_used"  # it stood there at call 4


def test_a_file_of_an_archive_is_read_back_through_the_environment() -> None:
    read = turn(3, "say1", "back", "cat /archive/G2.txt", restored=True)
    record = hand("group", ["group", "back"], turns=[READ, LOOK, read], fates=AWAY)
    assert states(record)[2:] == ["handle", "brought_back"]
    assert (episode(record)["recalled_call"], episode(record)["reread_call"]) == (3, None)
    missed = read | {"result": NAMES.index("excerpt")}
    row = episode(hand("group", ["group", "excerpt"], turns=[READ, LOOK, missed], fates=AWAY))
    assert (row["recalled_call"], row["tried_call"], row["cause"]) == (None, 3, "fetched_in_part")
    elsewhere = missed | {"action": "cat /archive/G1.txt"}
    row = episode(hand("group", ["group", "excerpt"], turns=[READ, LOOK, elsewhere], fates=AWAY))
    assert (row["tried_call"], row["cause"]) == (None, "not_fetched")


def test_what_two_chunks_share_is_there_when_both_are() -> None:
    chunks = [turn(n, "say1", f"chunk{n - 2}", f"_recall_{n} §ab12cd34", "method", exact=True) for n in (3, 4)]
    views = ["citation", ["citation", "chunk1"], ["citation", "chunk1", "chunk2"], ["citation", "chunk2"]]
    record = hand(*views, turns=[READ, LOOK, *chunks, turn(5, "say1", "other", "look")], fates=CITED)
    assert states(record)[2:] == ["handle", "handle", "brought_back", "handle"]
    assert (episode(record)["recalled_call"], episode(record)["tried_call"]) == (4, None)


def test_what_is_read_again_from_the_environment() -> None:
    again = turn(3, "say0", "seen", "cat notes")
    record = hand("empty", ["say0", "seen"], turns=[READ, LOOK, again], fates=GONE)
    assert states(record)[2:] == ["lost", "verbatim"]
    row = episode(record)
    assert (row["reread_call"], row["recalled_call"], row["left_fate"]) == (3, None, "dropped")


def test_what_the_agent_wrote_can_be_behind_a_handle_too() -> None:
    turns = [READ, turn(2, "note", "other", "look")]
    lost = {"dropped": ["0.result"], "archived": ["1.reply"]}
    assert states(hand("group of others", turns=turns, fates=lost))[-1] == "handle"
    assert states(hand("group of others", turns=turns, fates={"dropped": ["0.result", "1.reply"]}))[-1] == "lost"


def test_nothing_is_said_of_errors_and_of_tasks_without_one_fact() -> None:
    record = hand("other")
    for without in (record | {"outcome": "error"}, record | {"facts": {"answer": "A"}}):
        assert list(ledger_facts.calls_of(without)) == list(ledger_facts.episode_of(without)) == []
        assert list(ledger_pages.calls_of(without)) == list(ledger_pages.episode_of(without)) == []


RECALLED = [READ, LOOK, TRY]


@pytest.mark.parametrize(
    ("cause", "record"),
    [
        (None, hand("empty", fates=GONE, outcome="correct")),
        ("lost", hand("empty", fates=GONE)),
        ("lost", hand("empty", fates=GONE, outcome="no_answer")),
        ("lost", hand("empty", fates=REWRITTEN)),
        ("not_fetched", hand("citation", fates=CITED)),
        ("not_fetched", hand("empty", fates=AWAY, outcome="no_answer")),
        ("not_fetched", hand("empty", fates=AWAY, events=[SEARCH | {"chunks": ["1.1"]}])),
        ("not_fetched", hand("other")),
        ("fetched_in_part", hand("citation", ["citation", "excerpt"], turns=RECALLED, fates=CITED)),
        ("not_used", hand(["say0", "seen"], fates=KEPT)),
        ("not_used", hand("summary", fates=REWRITTEN, method_said=VALUE, outcome="no_answer")),
        ("never_read", hand("other", turns=[LOOK, LOOK], read=False)),
        ("never_answered", hand(["say0", "seen"], outcome="no_answer", reason="context_overflow")),
        ("never_answered", hand("empty", fates=GONE, outcome="no_answer", reason="turn_limit")),
        ("cut", hand("empty", fates=GONE, outcome="no_answer", reason="output_cut")),
        ("cut", hand("empty", fates=GONE, outcome="no_answer", reason="malformed")),
        ("refused", hand("empty", fates=GONE, outcome="no_answer", reason="premature")),
        ("never_answered", hand() | {"calls": [], "turns": [], "outcome": "no_answer", "reason": "prefix_too_large"}),
    ],
)
def test_why_an_episode_failed(cause: str | None, record: dict[str, Any]) -> None:
    assert episode(record)["cause"] == cause


# ----------------------------------------------------------------------------- pages made by hand

CHUNKS = [[0, 1000], [1000, 2000], [2000, 2900], [2900, 4000]]
SHOWN = [
    {"parts": [f"[chunk {i + 1} of 4]\n", span]} for i, span in enumerate(CHUNKS)
]  # messages 2 to 5; the reply to all is message 6
WORDS = ["Question: which?", "§ab12cd31 `chunk 1`", "[G1 = B4-B5, archived, L1: more | in /archive/G1.txt]"]  # 7, 8, 9
PARTS = [
    ["Recalled §ab12cd31:\n", [0, 1000]],
    ["Recalled:\n", [0, 400], "\n[...]\n", [700, 1000]],
    ["It said: ", [2000, 2300]],
]


def paged(
    views: Sequence[Sequence[int]], fates: Mapping[str, Sequence[str]], back: Sequence[Any] = (), **changes: Any
) -> dict[str, Any]:
    """A record of the delivery ``replay``: four pages, the question, and calls with these views."""
    messages = [{"content": "sys"}, {"content": "task"}, *SHOWN, {"content": "```\nchunk\n```"}]
    messages += [{"content": text} for text in WORDS] + [{"parts": parts} for parts in PARTS]  # 10, 11, 12
    roles = {0: "system", 6: "assistant"}
    plain = {"reply": 6, "answered_by": "environment", "restored": False, "exact": False, "returncode": 0}
    pages = [plain | {"call": None, "result": 2 + i, "action": f"chunk {i + 1}"} for i in range(4)]
    asked = plain | {"call": None, "result": 7, "action": "question"}
    return {
        "task": "l/0", "index": 0, "outcome": "wrong", "reason": None,
        "facts": {"delivery": "replay", "context_chars": 4000, "answer": "A"},
        "messages": [message | {"role": roles.get(i, "user"), "tokens": 3} for i, message in enumerate(messages)],
        "turns": [*pages, asked, *(plain | each for each in back)],
        "calls": [{"billed": "agent", "messages": [0, 1, *view], "prompt_tokens": 5, "text": ""} for view in views],
        "compactions": [{"before_call": 1, "trigger": "overflow", "outcome": "done", "fates": fates, "failure": None}],
        "events": [],
    } | changes  # fmt: skip


def counts(record: Mapping[str, Any]) -> list[dict[str, int]]:
    rows = list(ledger_pages.calls_of(record))
    assert all(row["pages"] == sum(row[state] for state in ledger_pages.STATES) for row in rows)
    return [{state: row[state] for state in ledger_pages.STATES if row[state]} for row in rows]


def test_where_the_pages_were() -> None:
    # page 1 is cited, 2 in a group, 3 rewritten, 4 still there
    fates = {"cited": ["0.result"], "archived": ["1.result"], "summarised": ["2.result"], "kept": ["3.result"]}
    recall = {"call": 1, "result": 10, "action": "_recall §ab12cd31", "answered_by": "method", "restored": True}
    record = paged([[8, 9, 5, 7], [8, 9, 5, 7, 10]], fates, [recall])
    assert counts(record) == [{"whole": 1, "handle": 2, "summarised": 1}, {"whole": 2, "handle": 1, "summarised": 1}]
    (row,) = ledger_pages.episode_of(record)
    assert (row["asked_call"], row["asked_handle"], row["last_handle"], row["last_whole"]) == (1, 2, 1, 2)
    assert (row["pages"], row["read_back"], row["retrieved"]) == (4, 1, 0)
    assert (row["document_chars"], row["shown_chars"], row["cause"]) == (4000, 4000, "lost")


def test_a_page_in_part() -> None:
    fates = {"cited": ["0.result"], "summarised": ["1.result", "2.result"], "kept": ["3.result"]}
    # an excerpt of page 1, and a summary that quotes page 3
    excerpt = {"call": 1, "result": 11, "action": "_recall §ab12cd31", "answered_by": "method", "restored": True}
    assert counts(paged([[5, 7], [5, 11, 12]], fates, [excerpt])) == [
        {"whole": 1, "handle": 1, "summarised": 2},
        {"whole": 1, "in_part": 2, "summarised": 1},
    ]


def test_pages_that_a_search_may_find() -> None:
    found = [{"after_call": 0, "event": "retrieval", "chunks": ["1.3", "1.4"]}]
    record = paged([[5, 7]], {"archived": ["0.result", "1.result", "2.result"]}, events=found)
    assert counts(record) == [{"whole": 1, "in_part": 1, "search": 2}]
    (row,) = ledger_pages.episode_of(record)
    assert (row["retrieved"], row["read_back"], row["cause"]) == (1, 0, "not_fetched")


def test_pages_without_a_handle_in_view_and_pages_that_are_lost() -> None:
    fates = {"archived": ["0.result", "1.result"], "dropped": ["2.result"]}
    assert counts(paged([[8, 5, 7]], fates)) == [{"whole": 1, "handle": 1, "hidden": 1, "lost": 1}]
    assert counts(paged([[7]], {})) == [{"set_aside": 4}]


def test_a_call_amid_the_history_knows_the_pages_up_to_there() -> None:
    record = paged([[2, 3], [2, 3, 4, 5, 7]], {})
    managing = {"call": 1, "result": 9, "action": "archive", "answered_by": "method"}
    record["turns"].insert(2, record["turns"][0] | managing)
    assert counts(record) == [{"whole": 2}, {"whole": 4}]
    assert next(iter(ledger_pages.episode_of(record)))["asked_call"] == 2


def test_a_line_of_a_file_counts_as_read_back_where_the_file_is_of_one_page() -> None:
    record = paged([[8, 9, 5, 7]], {"archived": ["1.result"]})
    look = {"call": 1, "result": 7, "action": "grep x /archive/G1.txt", "restored": True}
    record["turns"].append(record["turns"][0] | look)
    assert next(iter(ledger_pages.episode_of(record)))["read_back"] == 0
    record["messages"][9]["content"] = "[B5, archived, L1: more | in /archive/B5.txt]"
    record["turns"][-1]["action"] = "grep x /archive/B5.txt"
    assert next(iter(ledger_pages.episode_of(record)))["read_back"] == 1


ALL = [2, 3, 4, 5, 7]
FILES = {"delivery": "files", "context_chars": 9000, "answer": "A"}


@pytest.mark.parametrize(
    ("cause", "record"),
    [
        (None, paged([[7]], {"dropped": ["0.result"]}, outcome="correct")),
        ("lost", paged([[3, 4, 5, 7]], {"dropped": ["0.result"]})),
        ("lost", paged([[3, 4, 5, 7]], {"summarised": ["0.result"]}, facts=FILES)),
        ("never_read", paged([[2, 3, 4, 5]], {}, facts=FILES)),
        ("not_fetched", paged([[3, 4, 5, 7, 8]], {"cited": ["0.result"]})),
        ("not_used", paged([ALL], {})),
        # before the question all was shown, also what is no span
        ("not_used", paged([ALL], {}, facts=FILES | {"delivery": "replay"})),
        ("not_used", paged([[2, 3, 4, 5]], {}, facts=FILES | {"context_chars": 4150})),  # a short last page is no span
        ("not_used", paged([[3, 4, 5, 7], [3, 4, 5, 7]], {"cited": ["0.result"]}, [
            {"call": 1, "result": 10, "action": "_recall §ab12cd31", "answered_by": "method", "restored": True}])),
        ("never_answered", paged([ALL], {}, outcome="no_answer", reason="call_limit")),
        ("cut", paged([ALL], {}, outcome="no_answer", reason="output_cut")),
    ],
)  # fmt: skip
def test_why_an_episode_about_a_document_failed(cause: str | None, record: dict[str, Any]) -> None:
    (row,) = ledger_pages.episode_of(record)
    assert row["cause"] == cause


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=5)


@given(spans, spans)
def test_spans_are_sets_of_characters(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    one, two = ({n for span in each for n in range(*span)} for each in (some, others))
    assert length(union(some)) == len(one)
    assert common(union(some), union(others)) == len(one & two)
