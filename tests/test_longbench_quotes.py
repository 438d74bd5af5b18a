"""Spans of a document in place of copies: what was packed comes back, and pages take next to nothing."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from longbench import made, row, shared, written

from arcbench.text import excerpt
from arcbench.transcript import content_of
from arcbench.types import ConfigError
from harness.longbench_quotes import Quotes
from harness.longbench_rows import chunk_bounds

DOCUMENT = "".join(f"{i}: {i * 7919 % 1009} boats lay in the harbour of town {i * 31 % 97}\n" for i in range(1500))
BOUNDS = chunk_bounds(DOCUMENT, 6000)
PAGES = [DOCUMENT[a:b] for a, b in pairwise(BOUNDS)]


def quotes(text: str = DOCUMENT, most: int = 6000) -> Quotes:
    return Quotes(lambda: text, lambda: chunk_bounds(text, most))


def test_a_page_is_its_span():
    assert quotes().pack(PAGES[3]) == [[BOUNDS[3], BOUNDS[4]]]
    assert quotes().pack(f"[chunk 4 of 17]\n{PAGES[3]}") == ["[chunk 4 of 17]\n", [BOUNDS[3], BOUNDS[4]]]


def test_both_ends_of_a_cut_page_are_spans():
    shown = f"a note\n{excerpt(PAGES[2], 2000, '[... $chars characters left out ...]')}"
    parts = quotes().pack(shown)
    assert parts is not None
    left_out = f"\n[... {len(PAGES[2]) - 2000} characters left out ...]\n"
    assert [part for part in parts if isinstance(part, str)] == ["a note\n", left_out]
    assert quotes().unpack(parts) == shown


def test_a_page_in_two_messages_is_two_spans():
    packer = quotes()
    half = len(PAGES[5]) // 2
    first, second = f"PART 1\n{PAGES[5][:half]}", f"PART 2\n{PAGES[5][half:]}"
    assert packer.pack(first) == ["PART 1\n", [BOUNDS[5], BOUNDS[5] + half]]
    assert packer.pack(second) == ["PART 2\n", [BOUNDS[5] + half, BOUNDS[6]]]


def test_pages_among_other_text_are_found():
    content = f"TASK:\nsay\n{PAGES[0]}{PAGES[1]}\n```\nchunk 9\n```\n{PAGES[8]}the end"
    packed = quotes().pack(content)
    assert packed == ["TASK:\nsay\n", [0, BOUNDS[2]], "\n```\nchunk 9\n```\n", [BOUNDS[8], BOUNDS[9]], "the end"]


def test_what_quotes_nothing_long_is_left_alone():
    assert quotes().pack("") is None
    assert quotes().pack(PAGES[3][:150]) is None
    assert quotes().pack("other words " * 500) is None


def test_a_short_message_does_not_load_the_document():
    def text() -> str:
        raise AssertionError("asked for")

    assert Quotes(text, text).pack("```\nsubmit ANSWER=B\n```") is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_was_packed_comes_back(data):
    document = data.draw(
        st.sampled_from([DOCUMENT, DOCUMENT.replace("\n", " "), "ab" * 30_000, "📥\r\n" * 3000, "\n" * 9000])
    )
    pieces = st.one_of(
        st.text(max_size=30),
        st.tuples(st.integers(0, len(document)), st.integers(0, 9000)).map(lambda at: document[at[0] : at[0] + at[1]]),
        st.integers(0, 20).map(lambda i: document[i * 3000 : (i + 2) * 3000]),
    )
    packer = quotes(document, data.draw(st.sampled_from([3000, 6000])))
    for content in data.draw(st.lists(st.lists(pieces, max_size=5).map("\n".join), max_size=4)):
        parts = packer.pack(content)
        if parts is not None:
            assert all(parts)
            restored = orjson.loads(orjson.dumps(parts))
            assert packer.unpack(restored) == content
            assert len(orjson.dumps(parts)) < len(orjson.dumps(content))


def test_a_record_is_unpacked_by_the_data_it_was_played_on(tmp_path):
    harness = made(written(tmp_path, row(0, context=DOCUMENT), row(1)))
    facts = harness.tasks()[0].facts
    assert harness.quotes(facts).pack(PAGES[3]) == [[BOUNDS[3], BOUNDS[4]]]
    other = made(written(tmp_path, row(0, context=DOCUMENT + "."), name="other.jsonl"))
    with pytest.raises(
        ConfigError, match=r"^harness\.data_files=.*other\.jsonl: has no row row0 with the context that"
    ):
        other.quotes(facts)
    with pytest.raises(ConfigError, match="has no row gone"):
        harness.quotes({**facts, "row": "gone"})


def test_real_pages_take_next_to_nothing():
    harness = made(shared("longbench_v2_24.jsonl"))
    whole = packed = 0
    for task, document in zip(harness.tasks(), harness.rows.hard, strict=True):
        text, bounds = document.text(), document.bounds(6000)
        packer = harness.quotes(task.facts)
        for start, end in pairwise(bounds):
            parts = packer.pack(f"[chunk]\n{text[start:end]}")
            assert (parts is None) == (end - start < 192)  # with the note above it, shorter than any quote
            if parts:
                assert packer.unpack(parts) == f"[chunk]\n{text[start:end]}"
                whole += end - start
                packed += len(orjson.dumps(parts))
    assert packed < whole / 100


def test_a_message_kept_as_spans_says_what_it_needs() -> None:
    with pytest.raises(LookupError, match="kept as spans of a document: pass the quotes of its harness"):
        content_of({"role": "user", "parts": [[0, 4]], "tokens": 1})
