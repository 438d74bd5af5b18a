"""The shipped needle task with some keys changed, and how a reader plays it by its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from arcbench.types import Action, Step
from harness.needle import Needle, NeedleEnvironment

ROOT = Path(__file__).parent.parent
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
VALUE = re.compile(rf"[{ALPHABET}]{{24}}")
BUDGET = {"keep_verbatim_chars": 500, "presentation_limit_chars": 8000}
SHIPPED = OmegaConf.load(ROOT / "conf" / "harness" / "needle.yaml")


def make(seed: int = 0, page_chars: int = 3650, log_share: float = 0.35, **changes: Any) -> Needle:
    """The shipped configuration with some keys changed (``page__chars`` for ``page.chars``)."""
    config = OmegaConf.create(
        {
            "seed": seed,
            "budget": {**BUDGET, "needle": {"page_chars": page_chars, "log_share": log_share}},
            "harness": SHIPPED,  # copied on the way in
        }
    )
    for key, value in {"n_tasks": 3, **changes}.items():
        OmegaConf.update(config, "harness." + key.replace("__", "."), value)
    try:
        needle = instantiate(config.harness)
    except Exception as error:  # Hydra wraps what a constructor raises
        raise error.__cause__ or error from None
    assert isinstance(needle, Needle)
    return needle


def do(environment: NeedleEnvironment, command: str, mounts: Mapping[str, str] | None = None) -> Step:
    name, *rest = command.split(None, 1)
    return environment.answer(Action(name, rest[0] if rest else "", command), mounts or {})


def say(environment: NeedleEnvironment, command: str) -> str:
    return do(environment, command).observation.text


def last_line(text: str) -> str:
    return text.rsplit("\n", 1)[-1]


def code_in(text: str) -> str:
    match = re.fullmatch(rf"NEXT CODE: ([{ALPHABET}]{{6}})", last_line(text))
    assert match, last_line(text)
    return match[1]


def carry_out(environment: NeedleEnvironment, seen: str) -> list[str]:
    """Do all work orders as a reader does, from the text it saw last; the pages."""
    pages = []
    while not last_line(seen).startswith("ALL WORK ORDERS DONE"):
        seen = say(environment, f"next {code_in(seen)}")
        pages.append(seen)
    return pages
