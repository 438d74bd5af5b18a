"""What the harnesses check of their settings: one line for each that makes no sense."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from arcbench.types import ConfigError
from harness.files import normal

T = TypeVar("T")
_FILE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)*")


def fields_of(key: str, kind: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass of these values; a missing or unknown key is named."""
    return kind(**keys_of(key, list(kind.__dataclass_fields__), values))  # type: ignore[attr-defined]


def keys_of(key: str, known: Sequence[str], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """These values, which must be a mapping of just the known keys."""
    for name in (*mapping_of(f"harness.{key}", values), *known):
        if name not in known:
            raise ConfigError(f"harness.{key}.{name}={values[name]}: unknown key, must be one of {', '.join(known)}")
        if name not in values:
            raise ConfigError(f"harness.{key}.{name}: missing, must be given")
    return values


def mapping_of(key: str, values: object) -> Mapping[str, Any]:
    """``values`` as a mapping; else :class:`ConfigError`."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{key}={values!r}: must be a mapping")
    return values


def text_of(key: str, value: object) -> str:
    """``value`` as a text that is not blank; else :class:`ConfigError`."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key}={value!r}: must be a text")
    return value


def list_of(key: str, values: object) -> Sequence[str]:
    """``values`` as a list of texts; else :class:`ConfigError`."""
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"{key}={values!r}: must be a list of texts")
    for i, value in enumerate(values):
        text_of(f"{key}[{i}]", value)
    return values


def file_name_of(value: object) -> str:
    """A name that every command takes as it stands, and that has no other form."""
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value) or normal(value) != value:
        raise ConfigError(f"harness.file_name={value!r}: must be a plain path of letters, digits and . _ - /")
    return value
