"""The baselines but for retrieval: what compaction keeps, and that no bad summary is ever stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from bench import METHODS, PREFIX, Bench, budget, method, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbench.recent import weigh
from arcbench.types import ConfigError, Done, EngineError, Message, Method, Nothing, Reply
from baselines.structured_state import SCHEMA, merge

LOSSY = ["sliding_window", "llm_summary", "structured_state", "rag_memory"]
SUMMARISERS = ["llm_summary", "structured_state"]
STATE = {
    "goal": "report the colour",
    "progress": "looked twice",
    "facts": ["the door is green"],
    "files": [],
    "errors": [],
    "open_items": ["report"],
}


def model(messages: Sequence[Message]) -> str:
    """A model that does as it is told, for either summariser."""
    return json.dumps(STATE) if "structured" in messages[0].content else "The door is green."


def observed(played: Method, *turns: Any) -> Method:
    for each in turns:
        asyncio.run(played.observe(each))
    return played


def compacted(played: Method, reason: Literal["forced", "overflow"] = "forced") -> Done:
    done = asyncio.run(played.compact(reason))
    assert isinstance(done, Done)
    return done


def shown(played: Method) -> str:
    return "\n".join(message.content for message in played.view())


def long(index: int, size: int = 100, returncode: int = 0) -> Any:
    """A turn whose observation is long: ``size`` words, all of them naming the turn."""
    return turn(index, " ".join(f"word{index}x{i}" for i in range(size)), returncode=returncode)


# ----------------------------------------------------------------------------------- all methods


@pytest.mark.parametrize("name", ["full_context", *LOSSY])
def test_the_config_names_its_file_and_each_method_says_what_it_costs(name: str) -> None:
    played = method(name, Bench(budget(1000, 100)))
    assert played.id == name
    assert 100 < len(played.promise) < 220
    assert "\n" not in played.promise
    assert list(played.view()) == list(PREFIX)


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("reason", ["forced", "overflow"])
def test_a_second_pass_with_nothing_new_changes_nothing(name: str, reason: Literal["forced", "overflow"]) -> None:
    bench = Bench(budget(1000, 200), model)  # C8
    played = observed(method(name, bench), *(long(i, 60) for i in range(12)))
    first = compacted(played, reason)
    assert "kept" in first.fates.values()
    view, calls, notes = list(played.view()), len(bench.calls), len(bench.notes)
    second = compacted(played, reason)
    assert second.failure is None
    assert set(second.fates.values()) == {"kept"}
    assert list(played.view()) == view
    assert (len(bench.calls), len(bench.notes)) == (calls, notes)


@pytest.mark.parametrize("name", LOSSY)
def test_one_result_too_large_for_the_window_is_no_loop(name: str) -> None:
    bench = Bench(budget(200, 20), model)  # C1
    played = method(name, bench, (Message("system", "rule " * 150), Message("user", "go")))
    observed(played, long(0, 400))
    before = list(played.view())
    for _ in range(3):
        assert set(compacted(played, "overflow").fates.values()) == {"kept"}
        assert list(played.view()) == before  # three passes without a smaller view: the loop ends the episode
    assert bench.calls == []


@pytest.mark.parametrize("name", LOSSY)
def test_a_failed_command_is_treated_like_any_other(name: str) -> None:
    def play(returncode: int) -> tuple[list[Message], Done]:  # C4
        bench = Bench(budget(1000, 200), model)
        played = observed(method(name, bench), long(0, 4000, returncode), *(long(i, 5) for i in range(1, 5)))
        done = compacted(played, "overflow")
        assert bench.count(played.view()) <= bench.budget.compact_to_tokens
        return list(played.view()), done

    assert play(1) == play(0)


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("recent", [1, 2, 3])
def test_no_result_without_its_action_wherever_the_cut_falls(name: str, recent: int) -> None:
    for size in (4, 40, 160):  # C5
        bench = Bench(budget(600, 100, keep_recent_turns=recent, keep_verbatim_chars=30), model)
        played = observed(method(name, bench), turn(0, "a " * size, "a"), turn(1, "b " * size, "b"), long(2, size))
        compacted(played, "overflow")
        pairs_are_whole(played)


def pairs_are_whole(played: Method) -> None:
    """Prefix first, verbatim; then the turns that are left, in order, each reply followed by its result."""
    view = list(played.view())
    assert view[: len(played.prefix)] == list(played.prefix)
    turns = played.turns  # type: ignore[attr-defined]
    replies = [i for i, message in enumerate(view) if message.role == "assistant"]
    assert [view[i] for i in replies] == [each.reply for each in turns]
    assert [view[i + 1] for i in replies] == [each.result for each in turns]
    assert [each.index for each in turns] == sorted({each.index for each in turns})
    assert len(view) - 2 * len(turns) - len(played.prefix) <= (2 if played.id == "rag_memory" else 1)


sizes = st.lists(st.tuples(st.integers(1, 120), st.sampled_from(["", "", "forced", "overflow"])), max_size=14)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(LOSSY),
    steps=sizes,
    window=st.integers(150, 1500),
    verbatim=st.sampled_from([1, 100, 500]),
    says=st.sampled_from([model, lambda messages: messages[-1].content + " ok", lambda _: "w " * 25, lambda _: ""]),
)
def test_views_stay_whole_and_bounded(name: str, steps: Any, window: int, verbatim: int, says: Any) -> None:
    bench = Bench(budget(window, 40, keep_verbatim_chars=verbatim), says)
    played = method(name, bench, summary_max_tokens=30) if name == "llm_summary" else method(name, bench)
    limit = bench.budget.compact_to_tokens
    for index, (size, reason) in enumerate(steps):
        observed(played, long(index, size))
        before = {m.content for each in played.turns for m in (each.reply, each.result)}  # type: ignore[attr-defined]
        if not reason:
            continue
        done = compacted(played, reason)
        pairs_are_whole(played)
        assert {part for part, fate in done.fates.items() if fate == "kept"} >= {
            (each.index, side)
            for each in played.turns
            for side in ("reply", "result")  # type: ignore[attr-defined]
        }
        assert {m.content for m in played.view() if m.role == "assistant"} <= before
        newest = weigh(bench, played.turns[-1])  # type: ignore[attr-defined]
        fixed = [*played.prefix, *played.notice]  # type: ignore[attr-defined]
        if reason == "overflow" and bench.count(fixed) + newest <= limit:
            assert bench.count(played.view()) <= limit
    assert all(bench.count(prompt) + most <= window for prompt, most, _ in bench.calls)


@pytest.mark.parametrize("name", LOSSY)
def test_the_notice_counts_to_the_last_token(name: str) -> None:
    for window in range(2000, 2024):
        bench = Bench(budget(window, 200, keep_verbatim_chars=80), model, unit=len)
        small = {"found": "$passages", "passage": "$turn.$part/$parts$text", "chunk_chars": 9}
        played = method(name, bench, **(small if name == "rag_memory" else {}))
        observed(played, *(turn(i, "o" * (i % 3 + 8), "l", said="l") for i in range(130)))
        compacted(played, "overflow")
        unused = bench.budget.compact_to_tokens - bench.count(played.view())
        assert 0 <= unused < (300 if name in SUMMARISERS else 60)  # of which 200 are set aside for the summary
        view = list(played.view())
        compacted(played, "overflow")
        assert list(played.view()) == view


# ---------------------------------------------------------------------- full_context, sliding_window


def test_full_context_gives_nothing() -> None:
    played = observed(method("full_context", Bench(budget(100, 10))), long(0), long(1))
    view = list(played.view())
    assert len(view) == 6
    assert asyncio.run(played.compact("overflow")) == Nothing(final=False)
    assert asyncio.run(played.compact("forced")) == Nothing(final=False)
    assert list(played.view()) == view


def test_full_context_can_be_made_to_end_at_a_forced_compaction() -> None:
    played = method("full_context", Bench(budget(100, 10)), forced_overflow_is_fatal=True)
    assert asyncio.run(played.compact("forced")) == Nothing(final=True)
    assert asyncio.run(played.compact("overflow")) == Nothing(final=False)


def test_sliding_window_keeps_recent_and_short_turns_and_counts_the_rest() -> None:
    bench = Bench(budget(2000, 200))
    played = observed(method("sliding_window", bench), long(0), turn(1, "short"), *(long(i) for i in range(2, 7)))
    done = compacted(played)
    assert [each.index for each in played.turns] == [1, 4, 5, 6]  # type: ignore[attr-defined]
    assert done.fates[0, "reply"] == done.fates[3, "result"] == "dropped"
    assert done.fates[1, "result"] == done.fates[6, "reply"] == "kept"
    assert "[3 earlier turns" in shown(played)
    observed(played, long(7))
    compacted(played)
    assert "[4 earlier turns" in shown(played)
    assert "[3 earlier turns" not in shown(played)


# ------------------------------------------------------------------------------------ summarisers


def test_a_summary_stands_for_what_it_replaced() -> None:
    bench = Bench(budget(2000, 200), model)
    played = observed(method("llm_summary", bench), *(long(i) for i in range(6)))
    done = compacted(played)
    assert done.failure is None
    assert done.fates[0, "result"] == "summarised"
    assert played.view()[2].content.endswith("\nThe door is green.")
    [(prompt, most, schema)] = bench.calls
    assert (most, schema) == (200, None)  # never more than the reserved completion
    request = prompt[1].content
    parts = [request.index(part) for part in ("TASK:\n", "\nMEMORY SO FAR:\n(none)", "\nNEW TURNS:\n")]
    assert parts == sorted(parts)
    assert PREFIX[0].content in request
    assert PREFIX[1].content in request
    assert "word0x99" in request
    assert "word5x0" not in request
    observed(played, long(6))
    compacted(played)
    assert "MEMORY SO FAR:\nThe door is green.\n" in bench.calls[1][0][1].content
    assert "word0x99" not in bench.calls[1][0][1].content


@pytest.mark.parametrize("name", SUMMARISERS)
def test_the_summariser_fits_the_window_and_reads_everything(name: str) -> None:
    bench = Bench(budget(1000, 100), model)  # W5
    turns = [*(long(i, 250) for i in range(18)), turn(18, "x" * 3000), long(19, 1500), long(20, 20)]
    played = observed(method(name, bench, least_input_chars=20), *turns)
    done = compacted(played, "overflow")
    assert done.failure is None
    assert len(bench.calls) > 5
    assert all(bench.count(prompt) + most <= 1000 for prompt, most, _ in bench.calls)
    read = "".join(prompt[1].content.partition("NEW TURNS:\n")[2] for prompt, _, _ in bench.calls)
    wanted = "".join(
        f"[turn {t.index}, agent]\n{t.reply.content}\n[turn {t.index}, result]\n{t.result.content}\n"
        for t in turns[:-1]
    )
    assert read == wanted
    starts = [prompt[1].content.partition("NEW TURNS:\n")[2][:6] for prompt, _, _ in bench.calls]
    assert starts[:5] == ["[turn "] * 5  # cut inside a turn only where one call cannot hold it
    assert bench.count(played.view()) <= bench.budget.compact_to_tokens


def test_one_turn_larger_than_a_call_is_cut_between_characters() -> None:
    bench = Bench(budget(2600, 200), model, unit=len)  # tokens are characters
    emoji = "\N{INBOX TRAY}\N{PARTY POPPER}" * 2000
    played = observed(method("llm_summary", bench), turn(0, emoji), turn(1, "now"))
    assert compacted(played, "overflow").failure is None
    read = "".join(prompt[1].content.partition("NEW TURNS:\n")[2] for prompt, _, _ in bench.calls)
    assert emoji in read
    assert len(bench.calls) == 3


BAD: dict[str, str | Reply] = {
    "empty": "",
    "empty ": "  \n ",
    "thinking": "<think>it is green",
    "thinking ": "<think>it is green</think>\n",
    "thinking  ": "It is green.\n<think>or",
    "tool_call": "I look again.\n```sh\nlook door\n```",
    "tool_call ": '<tool_call>{"name": "look"}</tool_call>',
    "cut": Reply("The door is", "length", 10, 3, None, 0.0),
    "cut ": Reply("The door is", "stop", 10, 200, None, 0.0),
}


@pytest.mark.parametrize("name", SUMMARISERS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_answer_is_never_stored(name: str, bad: str) -> None:
    answers: list[str | Reply] = []  # C3
    bench = Bench(budget(2000, 200), lambda messages: answers.pop() if answers else model(messages))
    played = observed(method(name, bench), *(long(i) for i in range(6)))
    compacted(played)
    good = played.memory  # type: ignore[attr-defined]
    observed(played, *(long(i) for i in range(6, 9)))
    answers += [BAD[bad]]
    done = compacted(played)
    noun = "summary" if name == "llm_summary" else "state"
    assert done.failure == f"{noun}_{bad.strip()}"
    assert bench.notes == [(f"{noun}_rejected", {"failure": done.failure, "turns": [3, 4, 5]})]
    assert done.fates[5, "reply"] == "dropped"
    assert played.memory == good  # type: ignore[attr-defined]
    notice = played.view()[2].content
    assert good in notice
    assert notice.startswith("[3 earlier turns")
    assert played.view()[3].content == long(6).reply.content
    observed(played, long(9), long(10))
    assert compacted(played).failure is None  # the next one may succeed


@pytest.mark.parametrize("name", SUMMARISERS)
def test_a_failure_without_an_earlier_memory_only_says_how_much_is_gone(name: str) -> None:
    played = observed(method(name, Bench(budget(2000, 200), lambda _: "")), *(long(i) for i in range(6)))
    assert compacted(played).failure is not None
    assert played.view()[2].content.startswith("[3 earlier turns were removed")
    assert "\n" not in played.view()[2].content


def test_a_summary_that_returns_its_input_is_rejected_round_after_round() -> None:
    def echo(messages: Sequence[Message]) -> Reply:  # C2, and it even claims to have stopped by itself
        return Reply(messages[-1].content.partition("NEW TURNS:\n")[2] + " ok", "stop", 0, 1, None, 0.0)

    bench = Bench(budget(1000, 100), echo)
    played = method("llm_summary", bench)
    for index in range(40):
        observed(played, long(index))
        if index % 4 == 3:
            assert compacted(played, "overflow").failure == "summary_not_smaller"
            assert bench.count(played.view()) <= bench.budget.compact_to_tokens
    assert len(bench.notes) == 10


def test_a_summary_over_its_cap_is_rejected_though_it_is_smaller_than_its_input() -> None:
    bench = Bench(budget(2000, 50), lambda _: Reply("w " * 120, "stop", 0, 49, None, 0.0))
    played = observed(method("llm_summary", bench), *(long(i) for i in range(6)))
    assert compacted(played).failure == "summary_too_long"


@pytest.mark.parametrize("name", SUMMARISERS)
def test_no_room_for_a_summary_is_a_failure_and_no_call(name: str) -> None:
    bench = Bench(budget(400, 50), model)
    played = method(name, bench, (Message("system", "rule " * 200), Message("user", "go")))
    observed(played, long(0, 30), long(1, 30), long(2, 145))
    done = compacted(played, "overflow")
    assert str(done.failure).endswith("_no_room")
    assert bench.calls == []
    assert done.fates[1, "result"] == "dropped"


def test_room_for_the_summary_is_made_before_turns_are_kept() -> None:
    bench = Bench(budget(1000, 150), lambda _: "s " * 140)
    played = observed(method("llm_summary", bench), *(long(i, 30) for i in range(30)))  # all short enough to stay
    assert compacted(played, "overflow").failure is None
    assert len(played.turns) > 1  # type: ignore[attr-defined]
    assert bench.count(played.view()) <= bench.budget.compact_to_tokens


@pytest.mark.parametrize(("says", "failure"), [("Green.", None), ("s " * 60, "summary_cut"), ("", "summary_empty")])
def test_a_summary_that_the_newest_turn_leaves_no_room_for_is_shortened_or_dropped(
    says: str, failure: str | None
) -> None:
    answers = [says, "s " * 90]
    bench = Bench(budget(800, 100), lambda _: answers.pop())
    played = observed(method("llm_summary", bench), *(long(i) for i in range(6)))
    assert compacted(played, "overflow").failure is None
    assert "s s s" in shown(played)
    observed(played, long(6, 630))
    assert compacted(played, "overflow").failure == failure
    assert "s s s" not in shown(played)
    assert ("Green." in shown(played)) == (failure is None)
    assert bench.count(played.view()) <= bench.budget.usable_tokens


@pytest.mark.parametrize("name", SUMMARISERS)
def test_a_broken_engine_is_nobodys_summary(name: str) -> None:
    def broken(messages: Sequence[Message]) -> str:
        raise EngineError("connection reset")

    played = observed(method(name, Bench(budget(2000, 200), broken)), *(long(i) for i in range(6)))
    view = list(played.view())
    with pytest.raises(EngineError):
        compacted(played)
    assert list(played.view()) == view


# ------------------------------------------------------------------------------- structured_state


def test_the_state_is_asked_for_by_schema_and_merged() -> None:
    said = [STATE | {"goal": "", "facts": ["the window is red", "the door is green"], "open_items": ["leave"]}, STATE]
    bench = Bench(budget(3000, 300), lambda _: f"```json\n{json.dumps(said.pop())}\n```")
    played = observed(method("structured_state", bench), *(long(i) for i in range(6)))
    assert compacted(played).failure is None
    observed(played, long(6))
    assert compacted(played).failure is None
    assert bench.calls[0][2] is SCHEMA
    assert json.loads(played.memory) == STATE | {  # type: ignore[attr-defined]
        "facts": ["the door is green", "the window is red"],
        "open_items": ["leave"],
    }
    assert '"the door is green"' in played.view()[2].content


@pytest.mark.parametrize(
    "bad", ["no json", "[]", "{}", json.dumps(STATE | {"facts": [1]}), json.dumps(STATE | {"x": 1}), "[" * 9000]
)
def test_an_invalid_state_is_asked_for_once_more(bad: str) -> None:
    said = [json.dumps(STATE), bad]
    bench = Bench(budget(3000, 300), lambda _: said.pop() if said else bad)
    played = observed(method("structured_state", bench), *(long(i) for i in range(6)))
    assert compacted(played).failure is None
    assert len(bench.calls) == 2
    good = played.memory  # type: ignore[attr-defined]
    observed(played, long(6))
    assert compacted(played).failure == "state_invalid"
    assert len(bench.calls) == 4
    assert played.memory == good  # type: ignore[attr-defined]


def test_a_state_that_outgrows_its_cap_forgets_the_oldest_first() -> None:
    count = iter(range(100))

    def more(_: Sequence[Message]) -> str:
        at = next(count)
        return json.dumps(STATE | {"facts": [f"fact {at} a b c d e f g h"], "errors": [f"error {at}"]})

    bench = Bench(budget(3000, 100), more)
    played = method("structured_state", bench)
    for index in range(30):
        observed(played, long(index))
        if index > 3:
            assert compacted(played).failure is None
    state = json.loads(played.memory)  # type: ignore[attr-defined]
    assert state["facts"][-1].startswith("fact 25 ")
    assert state["facts"][0].startswith("fact 2")
    assert state["open_items"] == STATE["open_items"]
    assert state["goal"] == STATE["goal"]
    assert bench.unit(played.memory) <= 100  # type: ignore[attr-defined]


def test_merging_cleans_what_json_can_spell_and_a_tokenizer_cannot_read() -> None:
    new = STATE | {"goal": " \ud83d ", "facts": [" ", "a", "a "], "open_items": [" "]}
    merged = merge(STATE, new)
    assert merged["goal"] == "\\ud83d"
    assert merged["facts"] == ["the door is green", "a"]
    assert merged["open_items"] == ["report"]
    assert merge(merged, new) == merged


# -------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("full_context", "forced_overflow_is_fatal", "no"),
        ("sliding_window", "marker", "gone"),
        ("llm_summary", "summary_max_tokens", 0),
        ("llm_summary", "request", "$task $memory"),
        ("llm_summary", "system", "costs 5$"),
        ("structured_state", "state_max_tokens", "many"),
        ("structured_state", "least_input_chars", True),
        ("rag_memory", "top_k", 0),
        ("rag_memory", "chunk_chars", 1.5),
        ("rag_memory", "retriever", "bm26"),
        ("rag_memory", "bm25_b", 2),
        ("rag_memory", "bm25_k1", "x"),
    ],
)
def test_a_bad_argument_is_one_line_that_names_it(name: str, key: str, value: Any) -> None:
    with pytest.raises(Exception, match=f"method.{key}=") as raised:
        method(name, Bench(budget(1000, 100)), **{key: value})
    cause = raised.value if isinstance(raised.value, ConfigError) else raised.value.__cause__
    assert isinstance(cause, ConfigError)
    assert "\n" not in str(cause)
    assert "must be" in str(cause)


def test_every_method_has_its_config() -> None:
    assert {"full_context", *LOSSY} <= {path.stem for path in METHODS.glob("*.yaml")}
