"""Two ways to find the passages that fit a query: BM25 over words, and sentence embeddings.

Both are deterministic, and ties go to the newer passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import bm25s
import numpy as np

from arcbench.types import ConfigError

# Words, and single characters of the scripts that are written without spaces.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class Retriever(Protocol):
    """A growing list of passages, found by their place in it."""

    def add(self, passages: Sequence[str]) -> None:
        """Append passages."""

    def best(self, query: str, count: int) -> list[int]:
        """Places of the ``count`` best passages, best first; fewer where there are fewer."""


def ranked(scores: Any, count: int) -> list[int]:
    """Places of the ``count`` highest scores, highest first, the later of two equals first."""
    values = np.asarray(scores)
    order: list[int] = np.lexsort((-np.arange(len(values)), -values))[:count].tolist()
    return order


class Bm25:
    """BM25 over lower-case words (bm25s). The index is built anew only when a query follows an addition."""

    def __init__(self, *, k1: float, b: float) -> None:
        for key, value, most in (("bm25_k1", k1, float("inf")), ("bm25_b", b, 1.0)):
            if not isinstance(value, (int, float)) or not 0 <= value <= most:
                raise ConfigError(f"method.{key}={value!r}: must be a number from 0 to {most:g}")
        self.k1 = k1
        self.b = b
        self.words: list[list[str]] = []
        self.index: bm25s.BM25 | None = None

    def add(self, passages: Sequence[str]) -> None:
        """Append passages; the words of each are found once."""
        self.words += [_words(passage) for passage in passages]
        self.index = None

    def best(self, query: str, count: int) -> list[int]:
        """See :class:`Retriever`."""
        asked = _words(query)
        if not asked or not any(self.words):  # neither is a case for bm25s
            return ranked(np.zeros(len(self.words)), count)
        if self.index is None:
            self.index = bm25s.BM25(k1=self.k1, b=self.b)
            self.index.index(self.words, show_progress=False)
        return ranked(self.index.get_scores(asked), count)


class Dense:
    """Cosine similarity of sentence embeddings (sentence-transformers, extra ``rag``).

    ``model`` is a hub name or a local folder. The model is loaded once per process. Raises
    :class:`ConfigError` when the extra or the model is missing.
    """

    def __init__(self, *, model: str, device: str) -> None:
        self.model = _load(model, device)
        self.vectors: list[Any] = []

    def add(self, passages: Sequence[str]) -> None:
        """Append passages; each is embedded once."""
        if passages:
            self.vectors.extend(self._embed(passages))

    def best(self, query: str, count: int) -> list[int]:
        """See :class:`Retriever`."""
        if not self.vectors:
            return []
        return ranked(np.stack(self.vectors) @ self._embed([query])[0], count)

    def _embed(self, texts: Sequence[str]) -> Any:
        return self.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@cache
def _load(model: str, device: str) -> Any:
    if model.startswith(("/", "./", "../", "~")) and not Path(model).expanduser().is_dir():
        raise ConfigError(f"method.dense_model={model}: must be the name of a model or a folder that exists")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ConfigError(
            "method.retriever=dense: needs sentence-transformers, which `pip install -e '.[rag]'` brings"
        ) from None
    try:
        return SentenceTransformer(str(Path(model).expanduser()) if model.startswith("~") else model, device=device)
    except (OSError, ValueError, RuntimeError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ConfigError(f"method.dense_model={model}: must be a sentence-transformers model ({why})") from error
