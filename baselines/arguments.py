"""Checks of what ``conf/method`` hands to the baselines, each with one line for the user."""

from __future__ import annotations

from string import Template

from arcbench.types import ConfigError


def at_least(key: str, value: object, least: int) -> int:
    """``value`` as a whole number of at least ``least``; else :class:`ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"method.{key}={value!r}: must be a whole number, at least {least}")
    return value


def template(key: str, text: object, *names: str) -> str:
    """``text`` as a template with exactly the places ``$name``; else :class:`ConfigError`."""
    allowed = f"must be a text with exactly these places: {', '.join('$' + name for name in names) or 'none'}"
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"method.{key}={text!r}: {allowed}")
    parsed = Template(text)
    if not parsed.is_valid() or set(parsed.get_identifiers()) != set(names):
        raise ConfigError(f"method.{key}={text[:40]!r}: {allowed}")
    return text
