"""The needle harness: its tasks, the file with the needle, the pages. Configured as shipped."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from needles import ALPHABET, BUDGET, ROOT, SHIPPED, VALUE, make, say

from harness.draw import Draw
from harness.needle import Needle

# ------------------------------------------------------------------------------------------ tasks


def test_a_task_is_named_and_shaped_as_documented() -> None:
    tasks = make(seed=7, n_tasks=5).tasks()
    assert [task.id for task in tasks] == [f"needle/7/{i}" for i in range(5)]
    assert [(task.seed, task.index) for task in tasks] == [(7, i) for i in range(5)]
    for task in tasks:
        assert VALUE.fullmatch(task.facts["value"])
        assert task.facts["values"] == [task.facts["value"]]
        assert task.facts["profile"] == "strict"
        assert len(set(task.facts["codes"])) == 16
        assert all(re.fullmatch(rf"[{ALPHABET}]{{6}}", code) for code in task.facts["codes"])
        assert task.facts["value"] not in task.prompt
        assert task.history == ()


def test_the_same_tasks_whatever_their_number() -> None:
    assert list(make(n_tasks=3).tasks()) == list(make(n_tasks=40).tasks())[:3]


def test_values_and_codes_differ_across_tasks_and_seeds() -> None:
    tasks = [task for seed in (0, 1, 2) for task in make(seed=seed, n_tasks=300).tasks()]
    assert len({task.facts["value"] for task in tasks}) == 900
    assert len({tuple(task.facts["codes"]) for task in tasks}) == 900
    assert len({task.id for task in tasks}) == 900


def test_seed_0_is_a_seed_and_its_first_task_stays_what_it_is() -> None:
    task = make(seed=0).task(0)
    assert task.facts["value"] == "DEDKTVXKTTV2BHEZ2B5SYRR6"
    assert task.facts["value"] != make(seed=1).task(0).facts["value"]


def digest(needle: Needle) -> str:
    parts = [repr(task) for task in needle.tasks()]
    parts += [needle.secrets(needle.task(0)), needle.page(needle.task(1), 5)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def test_nothing_depends_on_pythons_hash() -> None:
    program = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'tests')]}\nimport test_needle_tasks as t\n"
    program += "print(t.digest(t.make()))"
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == digest(make())


def test_the_task_does_not_depend_on_page_size_or_noise() -> None:
    other = make(page_chars=8000, log_share=0.0, noise="words", noise_lines_per_side=5)
    assert list(other.tasks()) == list(make().tasks())


def test_the_prompt_announces_what_will_be_asked_and_the_rules() -> None:
    prompt = make().task(0).prompt
    for said in ("cat secrets.txt", "16 work orders", "next <code>", "submit NEEDLE=<value>", "submit NONE"):
        assert said in prompt
    assert 'exactly the characters after "NEEDLE="' in prompt
    assert "opens only whole, with cat" in prompt
    assert "can be opened only once" in prompt
    assert "submission before the last work order is refused" in prompt
    assert "can be opened again at any time" in make(profile="lenient").task(0).prompt
    assert "ends the task as failed" in make(profile="paper").task(0).prompt


def test_the_paper_profile_draws_2_to_6_work_orders_per_task() -> None:
    tasks = make(profile="paper", n_tasks=200).tasks()
    assert Counter(len(task.facts["codes"]) for task in tasks).keys() == {2, 3, 4, 5, 6}
    assert all(f"carry out {len(task.facts['codes'])} work orders" in task.prompt for task in tasks)


def test_draws_are_sha256_and_fair() -> None:
    key = b"a/1"
    assert Draw("a", 1).take(40) == (hashlib.sha256(key + b"#0").digest() + hashlib.sha256(key + b"#1").digest())[:40]
    draw = Draw("fairness")
    for counts in (
        Counter(draw.text(ALPHABET, 30_000)),
        Counter(draw.below(30) for _ in range(30_000)),
        Counter(draw.choice(ALPHABET) for _ in range(30_000)),
    ):
        assert len(counts) == 30
        assert all(840 < count < 1160 for count in counts.values())  # 1,000 expected, 5 standard deviations
    # 200 of 256: with a plain remainder the first 56 would come twice as often
    low = sum(draw.below(200) < 56 for _ in range(20_000))
    assert 5_300 < low < 5_900
    assert sorted(draw.sample(range(10), 10)) == list(range(10))
    assert len(set(draw.codes("AB", 3, 7, but=["AAA"]))) == 7
    assert "AAA" not in draw.codes("AB", 3, 7, but=["AAA"])


# --------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize("noise", ["codes", "words"])
@pytest.mark.parametrize(("side", "about"), [(2, 570), (5, 1_100), (10, 2_000), (25, 4_500), (30, 5_400), (45, 7_880)])
def test_the_file_at_each_size(side: int, about: int, noise: str) -> None:
    needle = make(noise_lines_per_side=side, noise=noise)
    for task in needle.tasks():
        text = needle.secrets(task)
        value = task.facts["value"]
        assert 500 < len(text) < 8000
        assert len(say(needle.open(task), "cat secrets.txt")) < 8000
        assert abs(len(text) - about) < 0.05 * about
        assert text.count(value) == 1
        at = text.index(value)
        assert at > 120
        assert len(text) - (at + len(value)) > 120
        lines = text.splitlines()
        around = lines[:side] + lines[-side:]
        assert {len(line) for line in around} == {84}
        assert all(line.startswith("not the needle") for line in around)
        inner = "\n".join(lines[side:-side])
        assert "THE NEEDLE FOR THIS TASK" in inner
        assert f"\nNEEDLE={value}\n" in inner
        assert "exact value will be asked for" in inner
        codes = [code for line in around for code in VALUE.findall(line)]
        assert len(set(codes)) == (2 * side if noise == "codes" else 0)


def test_the_file_differs_from_task_to_task() -> None:
    needle = make()
    assert len({needle.secrets(task).replace(task.facts["value"], "") for task in needle.tasks()}) == 3


# -------------------------------------------------------------------------------------- the pages


@pytest.mark.parametrize(("chars", "share"), [(400, 0.0), (780, 0.0), (3650, 0.35), (3650, 1.0), (8000, 0.35)])
@pytest.mark.parametrize("changes", [{}, {"guidance": "next_command"}, {"needles": 3, "reveal": "end"}])
def test_a_page_keeps_to_its_size(chars: int, share: float, changes: Mapping[str, Any]) -> None:
    chars = max(chars, 680) if "needles" in changes else chars
    needle = make(page_chars=chars, log_share=share, **changes)
    for task in needle.tasks():
        for number in range(1, 17):
            size = len(needle.page(task, number))
            assert chars - SHIPPED.limits.page_slack < size <= chars
            assert size > BUDGET["keep_verbatim_chars"] or "needles" not in changes


@pytest.mark.parametrize("size", [1, 3, 50])
def test_sentences_stand_several_to_a_line(size: int) -> None:
    needle = make(log_share=0.0, material__paragraph_sentences=size)
    one = make(log_share=0.0, material__paragraph_sentences=1)
    lines = needle.page(needle.task(0), 3).split("\n")[1:-1]
    half = len(one.page(one.task(0), 3).split("\n")[1:-1]) // 2
    assert len(lines) == pytest.approx(2 * half / size, abs=2)
    assert " ".join(lines) == " ".join(one.page(one.task(0), 3).split("\n")[1:-1])


def test_a_page_is_a_mix_of_prose_and_log_lines() -> None:
    stamp = re.compile(r"2031-04-17T\d\d:\d\d:\d\d\.\d{3}Z ")
    for share in (0.0, 0.35, 1.0):
        needle = make(log_share=share)
        for number in range(1, 17):
            lines = needle.page(needle.task(0), number).split("\n")
            assert re.fullmatch(rf"WORK ORDER {number} of 16: .+", lines[0])
            log = [line for line in lines[1:-1] if stamp.match(line)]
            assert log == sorted(log)
            assert abs(sum(len(line) + 1 for line in log) / 3650 - share) < 0.08


def test_pages_hold_no_value_and_no_code_but_the_next() -> None:
    needle = make()
    for task in needle.tasks():
        pages = [needle.page(task, number) for number in range(1, 17)]
        assert len(set(pages)) == 16
        for number, page in enumerate(pages, start=1):
            assert [code for code in task.facts["codes"] if code in page] == task.facts["codes"][number : number + 1]
            assert task.facts["value"] not in page
            assert "RECORD=" not in page
            assert page.count("NEXT CODE") == (number < 16)
