"""The engines that need no model: the scripted reader, on views made by hand and played whole; mock; replay."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from bench import budget
from fakes import RecordingEngine, build, conf, needle, played, rules, run, setup

from arcbench.engines.counting import CountingEngine
from arcbench.engines.replay import ReplayEngine
from arcbench.engines.scripted import announced, next_command
from arcbench.records import EPISODES, read_episodes
from arcbench.text import fill
from arcbench.types import ConfigError, ContextOverflow, EngineError, Message, Request

TEXTS = conf("harness/needle")["texts"]
CITED = conf("method/arc")["texts"]
PAGED = conf("method/arc_paged")["texts"]
VALUE, OTHER = "ABCDEFGHJKMNPQRSTVWXYZ23", "98765432ABCDEFGHJKMNPQRS"
ID = "ab12cd34"
DONE = TEXTS["all_done"]


def prompt(reading: str = "once") -> str:
    return fill(
        TEXTS["prompt"]["file"],
        file="secrets.txt",
        count=16,
        opening=TEXTS["opening"]["whole"],
        reading=TEXTS["reading"][reading],
        early=TEXTS["early"]["refused"],
    )


def records_prompt(reveal: str) -> str:
    """The prompt of many records: ``reveal`` is what it says of the one that is asked for."""
    text = fill(TEXTS["prompt"]["records"], count=16, needles=3, reveal=reveal, early=TEXTS["early"]["refused"])
    return f"{text}\n{code('FIRST2')}"


def code(next_one: str) -> str:
    return fill(TEXTS["next_code"], code=next_one)


def asked(at: str) -> str:
    return fill(TEXTS["asked"], code=at)


def cited(signature: str, form: str = "cited_bare") -> str:
    if form == "cited_bare":
        return fill(CITED[form], id=ID, signature=signature)
    return fill(
        CITED[form],
        id=ID,
        signature=signature,
        chars=4482,
        returncode=0,
        head="a",
        tail="b",
        hint=fill(CITED["hint"], id=ID),
    )


def recalled(signature: str, body: str) -> str:
    return f"{fill(CITED['recalled'], id=ID, signature=signature, chars=9)}\n{body}"


def view(task: str, *body: tuple[str, str] | str) -> list[Message]:
    """Prefix, then turns (command, result) and single user messages."""
    messages = [Message("system", "x"), Message("user", task)]
    for each in body:
        if isinstance(each, str):
            messages.append(Message("user", each))
        else:
            messages += [Message("assistant", f"```\n{each[0]}\n```"), Message("user", each[1])]
    return messages


FILE = f"noise\n{fill(TEXTS['banner'], value=VALUE)}noise\n{code('AAAAAA')}"
READ = ("cat secrets.txt", FILE)
CITED_READ = (READ[0], cited(READ[0]))
LAST = ("next ZZZZZZ", f"page\n{DONE}")

# --------------------------------------------------------------------------------- views made by hand


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (view(prompt()), "cat secrets.txt"),
        (view(prompt(), READ), "next AAAAAA"),
        (view(prompt(), READ, ("next AAAAAA", f"page\n{code('BBBBBB')}\nNext command: next BBBBBB")), "next BBBBBB"),
        (view(prompt(), ("next AAAAAA", f"page NEXT CODE: no\n{code('BBBBBB')}")), "next BBBBBB"),
        (view(prompt(), READ, LAST), f"submit NEEDLE={VALUE}"),
        (view(prompt(), CITED_READ, LAST), f"_recall §{ID}"),
        (view(prompt(), (READ[0], cited(READ[0], "cited")), LAST), f"_recall §{ID}"),
        (view(prompt(), CITED_READ, LAST, (f"_recall §{ID}", recalled(READ[0], FILE))), f"submit NEEDLE={VALUE}"),
        (view(prompt(), CITED_READ, LAST, (f"_recall §{ID}", recalled(READ[0], "ends"))), "submit NONE"),
        (view(prompt(), ("ls", cited("ls")), LAST), "submit NONE"),
        (view(prompt(), LAST), "submit NONE"),
        (view(prompt(), f"[Summary:]\nNEEDLE={VALUE}", LAST), f"submit NEEDLE={VALUE}"),
        (view(prompt(), "[Record:]\n" + '{"facts":["NEEDLE=' + VALUE + '"]}', LAST), f"submit NEEDLE={VALUE}"),
        (view(prompt(), f"[Summary:]\nNEEDLE={VALUE[:20]}…", LAST), "submit NONE"),
        (view(prompt(), f"[Summary:]\nNEEDLE={VALUE[:20]}\n[... 9 characters left out ...]", LAST), "submit NONE"),
        (view(prompt(), f"[turn 0, part 1 of 2]\nNEEDLE={VALUE[:20]}\n[turn 0, part 2 of 2]\nx", LAST), "submit NONE"),
        (view(prompt(), "[Summary:]\nNEEDLE=<value>, NEEDLE=$value, NEEDLE=", LAST), "submit NONE"),
        (view(prompt(), "[Summary:]\nIt is NEEDLE=ab3.", LAST), "submit NEEDLE=ab3"),
        (view(prompt(), (READ[0], FILE.replace(VALUE, "0A1B2C3D4E5F")), LAST), "submit NEEDLE=0A1B2C3D4E5F"),
        (view(prompt(), READ, ("next BBBBBB", f"NEEDLE={OTHER}\n{DONE}")), f"submit NEEDLE={VALUE}"),
        (view(prompt(), ("next BBBBBB", f"NEEDLE={OTHER}\n{DONE}")), "submit NONE"),
        (view(prompt(), f"[Passages:]\n{code('OLDOLD')}", LAST), "submit NONE"),
        (view(prompt("again"), LAST), "cat secrets.txt"),
        (view(prompt("again"), LAST, ("cat secrets.txt", f"{FILE}\n{DONE}")), f"submit NEEDLE={VALUE}"),
        (view(prompt("again"), LAST, ("cat secrets.txt", "an excerpt")), "submit NONE"),
    ],
    ids=[
        "no-turns", "first-code", "guidance", "only-line-ends-count", "all-done-value-visible", "only-a-bare-citation",
        "only-a-citation", "recalled", "recalled-without-the-value", "citation-of-something-else", "nothing",
        "in-a-summary", "in-a-json-record", "half-a-value", "half-a-value-before-a-cut",
        "half-a-value-in-a-passage", "placeholders", "short-value",
        "another-alphabet", "not-what-a-page-quotes", "only-what-a-page-quotes",
        "old-code-in-a-passage", "read-again", "read-again-value-visible", "read-again-in-vain",
    ],
)  # fmt: skip
def test_what_the_reader_does_with_a_view(seen: list[Message], command: str) -> None:
    assert next_command(seen) == command


def test_a_value_that_two_parts_of_a_recall_share_is_read_when_both_are_there() -> None:
    parts = (f"NEEDLE={VALUE[:9]}", f"{VALUE[9:]}\nmore\n", "end")
    said = [f"{fill(PAGED['chunk'], id=ID, chunk=i, chunks=3)}\n{part}" for i, part in enumerate(parts, start=1)]
    turns = [(f"_recall_start §{ID}", said[0]), (f"_recall_next §{ID}", said[1]), (f"_recall_next §{ID}", said[2])]
    system = Message("system", "_catalog_first _recall_start _recall_next")
    done = [
        next_command([system, *view(prompt(), CITED_READ, LAST, *turns[:count])[1:]]) for count in range(len(turns) + 1)
    ]
    assert done == [turns[0][0], turns[1][0], *[f"submit NEEDLE={VALUE}"] * 2]
    # with a part missing between them, or the next one, no half of it is taken for a value
    assert next_command([system, *view(prompt(), CITED_READ, LAST, turns[0], turns[2])[1:]]) == "submit NONE"


START, END = records_prompt(asked("BBBBBB")), records_prompt(TEXTS["reveal"]["end"])
PAGE_B = ("next BBBBBB", f"page\nRECORD={VALUE}\npage\n{code('CCCCCC')}")
PAGE_C = ("next CCCCCC", f"page\nRECORD={OTHER}\npage\n{code('ZZZZZZ')}")
REVEALS = ("next ZZZZZZ", f"page\n{asked('BBBBBB')}\n{DONE}")


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (view(START), "next FIRST2"),
        (view(END), "next FIRST2"),
        (view(START, PAGE_B, PAGE_C, LAST), f"submit NEEDLE={VALUE}"),
        (view(END, PAGE_B, PAGE_C, REVEALS), f"submit NEEDLE={VALUE}"),
        (view(END, PAGE_C, PAGE_B, REVEALS), f"submit NEEDLE={VALUE}"),
        (view(END, PAGE_C, REVEALS), "submit NONE"),
        (view(END, (PAGE_B[0], cited(PAGE_B[0])), PAGE_C, REVEALS), f"_recall §{ID}"),
        (view(END, PAGE_C, REVEALS, (f"_recall §{ID}", recalled(*PAGE_B))), f"submit NEEDLE={VALUE}"),
        (view(END, REVEALS, (f"_recall §{ID}", recalled(*PAGE_C))), "submit NONE"),
        (view(END, f"[Passages:]\nRECORD={VALUE}", REVEALS), f"submit NEEDLE={VALUE}"),
        (view(END, f"[Passages:]\nRECORD={VALUE}\nRECORD={OTHER}", REVEALS), "submit NONE"),
        (view(END, f"`next CCCCCC`: RECORD={OTHER}\n`next BBBBBB`: RECORD={VALUE}", REVEALS), f"submit NEEDLE={VALUE}"),
        (view(END, f"`next CCCCCC`: RECORD={OTHER}", REVEALS), "submit NONE"),
    ],
    ids=[
        "start-no-turns", "end-no-turns", "start", "end", "end-other-order", "end-gone", "end-cited", "end-recalled",
        "another-recalled", "one-passage", "two-passages", "noted", "another-noted",
    ],
)  # fmt: skip
def test_which_of_several_records_the_reader_hands_in(seen: list[Message], command: str) -> None:
    assert next_command(seen) == command


def turn(command: str, result: str) -> str:
    return f"[turn 1, agent]\n```\n{command}\n```\n[turn 1, result]\n{result}\n"


def test_what_a_perfect_summary_keeps() -> None:
    turns = turn(*PAGE_B) + turn(*PAGE_C)
    both = [f"`next BBBBBB`: RECORD={VALUE}", f"`next CCCCCC`: RECORD={OTHER}"]
    assert announced(END, "(none)", turns) == both
    assert announced(START, "(none)", turns) == both[:1]
    assert announced(END, both[0], turn(*PAGE_C)) == both
    assert announced(END, orjson.dumps({"facts": both[:1]}).decode(), turn(*PAGE_C)) == both
    assert announced(END, "(none)", f"...\nRECORD={VALUE}") == [f"RECORD={VALUE}"]
    assert announced(prompt(), "(none)", turn(*READ) + turn("ls", f"RECORD={OTHER}")) == [f"NEEDLE={VALUE}"]
    assert announced(prompt(), f"NEEDLE={VALUE}", turn(*LAST)) == [f"NEEDLE={VALUE}"]
    short = turn(READ[0], FILE.replace(VALUE, "A1b2"))
    assert announced(prompt(), "(none)", f"{short}NEEDLE=<value> NEEDLE=A1…") == ["NEEDLE=A1b2"]


@pytest.mark.parametrize("bound", ["keeps_announced", "head_tail"])
def test_a_method_s_call_is_known_by_its_bill_whatever_its_wording(bound: str) -> None:
    engine = RecordingEngine(window=16_384, summary_bound=bound)
    said = f"{prompt()}\n{'.' * 700}\n{turn(*READ)}{'.' * 700}"
    for text in (f"TASK:\n{prompt()}\nMEMORY SO FAR:\n(none)\nNEW TURNS:\n{turn(*READ)}", said):
        messages = (Message("system", "Write down what matters."), Message("user", text))
        reply = asyncio.run(engine.complete(Request(messages, 600, False, "e", 1, 0, billed="method")))
        assert "```\nnext" not in reply.text
        if bound == "keeps_announced":
            assert reply.text == f"NEEDLE={VALUE}"
        elif text == said:
            assert reply.text == f"{said[:600]}…\n…{said[-600:]}"
    # and an agent's call is one, even where its system prompt sounds like a summariser's
    system = Message("system", conf("method/llm_summary")["system"])
    asked_as_agent = Request((system, *view(prompt())[1:]), 100, False, "e", 1, 0, billed="agent")
    assert asyncio.run(engine.complete(asked_as_agent)).text == "```\ncat secrets.txt\n```"


# ------------------------------------------------------------------------------------------- played

AMPLE = budget(131_072, 4096)
SHAPES = [
    {"profile": profile, "needles": needles, "reveal": reveal, "guidance": guidance}
    for profile in conf("harness/needle")["profiles"]
    for needles, reveal in ((1, "start"), (2, "start"), (2, "end"))
    for guidance in ("none", "next_command")
] + [
    {"needles": 16, "reveal": "end"},
    {"needles": 5, "reveal": "end", "position": "even"},
    {"noise": "words"},
    {"noise_lines_per_side": 5, "page_chars": 4400},
    {"value_chars": 12},
    {"value_chars": 9, "needles": 3, "reveal": "end"},
    {"value_chars": 30, "alphabet": "abcdefXYZ0123", "code_chars": 4, "noise_line_chars": 90},
    {"read": "parts"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(str(value) for value in shape.values()))
def test_with_all_in_view_the_reader_solves_every_form_of_the_task(shape: dict[str, Any]) -> None:
    harness = needle(**shape)
    cell = setup(RecordingEngine(window=131_072), build("method/full_context"), AMPLE, harness, thinking=False)
    for each in harness.tasks():
        record = played(each, cell)
        assert (record["outcome"], record["error"]) == ("correct", None)
        orders = len(each.facts["codes"])
        assert len(record["calls"]) == orders + (2 if harness.needles == 1 else 1)
        refused = {key: count for key, count in record["counters"].items() if key != "orders_done"}
        assert (record["counters"]["orders_done"], set(refused.values())) == (orders, {0})


TIGHT = budget(6000, 512, force_at_calls=(5, 10, 15))


def outcomes(
    name: str, *, bound: str = "keeps_announced", method: dict[str, Any] | None = None, **shape: Any
) -> list[str]:
    harness = needle(page_chars=1500, **shape)
    engine = RecordingEngine(window=TIGHT.window_tokens, summary_bound=bound)
    made = build(f"method/{name}", **(method or {}))
    cell = setup(engine, made, TIGHT, harness, rules=rules(system=conf("config")["rules"]["system"]), thinking=False)
    records = [played(each, cell) for each in harness.tasks()]
    assert {record["error"] for record in records} == {None}
    failures = [failure for record in records for failure in record["method_failures"]]
    return [record["reason"] or record["outcome"] for record in records] + failures


SUMMARISERS = {"llm_summary": {"variant": "x"}, "structured_state": {"variant": "x"}}
RIGHT, GONE = ["correct"] * 3, ["gave_up"] * 3


@pytest.mark.parametrize(
    ("name", "expected", "options"),
    [
        ("full_context", ["context_overflow"] * 3, {}),
        ("sliding_window", GONE, {}),
        ("arc", RIGHT, {}),
        ("arc", RIGHT, {"needles": 16, "reveal": "end"}),
        ("llm_summary", RIGHT, {}),
        ("llm_summary", GONE, {"bound": "head_tail"}),
        ("llm_summary", RIGHT, {"needles": 3}),
        ("llm_summary", RIGHT, {"needles": 3, "reveal": "end"}),
        ("structured_state", RIGHT, {}),
        ("structured_state", GONE, {"bound": "head_tail"}),
        ("structured_state", RIGHT, {"needles": 3, "reveal": "end"}),
        ("sliding_window", RIGHT, {"profile": "lenient"}),
    ],
    ids=str,
)
def test_what_a_perfect_reader_gets_back_under_each_method(
    name: str, expected: list[str], options: dict[str, Any]
) -> None:
    assert outcomes(name, method=SUMMARISERS.get(name), **options) == expected


@pytest.mark.parametrize("max_tokens", [64, 200, 512])
@pytest.mark.parametrize("schema", [None, {"type": "object"}], ids=["prose", "json"])
def test_a_summary_by_both_ends_keeps_to_the_asked_length(max_tokens: int, schema: Any) -> None:
    engine = RecordingEngine(window=16_384, summary_bound="head_tail")
    turns = "".join(f"line {i} of \N{CJK UNIFIED IDEOGRAPH-4E2D} {i * 7919}\n" for i in range(900))
    text = f"TASK:\nx\n\nMEMORY SO FAR:\n(none)\n\nNEW TURNS:\n{turns}"
    system = Message("system", conf("method/structured_state")["system"])
    request = Request((system, Message("user", text)), max_tokens, False, "e", 1, 0, billed="method", schema=schema)
    reply = asyncio.run(engine.complete(request))
    assert reply.completion_tokens < max_tokens
    assert reply.text.count("line 0") == reply.text.count(str(899 * 7919)[-3:]) == 1
    assert schema is None or orjson.loads(reply.text)["facts"][0].startswith("line 0")


def test_the_reader_runs_no_other_model() -> None:
    with pytest.raises(ConfigError, match="^model=qwen3-8b: "):
        build("engine/scripted", model={**conf("model/scripted"), "id": "qwen3-8b"}, window_tokens=100)


# ------------------------------------------------------------------------------- counting, mock, replay


def request(text: str, max_tokens: int, number: int = 1, episode: str = "e") -> Request:
    return Request((Message("system", "x"), Message("user", text)), max_tokens, False, episode, number, 0)


def test_w4_a_preflight_takes_the_last_token_and_no_more() -> None:
    """Field case W4."""
    engine = CountingEngine(id="x", model=conf("model/scripted"), window_tokens=64, concurrency=1)
    size = engine.count(request("hello", 1).messages, thinking=False)
    assert engine.preflight(request("hello", 64 - size)) == size
    with pytest.raises(ContextOverflow, match=f"^{size} prompt \\+ {65 - size} completion > 64 window tokens$"):
        engine.preflight(request("hello", 65 - size))
    with pytest.raises(ConfigError, match="^engine.concurrency=0: "):
        CountingEngine(id="x", model=conf("model/scripted"), window_tokens=64, concurrency=0)


def test_a_mock_reply_is_of_the_asked_length_after_the_asked_delay() -> None:
    engine = build("engine/mock", model=conf("model/scripted"), window_tokens=1000, reply_tokens=80, delay_s=0.05)
    start = time.perf_counter()
    reply = asyncio.run(engine.complete(request("hello", 100)))
    assert time.perf_counter() - start >= 0.05
    assert reply.text.endswith("\n```\nls\n```")
    assert abs(reply.completion_tokens - 80) <= 3
    assert reply.completion_tokens == engine.count_text(reply.text) + 1
    with pytest.raises(ContextOverflow):
        asyncio.run(engine.complete(request("hello", 1000)))
    summary = Message("system", conf("method/llm_summary")["system"])
    own = asyncio.run(engine.complete(Request((summary,), 100, False, "e", 1, 0, billed="method")))
    assert "```" not in own.text


@pytest.mark.parametrize("change", [{"reply_tokens": -1}, {"delay_s": -0.1}], ids=str)
def test_a_mock_that_cannot_be_is_named(change: dict[str, Any]) -> None:
    ((key, value),) = change.items()
    with pytest.raises(ConfigError, match=f"^engine.{key}={value}: "):
        build("engine/mock", model=conf("model/scripted"), window_tokens=1000, **change)


def replay(source: Path | None, window: int = TIGHT.window_tokens) -> ReplayEngine:
    engine: ReplayEngine = build(
        "engine/replay", model=conf("model/scripted"), window_tokens=window, source=source and str(source)
    )
    asyncio.run(engine.start())
    return engine


@pytest.mark.parametrize("name", ["arc", "llm_summary"])
def test_a_replayed_run_gives_the_same_records(tmp_path: Path, name: str) -> None:
    harness = needle(page_chars=1500)
    cell = setup(RecordingEngine(window=6000), build(f"method/{name}", **SUMMARISERS.get(name, {})), TIGHT, harness)
    records = [played(each, cell) for each in harness.tasks()]
    (tmp_path / EPISODES).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    again = setup(replay(tmp_path), cell.make_method, TIGHT, harness)
    assert [played(each, again) for each in harness.tasks()] == list(read_episodes(tmp_path / EPISODES))
    # another page is another prompt: refused by name, never answered with a reply to something else
    other = setup(replay(tmp_path), cell.make_method, TIGHT, needle(page_chars=1600))
    failed = played(harness.tasks()[0], other)
    assert failed["outcome"] == "error"
    assert "another config or code version" in failed["error"]


def test_a_replay_has_what_was_recorded_and_no_more(tmp_path: Path) -> None:
    (tmp_path / EPISODES).write_bytes(b"")
    engine = replay(tmp_path)
    with pytest.raises(EngineError, match="e: call 1 was not recorded in "):
        asyncio.run(engine.complete(request(run("ls"), 5)))
    for source in (None, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=f"^engine.source={source}: must be a run folder"):
            replay(source)
