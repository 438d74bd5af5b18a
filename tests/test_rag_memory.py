"""Retrieval: passages, the two retrievers, and where what they find stands in the view."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import Any, Literal

import bm25s
import pytest
from bench import PREFIX, Bench, budget, method, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbench.types import Action, ConfigError, Done, Message, Observation, Turn
from baselines.rag_memory import RagMemory
from baselines.retrieval import Bm25, Dense, Retriever, ranked

HAS_DENSE = importlib.util.find_spec("sentence_transformers") is not None
DENSE_MODEL = os.environ.get("ARCBENCH_DENSE_MODEL", "")


def rag(bench: Bench, prefix: tuple[Message, ...] = PREFIX, **changes: Any) -> RagMemory:
    made = method("rag_memory", bench, prefix, **changes)
    assert isinstance(made, RagMemory)
    return made


def observe(played: RagMemory, *turns: Turn) -> None:
    for each in turns:
        asyncio.run(played.observe(each))


def compact(played: RagMemory, reason: Literal["forced", "overflow"] = "forced") -> Done:
    done = asyncio.run(played.compact(reason))
    assert isinstance(done, Done)
    return done


def filler(index: int, words: int = 120) -> Turn:
    return turn(index, " ".join(f"noise{index}n{i}" for i in range(words)), f"next {index}")


def found(played: RagMemory) -> str:
    return "\n".join(message.content for message in played.passages)


# ------------------------------------------------------------------------------------- in the view


def test_what_fits_task_and_last_action_comes_back_just_before_the_newest_turn() -> None:
    bench = Bench(budget(3000, 200))
    played = rag(bench)
    observe(played, turn(0, "The colour of the door is green. " + "z " * 300, "look door"), *map(filler, range(1, 8)))
    assert played.passages == ()
    assert bench.notes == []
    done = compact(played)
    assert done.fates[0, "result"] == done.fates[4, "reply"] == "archived"
    assert done.fates[7, "result"] == "kept"
    assert done.failure is None
    view = list(played.view())
    assert view[-3] is played.passages[0]
    assert [message.content for message in view[-2:]] == [
        played.turns[-1].reply.content,
        played.turns[-1].result.content,
    ]
    assert "colour of the door is green" in view[-3].content
    assert view[2].content.startswith("[5 earlier turns")
    [(event, facts)] = bench.notes
    assert event == "retrieval"
    assert facts["chunks"][0] == "0.1"
    assert len(facts["chunks"]) == 4


def test_the_search_follows_the_last_action() -> None:
    played = rag(Bench(budget(3000, 200)), top_k=1)
    observe(played, *map(filler, range(8)))
    compact(played)
    for wanted in (1, 3):
        observe(played, turn(20 + wanted, "ok", f"grep noise{wanted}n5"))
        assert f"[turn {wanted}, part" in found(played)
    observe(played, turn(30, "what?", None, said="no command here"))  # no action: the one before it still counts
    assert "[turn 3, part" in found(played)


def test_a_text_seen_twice_and_removed_once_can_still_be_found() -> None:
    played = rag(Bench(budget(3000, 200)))  # R4
    listing = "door.txt window.txt " + "q " * 300
    observe(played, turn(2, listing, "ls"), *map(filler, range(3, 9)), turn(9, listing, "ls"))
    compact(played)
    assert "[turn 2, part 1 of" in found(played)
    assert "```sh\nls\n```\ndoor.txt" in found(played)


def test_passages_hold_the_whole_turn_in_pieces_of_the_stated_size() -> None:
    whole = Observation("\N{INBOX TRAY}" + "é" * 3000 + "end", note="exit code 1")  # the loop showed less
    cut = Turn(
        0, 1, Message("assistant", "I look."), Action("a", "", "a"), whole, Message("user", "short"), "environment"
    )
    bench = Bench(budget(600, 100, keep_verbatim_chars=10))
    played = rag(bench, top_k=9)
    observe(played, cut, filler(1), filler(2), filler(3))
    compact(played)
    pieces = [text.split("\n", 1)[1] for name, text in played.chunks if name.startswith("0.")]
    assert "".join(pieces) == f"I look.\nexit code 1\n{whole.text}"
    assert [len(piece) for piece in pieces[:-1]] == [800] * 3
    assert 0 < len(pieces[-1]) <= 800


def test_room_for_the_passages_is_made_before_turns_are_kept() -> None:
    bench = Bench(budget(1000, 100))
    played = rag(bench)
    observe(played, *(turn(i, f"item {i} " + "s " * 60, "look") for i in range(20)))  # all short enough to stay
    compact(played, "overflow")
    assert len(played.shown) == 4
    assert len(played.turns) > 1
    assert bench.count(played.view()) <= bench.budget.compact_to_tokens


def test_where_the_newest_turn_leaves_no_room_the_worst_passages_go() -> None:
    bench = Bench(budget(1000, 100))
    played = rag(bench)
    observe(played, *map(filler, range(6)))
    compact(played)
    assert len(played.shown) == 4
    observe(played, filler(6, 400))
    best = list(played.shown)
    compact(played, "overflow")
    assert played.shown == best[: len(played.shown)]
    assert len(played.shown) < 4
    assert bench.count(played.view()) <= bench.budget.compact_to_tokens
    assert bench.notes[-1][1]["chunks"] == [played.chunks[place][0] for place in played.shown]
    observe(played, turn(7, "ok"))
    assert len(played.shown) == 4  # only for that call


def test_the_same_episode_leaves_the_same_notes() -> None:
    def play() -> Any:
        bench = Bench(budget(2000, 200))
        played = rag(bench)
        for index in range(12):
            observe(played, filler(index))
            if index % 5 == 4:
                compact(played)
        return bench.notes, list(played.view())

    assert play() == play()


# -------------------------------------------------------------------------------------- retrievers

DOCUMENTS = [
    "the kettle is on the stove",
    "needle value ABCD23 stands in secrets.txt",
    "文档里的门是绿色的",
    "",
    "Überraschung: die Tür ist GRÜN",
    "!!! ... ???",
]


def bm25() -> Bm25:
    return Bm25(k1=1.5, b=0.75)


@pytest.mark.parametrize(
    ("query", "best"),
    [("cat secrets.txt", 1), ("abcd23", 1), ("grün", 4), ("绿色", 2), ("the stove", 0)],
)
def test_bm25_finds_words_in_any_script(query: str, best: int) -> None:
    index = bm25()
    index.add(DOCUMENTS)
    assert index.best(query, 3)[0] == best
    assert sorted(index.best(query, 99)) == list(range(len(DOCUMENTS)))


def test_bm25_takes_small_and_empty_corpora_and_queries() -> None:
    index = bm25()
    assert index.best("anything", 4) == []
    index.add([])
    index.add(["", "..."])
    assert index.best("anything", 4) == [1, 0]
    index.add(["one thing"])
    assert index.best("", 2) == [2, 1]
    assert index.best("thing", 1) == [2]
    assert index.best("unknown", 4) == [2, 1, 0]
    index.add(["another thing entirely", "thing thing"])
    assert index.best("another", 1) == [3]


WORDS = ["the", "old", "ferry", "at", "sea", "and", "a", "new", "boat"]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=2),
    st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1, max_size=5),
    st.integers(1, 99),
)
def test_bm25_scores_a_grown_index_as_the_package_scores_a_whole_corpus(
    corpus: list[list[str]], asked: list[str], cut: int
) -> None:
    index = Bm25(k1=1.5, b=0.75)
    passages = [" ".join(words) for words in corpus]
    index.add(passages[:cut])
    index.add(passages[cut:])
    whole = bm25s.BM25(k1=1.5, b=0.75)
    whole.index(corpus, show_progress=False)
    assert index.scores(" ".join(asked)) == pytest.approx(whole.get_scores(asked), rel=1e-5, abs=1e-6)


def test_ties_go_to_the_newer_passage() -> None:
    assert ranked([1.0, 3.0, 3.0, 0.0], 3) == [2, 1, 0]
    assert ranked([], 3) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.text(max_size=20), max_size=4), max_size=4), st.text(max_size=20), st.integers(1, 6))
def test_bm25_never_fails_and_never_repeats(batches: list[list[str]], query: str, count: int) -> None:
    index = bm25()
    total = 0
    for batch in batches:
        index.add(batch)
        total += len(batch)
        best = index.best(query, count)
        assert len(best) == len(set(best)) == min(count, total)
        assert all(0 <= place < total for place in best)


def test_a_missing_model_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"method.dense_model=.*nowhere: must be") as raised:
        Dense(model=str(tmp_path / "nowhere"), device="cpu")
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(HAS_DENSE, reason="the extra rag is installed")
def test_dense_without_its_extra_names_the_extra() -> None:
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[rag\]'"):
        Dense(model="any/model", device="cpu")


@pytest.mark.skipif(not HAS_DENSE, reason="needs the extra rag")
def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a sentence-transformers model") as raised:
        Dense(model=str(tmp_path), device="cpu")
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(
    not (HAS_DENSE and DENSE_MODEL), reason="needs the extra rag and ARCBENCH_DENSE_MODEL, a model folder"
)
def test_dense_finds_by_meaning_and_loads_its_model_once() -> None:
    index: Retriever = Dense(model=DENSE_MODEL, device="cpu")
    assert index.best("tea", 3) == []
    index.add([])
    index.add(["The kettle is on the stove.", "The car needs new tyres."])
    index.add(["", "Interest rates went up."])
    assert index.best("boil some water for tea", 2)[0] == 0
    assert index.best("how do I repair a vehicle", 1) == [1]
    assert sorted(index.best("", 9)) == [0, 1, 2, 3]
    again = Dense(model=DENSE_MODEL, device="cpu")
    assert again.model is index.model  # type: ignore[attr-defined]
    played = rag(Bench(budget(3000, 200)), retriever="dense", dense_model=DENSE_MODEL)
    observe(played, turn(0, "The door is painted green. " + "z " * 300, "look"), *map(filler, range(1, 8)))
    compact(played)
    assert "painted green" in found(played)
