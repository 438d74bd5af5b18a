"""Structured state: a model call maps what is removed onto a fixed JSON schema, and code merges it.

Source: the ARC paper (arXiv 2607.25066), Related Works. The schema and its size are not stated there: both are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from arcbench.text import admit
from arcbench.types import Json, Message
from baselines.summarising import Rejected, SummarisingMethod, is_tool_call, spoken

State = dict[str, Any]

_TEXTS = ("goal", "progress")
_REPLACED = ("open_items",)
_UNITED = ("facts", "files", "errors")
_KEYS = ("goal", "progress", "facts", "files", "errors", "open_items")

SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        key: {"type": "string"} if key in _TEXTS else {"type": "array", "items": {"type": "string"}} for key in _KEYS
    },
    "required": list(_KEYS),
    "additionalProperties": False,
}
"""What the model must answer with."""

_VALIDATOR = Draft202012Validator(SCHEMA)
_FENCED = re.compile(r"```(?:json)?\s*\n?(.*?)\s*```", re.DOTALL | re.IGNORECASE)


class StructuredState(SummarisingMethod):
    """Keeps the prefix, a JSON state of the removed turns, and the recent turns; recoverable is what it holds.

    ``state_max_tokens`` caps the state; the other parameters are :class:`SummarisingMethod`'s. Goal, progress
    and open items are replaced by the model's new ones where it gives any; facts, files and errors are united
    in order of first appearance. Where the state outgrows its cap the oldest entries go first. An answer that
    is not JSON of the schema is asked for once more; otherwise the faults are those of ``llm_summary``.
    """

    noun = "state"

    def __init__(self, *, state_max_tokens: int, **shared: Any) -> None:
        super().__init__(max_tokens=state_max_tokens, **shared)

    async def revise(self, memory: str, prompt: Sequence[Message], max_tokens: int) -> str:
        """One call, or two when the first answer is not valid; its state is merged into the earlier one."""
        found = await self._ask(prompt, max_tokens) or await self._ask(prompt, max_tokens)
        if found is None:
            raise Rejected("invalid")
        state = merge(json.loads(memory), found) if memory else merge({}, found)
        while not self.within(rendered(state), max_tokens):
            if not forget_oldest(state):
                raise Rejected("too_long")
        return rendered(state)

    async def _ask(self, prompt: Sequence[Message], max_tokens: int) -> State | None:
        reply = await self.bench.complete(prompt, max_tokens=max_tokens, schema=SCHEMA)
        text = spoken(reply, max_tokens)
        fenced = _FENCED.fullmatch(text)
        try:
            found = json.loads(fenced[1] if fenced else text)
        except (ValueError, RecursionError):
            if is_tool_call(text):
                raise Rejected("tool_call") from None
            return None
        return found if _VALIDATOR.is_valid(found) else None


def rendered(state: State) -> str:
    """The state as the agent and the next call see it."""
    return json.dumps(state, ensure_ascii=False, indent=1)


def merge(old: State, new: State) -> State:
    """One state from two: what says where things stand is replaced, what was found is united."""
    merged: State = {}
    for key in _KEYS:
        if key in _TEXTS:
            merged[key] = "".join(_clean([new[key]])) or old.get(key, "")
        elif key in _REPLACED:
            merged[key] = _clean(new[key]) or old.get(key, [])
        else:
            merged[key] = _clean([*old.get(key, []), *new[key]])
    return merged


def forget_oldest(state: State) -> bool:
    """Remove the first entry of the list that takes most room, open items last of all; False if none is left."""
    longest = max(_UNITED, key=lambda key: sum(map(len, state[key])))
    for key in (longest, *_REPLACED):
        if state[key]:
            del state[key][0]
            return True
    return False


def _clean(entries: Iterable[str]) -> list[str]:
    """Without blanks and repetitions; JSON can spell lone surrogates, which no tokenizer takes."""
    return list(dict.fromkeys(text for entry in entries if (text := admit(entry)[0].strip())))
