"""Excerpts, the policy for what is not valid Unicode, templates, and which turns a compaction leaves alone."""

from __future__ import annotations

from typing import Literal

import orjson
import pytest
from bench import PREFIX, Bench, budget, turn
from hypothesis import given
from hypothesis import strategies as st

from arcbench.recent import fates, messages, split, weigh
from arcbench.text import admit, excerpt, fill, restore
from arcbench.types import Budget, ConfigError

OMITTED = "[... $chars left out ...]"

# --------------------------------------------------------------------------------------- excerpts


@given(st.text(max_size=60), st.integers(1, 50))
def test_an_excerpt_is_both_ends_in_equal_halves_and_says_what_is_missing(text: str, limit: int) -> None:
    shown = excerpt(text, limit, OMITTED)
    if len(text) <= limit:
        assert shown == text
        return
    head, tail = limit - limit // 2, limit // 2
    assert 0 <= head - tail <= 1
    line = f"\n[... {len(text) - limit} left out ...]\n"
    assert shown == text[:head] + line + text[len(text) - tail :]
    assert len(shown) == limit + len(line)


@pytest.mark.parametrize("limit", [100, 101, 102, 103, 104, 1999, 2000, 2050])
def test_c6_no_half_character_at_a_cut(limit: int) -> None:
    """Field case C6."""
    text = "x" * 1999 + "\N{INBOX TRAY}" + "y" * 50
    head, _, tail = excerpt(text, limit, OMITTED).partition(f"\n[... {2050 - limit} left out ...]\n")
    assert len(head + tail) == min(limit, 2050)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert tail.startswith("\N{INBOX TRAY}") == (limit in (102, 103))


# ---------------------------------------------------------------------------------------- Unicode


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"ok\x00\xff\xfe\xc3(\n", "ok\x00\\xff\\xfe\\xc3(\n"),
        ("a\ud83d", "a\\ud83d"),
        (b"C:\\x41 \xff", "C:\\\\x41 \\xff"),
        ("\\ud83d \ud83d", "\\\\ud83d \\ud83d"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
    ids=["C7-bytes", "C7-lone-surrogate", "backslash-in-bytes", "backslash-in-text", "surrogate-in-bytes"],
)
def test_bad_unicode_is_escaped_reversibly(raw: str | bytes, shown: str) -> None:
    """Field case C7."""
    assert admit(raw) == (shown, True)
    assert restore(shown) == raw
    assert orjson.loads(orjson.dumps(shown)) == shown


@pytest.mark.parametrize("raw", ["", "C:\\x41 \\ud83d", "\u2028\u2029\x85\x0b\x1c\x00", "🎉"])
def test_valid_text_is_left_alone(raw: str) -> None:
    assert admit(raw) == admit(raw.encode()) == (raw, False)


@given(st.binary(max_size=40) | st.text(st.characters(codec=None, exclude_categories=()), max_size=20))
def test_whatever_enters_can_be_had_back(raw: str | bytes) -> None:
    text, escaped = admit(raw)
    text.encode("utf-8")
    plain = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    assert (restore(text) == raw) if escaped else (text == plain)


# -------------------------------------------------------------------------------------- templates


def test_a_template_is_filled_once_and_a_value_is_never_expanded() -> None:
    assert fill("$a and ${b}, $$", a="$b", b="{a}") == "$b and {a}, $"


@pytest.mark.parametrize("values", [{}, {"a": 1, "c": 2}], ids=["missing", "unknown"])
def test_a_template_takes_exactly_its_places(values: dict[str, int]) -> None:
    with pytest.raises(KeyError):
        fill("$a", **values)


# ----------------------------------------------------------------------------------- the recent turns


def turns(*sizes: int) -> list[object]:
    return [turn(i, "word " * size) for i, size in enumerate(sizes)]


def indices(some: object) -> list[int]:
    return [each.index for each in some]  # type: ignore[attr-defined]


def divided(sizes: tuple[int, ...], reason: Literal["forced", "overflow"], limits: Budget) -> tuple[list[int], ...]:
    """Turn indices: older, inline, recent. A turn of size n has n + 7 tokens."""
    found = split(turns(*sizes), bench=Bench(limits), reason=reason, fixed=PREFIX)  # type: ignore[arg-type]
    assert indices(found.kept) == sorted(indices(found.inline) + indices(found.recent))
    assert sorted(indices(found.older) + indices(found.kept)) == list(range(len(sizes)))
    return indices(found.older), indices(found.inline), indices(found.recent)


