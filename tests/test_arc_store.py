"""ARC's store, and ids as agents write them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbench.arc.recalled import Recalled
from arcbench.arc.store import Store, normal_id


def test_an_id_is_the_start_of_sha1_over_signature_and_observation() -> None:
    record = Store().add("cat a", "body", returncode=1, step=4)
    assert record.id == hashlib.sha1(b"cat a\x1fbody").hexdigest()[:8]
    assert (record.signature, record.body, record.returncode, record.steps) == ("cat a", "body", 1, [4])


def test_r4_the_same_action_giving_the_same_observation_is_one_record() -> None:
    """Field case R4."""
    store = Store()
    first = store.add("ls", "X", returncode=0, step=2)
    assert store.add("ls", "X", returncode=0, step=9) is first
    assert (first.steps, len(store)) == ([2, 9], 1)
    assert store.add("ls -l", "X", returncode=0, step=10) is not first
    assert store.add("ls", "Y", returncode=0, step=11) is not first


def padded(prefix: Callable[[bytes], str]) -> Callable[[bytes], str]:
    return lambda data: (prefix(data) + hashlib.sha1(data).hexdigest())[:40]


def test_a_collision_makes_the_new_id_longer_and_the_old_one_still_resolves() -> None:
    store = Store(hex_digest=padded(lambda data: "ab12cd34"))
    records = [store.add("ls", body, returncode=0, step=i) for i, body in enumerate("XYZ")]
    assert [len(record.id) for record in records] == [8, 12, 12]
    assert len({record.id for record in records}) == 3
    assert [store.get(record.id) for record in records] == records
    assert store.add("ls", "Z", returncode=0, step=9) is records[2]
    assert [record.id[:8] for record in records] == ["ab12cd34"] * 3
    assert all(normal_id(record.id) == record.id for record in records)


def test_collisions_go_on_by_four_until_no_id_is_left() -> None:
    store = Store(hex_digest=lambda data: "0" * 40)
    ids = [store.add("ls", str(i), returncode=0, step=i).id for i in range(9)]
    assert [len(id) for id in ids] == [8, 12, 16, 20, 24, 28, 32, 36, 40]
    with pytest.raises(LookupError, match="no id is left"):
        store.add("ls", "9", returncode=0, step=9)
    assert [store[id].body for id in ids] == [str(i) for i in range(9)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text("xy", max_size=3)), max_size=30), st.integers(0, 2))
def test_no_body_is_ever_lost_however_ids_collide(stored: list[tuple[str, str]], width: int) -> None:
    digest = padded(lambda data: "0" * (4 * width) + hashlib.sha1(data).hexdigest()[:1] * 8)
    store = Store(hex_digest=digest)
    ids = [store.add(signature, body, returncode=0, step=i).id for i, (signature, body) in enumerate(stored)]
    assert [(store[id].signature, store[id].body) for id in ids] == stored
    assert len(store) == len(set(stored)) == len(set(ids))
    assert sorted(step for id in set(ids) for step in store[id].steps) == list(range(len(stored)))


@pytest.mark.parametrize(
    "written",
    [
        "§ab12cd34",
        "ab12cd34",
        "[§ab12cd34]",
        "§AB12CD34",
        "§ab12cd34.",
        " `§ab12cd34` ",
        '"ab12cd34"',
        "ａｂ１２ｃｄ３４",
    ],
)
def test_r1_one_normal_form_of_an_id(written: str) -> None:
    """Field case R1."""
    assert normal_id(written) == "ab12cd34"


@pytest.mark.parametrize(
    "written", ["", "§", "§ab12cd34 §00000000 extra", "ab12cd3", "ab12cd345", "ab12cd3g", "ab12 cd34", "all"]
)
def test_r3_what_is_not_one_id(written: str) -> None:
    """Field case R3."""
    assert normal_id(written) is None


def test_nearest_ids() -> None:
    store = Store(hex_digest=padded(lambda data: data.rpartition(b"\x1f")[2].decode()))
    for id in ("ab12cd34", "ab12cdff", "00000000"):
        store.add("ls", id, returncode=0, step=0)
    assert store.nearest("ab12cd35", 2) == ["ab12cd34", "ab12cdff"]


def test_recalled_bodies_leave_least_recently_used_first() -> None:
    held = Recalled(10)
    assert [held.use(id, 4) for id in "abac"] == [[], [], [], ["b"]]
    assert (held.ids(), held.total_chars) == (("a", "c"), 8)
    assert held.use("d", 10) == ["a", "c"]
    held.remove("d")
    assert held.total_chars == 0
