"""One-line complaints about parameters: the key, the value, and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from string import Template

from arcbench.types import ActionDoc, ConfigError


def whole(key: str, value: object, least: int, most: int | None = None) -> int:
    """``value`` as a whole number from ``least`` to ``most`` (None: no end); else :class:`ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{key}={value}: must be a whole number {allowed}")
    return value


def above(key: str, value: object, bound: float) -> float:
    """``value`` as a number above ``bound``; else :class:`ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > bound:
        raise ConfigError(f"{key}={value}: must be a number above {bound:g}")
    return float(value)


def share(key: str, value: object) -> float:
    """``value`` as a number above 0 and at most 1; else :class:`ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ConfigError(f"{key}={value}: must be above 0 and at most 1")
    return float(value)


def one_of(key: str, value: object, allowed: Collection[str]) -> str:
    """``value`` as one of the allowed words; else :class:`ConfigError`."""
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{key}={value}: must be one of {', '.join(allowed)}")
    return value


def template(key: str, text: object, *names: str) -> str:
    """``text`` as a template with exactly the places ``$name``; else :class:`ConfigError`."""
    allowed = f"must be a text with exactly these places: {', '.join('$' + name for name in names) or 'none'}"
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{key}={text!r}: {allowed}")
    parsed = Template(text)
    if not parsed.is_valid() or set(parsed.get_identifiers()) != set(names):
        raise ConfigError(f"{key}={text[:40]!r}: {allowed}")
    return text


def documented(actions: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> list[ActionDoc]:
    """The help of a method's own actions (``method.actions``), in the order of ``names``, which are all there may be;
    else :class:`ConfigError`."""
    for name in actions:
        one_of("method.actions", name, names)
    docs = []
    for name in names:
        doc = actions.get(name)
        if not isinstance(doc, Mapping):
            raise ConfigError(f"method.actions.{name}={doc}: must have usage and help")
        usage, help = (template(f"method.actions.{name}.{key}", doc.get(key)) for key in ("usage", "help"))
        docs.append(ActionDoc(name, usage, help))
    return docs
