"""Two ways to find the passages that fit a query: BM25 over words, and sentence embeddings.

Both are deterministic, and ties go to the newer passage.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

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
    """BM25 over lower-case words, scored as the package bm25s does (Lucene's formula).

    The index grows in place: an addition costs its own words, a query the passages that hold one of its words. A
    package that indexes a whole corpus at once would do all of it again after each page of a long document.
    """

    def __init__(self, *, k1: float, b: float) -> None:
        for key, value, most in (("bm25_k1", k1, float("inf")), ("bm25_b", b, 1.0)):
            if not isinstance(value, (int, float)) or not 0 <= value <= most:
                raise ConfigError(f"method.{key}={value!r}: must be a number from 0 to {most:g}")
        self.k1 = k1
        self.b = b
        self.lengths = array("l")  # words of each passage
        self.holding: dict[
            str, array[int]
        ] = {}  # by word: the place of a passage, how often there, the next place, ...

    def add(self, passages: Sequence[str]) -> None:
        """Append passages; the words of each are found once."""
        for passage in passages:
            words, place = _words(passage), len(self.lengths)
            for word, count in Counter(words).items():
                if word not in self.holding:
                    self.holding[word] = array("l")
                postings = self.holding[word]
                postings.append(place)
                postings.append(count)
            self.lengths.append(len(words))

    def best(self, query: str, count: int) -> list[int]:
        """See :class:`Retriever`."""
        return ranked(self.scores(query), count)

    def scores(self, query: str) -> Any:
        """The score of each passage, in their order (float64)."""
        lengths = np.array(self.lengths)
        scores = np.zeros(len(lengths))
        if not lengths.any():
            return scores
        norms = self.k1 * (1 - self.b + self.b * lengths / lengths.mean())
        for word, times in Counter(_words(query)).items():
            if word in self.holding:
                places, counts = np.array(self.holding[word]).reshape(-1, 2).T
                idf = np.log(1 + (len(scores) - len(places) + 0.5) / (len(places) + 0.5))
                scores[places] += times * idf * counts / (counts + norms[places])
        return scores


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