@pytest.mark.parametrize(
    ("sizes", "reason", "recent"),
    [
        ((200, 200, 200, 200, 200), "forced", [2, 3, 4]),  # three turns
        ((200, 200, 200, 300, 600), "forced", [3, 4]),  # 300 + 600 fit a quarter of 4,000
        ((200, 200, 200, 386, 600), "forced", [3, 4]),  # to the token: 393 + 607 = 1,000
        ((200, 200, 200, 387, 600), "forced", [4]),
        ((200, 200, 200, 200, 9000), "forced", [4]),  # the newest stays whatever its size
        ((200, 200, 200, 200, 200), "overflow", [2, 3, 4]),
        ((200, 200, 200, 200, 2300), "overflow", [4]),  # compact_to_tokens beats keep_recent_turns
    ],
)
def test_recent_turns_by_number_and_by_tokens(
    sizes: tuple[int, ...], reason: Literal["forced", "overflow"], recent: list[int]
) -> None:
    older, inline, kept = divided(sizes, reason, budget(4096, 96, keep_verbatim_chars=1))
    assert (older, inline, kept) == ([i for i in range(5) if i not in recent], [], recent)


def test_short_older_turns_stay_while_there_is_room_newest_first() -> None:
    sizes = (30, 30, 500, 30, 30, 30, 30)
    assert divided(sizes, "forced", budget(4096, 96)) == ([2], [0, 1, 3], [4, 5, 6])

    older, inline, recent = divided(sizes, "overflow", budget(350, 50))
    assert (older, inline, recent) == ([0, 1, 2], [3, 4], [5, 6])
    room = budget(350, 50).compact_to_tokens - Bench(budget(350, 50)).count(PREFIX)
    used = sum(size + 7 for i, size in enumerate(sizes) if i in inline + recent)
    assert used <= room < used + 37
    # to the token: 276 are just enough for the prefix and seven turns of 37
    assert divided((30,) * 9, "forced", budget(510, 50)) == ([0, 1], [2, 3, 4, 5], [6, 7, 8])
    assert divided((30,) * 9, "forced", budget(509, 50)) == ([0, 1, 2], [3, 4, 5], [6, 7, 8])


@pytest.mark.parametrize(
    ("reason", "reserve", "recent"),
    [("overflow", 1762, [2, 3, 4]), ("overflow", 1763, [3, 4]), ("forced", 1763, [2, 3, 4])],
)
def test_on_an_overflow_the_recent_turns_leave_room_for_what_is_added(
    reason: Literal["forced", "overflow"], reserve: int, recent: list[int]
) -> None:
    bench = Bench(budget(4096, 96))
    found = split(turns(*[200] * 5), bench=bench, reason=reason, fixed=PREFIX, reserve_tokens=reserve)  # type: ignore[arg-type]
    assert indices(found.recent) == recent


def test_where_messages_went_and_in_which_order() -> None:
    found = split(turns(9, 900, 9, 9, 9), bench=Bench(budget(4096, 96)), reason="forced", fixed=())  # type: ignore[arg-type]
    assert fates(found, "dropped") == {
        (i, part): "dropped" if i == 1 else "kept" for i in range(5) for part in ("reply", "result")
    }
    roles = [message.role for message in messages(found.kept)]
    assert roles == ["assistant", "user"] * 4
    assert weigh(Bench(budget(4096, 96)), found.recent[0]) == 16


# ------------------------------------------------------------------------------------------ budget


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"window_tokens": 96}, "budget.completion_tokens=96"),
        ({"window_tokens": True}, "budget.window_tokens=True"),
        ({"keep_recent_turns": 0}, "budget.keep_recent_turns=0"),
        ({"keep_recent_turns": 2.5}, "budget.keep_recent_turns=2.5"),
        ({"compact_to_share": 1.5}, "budget.compact_to_share=1.5"),
        ({"keep_recent_share": 0}, "budget.keep_recent_share=0"),
        ({"recall_max_chars": 16001}, "budget.recall_max_chars=16001"),
        ({"force_at_calls": (5, 5)}, r"budget.force_at_calls=\[5, 5\]"),
        ({"force_at_calls": (0,)}, r"budget.force_at_calls=\[0\]"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_named(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: [^\n]+$"):
        budget(**{"window": 4096, "completion": 96} | changes)  # type: ignore[arg-type]
