"""Small pure functions on text: excerpts, the policy for bad Unicode, prompt templates."""

from __future__ import annotations

import re
from string import Template


def excerpt(text: str, limit_chars: int, omitted: str) -> str:
    """At most ``limit_chars`` of ``text``: head and tail in equal halves around one line that says how
    much is left out. ``omitted`` is that line, filled with ``chars``; it comes on top of the limit.
    A combining character or a variation selector is cut like any other code point."""
    if len(text) <= limit_chars:
        return text
    head = limit_chars - limit_chars // 2
    tail = limit_chars // 2
    line = fill(omitted, chars=len(text) - limit_chars)
    return f"{text[:head]}\n{line}\n{text[len(text) - tail :]}"


_ESCAPE = re.compile(r"\\\\|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}")


def admit(raw: str | bytes) -> tuple[str, bool]:
    """Text that every tokenizer and record can carry, and whether it had to be escaped.

    The one policy for what is not valid Unicode, applied where text enters an episode: valid text is
    unchanged. In any other text each backslash is doubled, each byte that is not UTF-8 becomes
    ``\\xNN`` and each lone surrogate ``\\uNNNN``; :func:`restore` undoes it.
    """
    if isinstance(raw, bytes):
        try:
            return raw.decode("utf-8"), False
        except UnicodeDecodeError:
            parts = raw.decode("utf-8", "surrogateescape").replace("\\", "\\\\")
            # surrogateescape maps byte NN to U+DCNN, which UTF-8 input cannot contain otherwise
            return re.sub("[\udc80-\udcff]", lambda m: f"\\x{ord(m[0]) - 0xDC00:02x}", parts), True
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        parts = raw.replace("\\", "\\\\")
        return re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", parts), True
    return raw, False


def restore(text: str) -> str | bytes:
    """Undo :func:`admit` on a text it marked as escaped: bytes when it holds an escaped byte, else str."""

    def plain(match: re.Match[str]) -> str:
        token = match[0]
        if token == "\\\\":
            return "\\"
        return chr(int(token[2:], 16) + (0xDC00 if token[1] == "x" else 0))

    raw = _ESCAPE.sub(plain, text)
    if any(m[0][1] == "x" for m in _ESCAPE.finditer(text)):
        return raw.encode("utf-8", "surrogateescape")
    return raw


def fill(template: str, **values: object) -> str:
    """Fill ``$name`` places of a prompt template, once and strictly: a missing or unknown name raises
    ``KeyError``, and a ``$`` inside a value is left alone."""
    parsed = Template(template)
    unknown = set(values) - set(parsed.get_identifiers())
    if unknown:
        raise KeyError(f"the template has no place for {', '.join(sorted(unknown))}: {template[:60]!r}")
    return parsed.substitute(values)
