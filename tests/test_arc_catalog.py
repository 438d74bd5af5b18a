"""arc_paged: ids, and the catalog outside the prompt."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from paged import Player

from arcbench.arc.catalog import Catalog, OccurrenceStore
from arcbench.types import ConfigError, Observation

PAGE = "(closed to save space)"


# --------------------------------------------------------------------------------------------------- ids


def test_an_id_is_the_index_and_then_a_fingerprint() -> None:
    store = OccurrenceStore(4)
    records = [store.add("cat a", "body", returncode=1, step=step) for step in (4, 9)]
    print_ = hashlib.sha1(b"cat a\x1fbody").hexdigest()[:8]
    assert [record.id for record in records] == [f"0001{print_}", f"0002{print_}"]
    assert [store.get(record.id) for record in records] == records
    assert (records[1].signature, records[1].body, records[1].returncode, records[1].steps) == ("cat a", "body", 1, [9])


@pytest.mark.parametrize("wrong", ["0001", "0000{print}", "0003{print}", "0001ffffffff", "{print}", "0001{print}0000"])
def test_an_id_that_is_not_wholly_right_is_unknown(wrong: str) -> None:
    store = OccurrenceStore(4)
    for _ in range(2):
        record = store.add("cat a", "body", returncode=0, step=0)
    assert store.get(wrong.format(print=record.id[4:])) is None


def test_the_width_of_the_index_is_used_up() -> None:
    store = OccurrenceStore(4)
    for step in range(65535):
        record = store.add("ls", "", returncode=0, step=step)
    assert (record.id[:4], len(store), store.get(record.id)) == ("ffff", 65535, record)
    with pytest.raises(OverflowError, match="the store is full: method.index_chars=4 holds 65535 records"):
        store.add("ls", "", returncode=0, step=65535)
    assert len(store) == 65535


@pytest.mark.parametrize(("width", "allowed"), [(0, "of at least 4"), (6, "must be a multiple of 4"), ("4", "whole")])
def test_a_bad_width_is_named(width: Any, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"^method.index_chars={width}: .*{allowed}"):
        OccurrenceStore(width)


def test_a_wider_index_gives_longer_ids() -> None:
    player = Player.letters(index_chars=8, wrapper_tokens=60)
    player.do("cat a", "body")
    assert (len(player.id(0)), player.id(0)[:8]) == (16, "00000001")
    assert [part.observation.text for part in player.recall(player.id(0))] == ["body"]


# ----------------------------------------------------------------------------------------------- catalog


def test_pages_of_a_catalog() -> None:
    catalog = Catalog(2)
    assert (catalog.pages, list(catalog.page(1))) == (0, [])
    for stub in "abcde":
        catalog.add(stub)
    assert catalog.pages == 3
    assert ["".join(catalog.page(number)) for number in (1, 2, 3, 4)] == ["ab", "cd", "e", ""]


def test_a_stub_says_what_it_stands_for() -> None:
    player = Player.letters()
    player.do("cat a", "body", returncode=3)
    page = player.ask("_catalog_first")
    assert page.observation == Observation(
        f"§{player.id(0)} `cat a` (4 characters, exit code 3)", note="Catalog, page 1 of 1:", exact=True
    )
    assert player.view[-1] is page.result


def test_the_catalog_is_paged_through_and_ends() -> None:
    player = Player.letters()
    past = "There is no such page; the catalog has {} pages. Start again with _catalog_first."
    for command in ("_catalog_first", "_catalog_next"):
        assert player.ask(command).observation == Observation(past.format(0), 1)
    for i in range(5):
        player.do(f"cat {i}", "body")
    notes = [player.ask(f"_catalog_{which}").observation.note for which in ("next", "next", "first", "next", "next")]
    assert notes == [f"Catalog, page {number} of 3:" for number in (1, 2, 1, 2, 3)]
    for _ in range(2):
        assert player.ask("_catalog_next").observation == Observation(past.format(3), 1)
    for i in range(2):
        player.do(f"cat {i}", "body")
    assert player.ask("_catalog_next").observation.note == "Catalog, page 4 of 4:"


def test_one_page_is_open_at_a_time() -> None:
    player = Player.letters()
    for i in range(4):
        player.do(f"cat {i}", "body")
    first, second = player.ask("_catalog_first"), player.ask("_catalog_next")
    assert player.visible([first, second]) == [second]
    assert player.view[-3].content == f"Catalog, page 1 of 2:\n{PAGE}"
    assert player.told is not None
    assert player.told.fates[first.index, "result"] == "archived"
    assert player.told.fates[second.index, "result"] == "kept"
    missed = player.ask("_catalog_next")
    assert player.visible([second, missed]) == [second, missed]


def test_a_page_is_closed_when_its_turn_is_no_longer_recent() -> None:
    player = Player.letters()
    player.do("cat a", "body")
    page = player.ask("_catalog_first")
    for _ in range(9):
        player.hear("Your reply was empty.", said="x" * 40)
    assert player.visible([page]) == []
    assert "Catalog, page" not in player.text


@pytest.mark.parametrize("signature", ["cat " + "x" * 5000, "…" * 300, "echo " + "🎉" * 900, "=" * 9000, "a" * 9 + "…"])
@pytest.mark.parametrize("make", [Player.letters, Player.qwen])
def test_a_long_signature_gives_way(make: Any, signature: str) -> None:
    player = make()
    player.do(signature, "body")
    stub = player.ask("_catalog_first").observation.text
    assert player.bench.count_text(f"{stub}\n") <= player.paged.stub_tokens
    begun, dots, rest = stub.partition("…` (4 characters")
    assert signature.startswith(begun.partition("`")[2].rstrip("…"))
    assert player.paged.store.records[0].signature == signature
    assert (dots, rest) == ("…` (4 characters", ", exit code 0)")
