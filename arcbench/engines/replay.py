"""Plays the replies of a recorded run back, to score it again or to see that nothing else changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from arcbench.engines.counting import CountingEngine
from arcbench.records import EPISODES, MANIFEST, read_episodes, read_manifest
from arcbench.types import ConfigError, EngineError, Json, Reply, Request


class ReplayEngine(CountingEngine):
    """Answers call n of an episode with what call n of the same task was answered in ``source`` (a run folder).

    The model config must be the one that was recorded, so that counts agree; a prompt whose count
    differs from the recorded one is an :class:`EngineError` that names the task and the call; not so where the
    recorded counts are a server's and ours were estimates.
    """

    def __init__(
        self,
        *,
        id: str,
        model: Mapping[str, Json],
        window_tokens: int,
        source: str | None,
        concurrency: int,
        summary_bound: str | None = None,
    ) -> None:
        episodes = Path(source or "") / EPISODES
        if source is None or not episodes.is_file():
            raise ConfigError(f"engine.source={source}: must be a run folder with {EPISODES}")
        super().__init__(id=id, model=model, window_tokens=window_tokens, concurrency=concurrency)
        self.source = episodes
        self._calls: dict[str, list[Mapping[str, Json]]] = {}
        self._exact = True

    async def start(self) -> None:
        """Read the recorded replies."""
        if (self.source.parent / MANIFEST).is_file():  # bare episodes can be played back too
            sessions = read_manifest(self.source.parent).get("sessions", ())
            self._exact = all(session["engine"].get("prompt_counts", "exact") == "exact" for session in sessions)
        self._calls = {record["task"]: record["calls"] for record in read_episodes(self.source)}

    async def close(self) -> None:
        """Forget them."""
        self._calls = {}

    def describe(self) -> Mapping[str, Json]:
        """Tokenizer, chat format and the run that is played back."""
        return {**super().describe(), "source": str(self.source.parent)}

    async def complete(self, request: Request) -> Reply:
        """The recorded reply of this call. Raises :class:`EngineError` where the prompt is not the recorded one."""
        prompt_tokens = self.preflight(request)
        recorded = self._calls.get(request.episode, [])
        if len(recorded) < request.number:
            raise EngineError(f"{request.episode}: call {request.number} was not recorded in {self.source.parent}")
        call = recorded[request.number - 1]
        if self._exact and call["prompt_tokens"] != prompt_tokens:
            raise EngineError(
                f"{request.episode}: call {request.number} had {call['prompt_tokens']} prompt tokens "
                f"in {self.source.parent} and has {prompt_tokens} now: another config or code version"
            )
        return Reply(
            text=call["text"],
            finish=call["finish"],
            prompt_tokens=call["prompt_tokens"],
            completion_tokens=call["completion_tokens"],
            cached_tokens=call["cached_tokens"],
            latency_s=call["latency_s"],
        )
