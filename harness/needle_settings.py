"""The settings of the needle harness, and one line for each that makes no sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from arcbench.checks import one_of, template, whole
from arcbench.types import ConfigError
from harness.settings import keys_of, list_of, mapping_of, text_of

# The places of each text, and those of a material's shapes that no list of choices fills.
TEXT_PLACES: Mapping[str, tuple[str, ...]] = {
    "prompt.file": ("file", "count", "opening", "reading", "early"),
    "prompt.records": ("count", "needles", "reveal", "early"),
    "opening.whole": (),
    "opening.parts": (),
    "reading.once": (),
    "reading.again": (),
    "early.refused": (),
    "early.accepted": (),
    "early.ends": (),
    "reveal.end": (),
    "asked": ("code",),
    "banner": ("value",),
    "noise.codes": ("phrase", "filler"),
    "noise.words": ("phrase", "filler"),
    "header": ("number", "count", "order"),
    "record": ("value",),
    "next_code": ("code",),
    "all_done": (),
    "next_command": ("command",),
    "notices.rotated": (),
    "notices.partial": ("file",),
    "notices.no_code": (),
    "notices.wrong_code": (),
    "notices.done": (),
    "notices.premature": ("left",),
    "notices.premature_last": (),
    "notices.usage": (),
    "notices.accepted": (),
    "notices.gave_up": (),
}
MADE_UP = ("time", "hex", "num", "ms")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What one profile fixes: whether the file can be read again, how many work orders there are (a
    number, or the two ends of a range drawn per task), and what becomes of a ``submit`` before the
    last work order: ``refused`` (and counted), ``accepted`` as the answer, or it ``ends`` the episode."""

    rereadable: bool
    work_orders: int | Sequence[int]
    submit_early: str

    @property
    def orders(self) -> tuple[int, int]:
        """The fewest and the most work orders."""
        if isinstance(self.work_orders, int):
            return self.work_orders, self.work_orders
        return self.work_orders[0], self.work_orders[1]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Size of a work order's page in characters, and the share of it that is log text."""

    chars: int
    log_share: float


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes in characters that the file and the pages must keep to."""

    fixture_above: int
    fixture_below: int
    preview: int
    page_least: int
    page_most: int
    page_slack: int


@dataclass(frozen=True, kw_only=True)
class Texts:
    """What the agent is told; the places of each text are named in the configuration."""

    prompt: Mapping[str, str]
    opening: Mapping[str, str]
    reading: Mapping[str, str]
    early: Mapping[str, str]
    reveal: Mapping[str, str]
    asked: str
    banner: str
    noise: Mapping[str, str]
    header: str
    record: str
    next_code: str
    all_done: str
    next_command: str
    notices: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Material:
    """What noise and pages are composed of: templates, and for each of their places a list of choices.
    The places ``time``, ``hex``, ``num`` and ``ms`` are made up."""

    pool_lines: int
    paragraph_sentences: int
    date: str
    orders: Sequence[str]
    noise: Sequence[str]
    prose: Mapping[str, Sequence[str]]
    log: Mapping[str, Sequence[str]]


def alphabet_of(value: object) -> str:
    """``value`` as an alphabet of ASCII letters and digits; else :class:`ConfigError`."""
    plain = isinstance(value, str) and value.isascii() and value.isalnum()
    if not isinstance(value, str) or not plain or not 1 < len(value) == len(set(value)):
        raise ConfigError(f"harness.alphabet={value!r}: must be at least 2 different letters and digits (ASCII)")
    return value


def least_chars(alphabet: str, count: int) -> int:
    """The shortest length of which there are so many codes."""
    chars = 1
    while len(alphabet) ** chars < count:
        chars += 1
    return chars


def check_texts(texts: Mapping[str, Any]) -> None:
    """Each text with just its places; a group has no other texts."""
    groups: dict[str, list[str]] = {}
    for path in TEXT_PLACES:
        group, _, name = path.partition(".")
        groups.setdefault(group, []).extend([name] if name else [])
    for group, names in groups.items():
        for name in keys_of(f"texts.{group}", names, texts[group]) if names else [""]:
            path = f"{group}.{name}".rstrip(".")
            template(f"harness.texts.{path}", texts[group][name] if name else texts[group], *TEXT_PLACES[path])


def check_material(material: Material) -> None:
    """Lists of texts, and a list for each place of a shape."""
    lines = whole("harness.material.pool_lines", material.pool_lines, 2, 2**16)
    if lines & (lines - 1):
        raise ConfigError(f"harness.material.pool_lines={lines}: must be a power of two")
    whole("harness.material.paragraph_sentences", material.paragraph_sentences, 1)
    text_of("harness.material.date", material.date)
    list_of("harness.material.orders", material.orders)
    list_of("harness.material.noise", material.noise)
    for kind, choices in (("prose", material.prose), ("log", material.log)):
        key = f"harness.material.{kind}"
        for name in mapping_of(key, choices):
            list_of(f"{key}.{name}", choices[name])
        allowed = ", ".join("$" + name for name in (*MADE_UP, *choices) if name != "shapes")
        for i, shape in enumerate(list_of(f"{key}.shapes", choices.get("shapes"))):
            parsed = Template(shape)
            places = parsed.get_identifiers() if parsed.is_valid() else ["shapes"]
            if not all(place in MADE_UP or (place in choices and place != "shapes") for place in places):
                raise ConfigError(f"{key}.shapes[{i}]={shape!r}: must be a text with no places but {allowed}")


def check_profile(key: str, profile: Profile) -> tuple[int, int]:
    """The fewest and the most work orders of a sound profile."""
    orders = profile.work_orders
    ends: list[Any] = list(orders) if isinstance(orders, list | tuple) else [orders, orders]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if not whole or len(ends) != 2 or not 1 <= ends[0] <= ends[1]:
        raise ConfigError(f"harness.{key}.work_orders={orders}: must be a whole number of at least 1, or [least, most]")
    if not isinstance(profile.rereadable, bool):
        raise ConfigError(f"harness.{key}.rereadable={profile.rereadable}: must be true or false")
    one_of(f"harness.{key}.submit_early", profile.submit_early, ("refused", "accepted", "ends"))
    return profile.orders
