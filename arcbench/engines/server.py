"""A model behind HTTP: a vLLM server by token ids, or any server with OpenAI's chat interface.

With ``api=ids`` the prompt is rendered and counted here and sent as token ids to ``/completions``, so a record says the
same as one of the in-process engine. With ``api=chat`` messages go to ``/chat/completions``, where the server's own
template renders them: what we count before sending is an estimate, tokens used are as the server reports them, and
:meth:`ServerEngine.describe` says so. Overflow is found by counting before a call is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp
import orjson

from arcbench.checks import above, one_of, whole
from arcbench.engines.chat import probes
from arcbench.engines.counting import CountingEngine, finish_of
from arcbench.types import ConfigError, EngineError, Json, Reply, Request

IDS, CHAT = APIS = ("ids", "chat")
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Statuses after which the same call may go better."""
# Said outright, since a vLLM server fills what is left out from the model's generation_config.json.
_NEUTRAL = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_SHOWN_CHARS = 300


class ServerEngine(CountingEngine):
    """An :class:`arcbench.types.Engine` over HTTP; ``conf/engine/server.yaml`` says what each argument is."""

    def __init__(
        self,
        *,
        id: str,
        model: Mapping[str, Json],
        window_tokens: int,
        seed: int,
        concurrency: int,
        url: str,
        served_model: str | None,
        api: str,
        key_env: str | None,
        session_header: str | None,
        per_request_seed: bool,
        timeout_s: float,
        connect_s: float,
        retries: int,
        backoff_s: Sequence[float],
        summary_bound: None = None,
    ) -> None:
        """Raises :class:`ConfigError`; nothing is asked of the server yet."""
        one_of("engine.api", api, APIS)
        if summary_bound is not None:
            raise ConfigError(
                f"engine.summary_bound={summary_bound}: only the scripted engine has bounds; leave it null"
            )
        if model["sampling"] is None:
            raise ConfigError(f"engine=server model={model['id']}: not a language model; choose another model")
        if api == IDS and model["max_model_len"] is None:
            raise ConfigError(f"engine.api=ids model={model['id']}: its tokens are not known; use engine.api=chat")
        if api == CHAT and model["constrain_replies"]:
            raise ConfigError(f"engine.api=chat model={model['id']}: model.constrain_replies=true needs engine.api=ids")
        if api == CHAT and served_model is None:  # else runs of two models would go on in one folder
            raise ConfigError("engine.served_model=null: engine.api=chat needs the name of the model at its server")
        for key, value in (("served_model", served_model), ("session_header", session_header)):
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(f"engine.{key}={value}: must be a name, or null")
        if not isinstance(per_request_seed, bool):
            raise ConfigError(f"engine.per_request_seed={per_request_seed}: must be true or false")
        if not isinstance(backoff_s, list | tuple) or len(backoff_s) != 2:
            raise ConfigError(f"engine.backoff_s={backoff_s}: must be the first and the longest wait, such as [1, 60]")
        super().__init__(id=id, model=model, window_tokens=window_tokens, concurrency=concurrency, keep_ids=api == IDS)
        self.url = _address(url)
        self.api = api
        self.served_model = served_model
        self.timeout_s = above("engine.timeout_s", timeout_s, 0)
        self._connect_s = above("engine.connect_s", connect_s, 0)
        self._config = model
        self._seed = seed
        self._per_request_seed = per_request_seed
        self._retries = whole("engine.retries", retries, 0)
        self._first_wait_s, self._longest_wait_s = (above("engine.backoff_s", wait, 0) for wait in backoff_s)
        self._session_header = session_header
        self._key_env = key_env
        self._key = _key_of(key_env)
        self._salt = ""
        self._http: aiohttp.ClientSession | None = None
        self._facts: dict[str, Json] = {}

    # ------------------------------------------------------------------------------------- start

    async def start(self) -> None:
        """Ask the server which models it has and how large their window is, and compare its chat template with our
        rendering where it offers that. Prompts sent before have no part in what the prefix cache serves from now on.
        Raises :class:`ConfigError` in one line."""
        self._salt = secrets.token_hex(16)
        if self._http is not None:
            return
        self._http = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            connector=aiohttp.TCPConnector(limit=self.concurrency),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s),
        )
        try:
            await self._meet()
        except BaseException:
            await self.close()
            raise

    async def _meet(self) -> None:
        try:
            # once, and not for long: nobody wants to wait for an address that is wrong
            async with asyncio.timeout(self._connect_s):
                served = await self._ask("GET", f"{self.url}/models", None, {}, tries=1)
            models = {str(each["id"]): each for each in served["data"]}
        except EngineError as fault:
            raise self._no_such_server(str(fault)) from None
        except TimeoutError:
            raise self._no_such_server(f"no answer within engine.connect_s={self._connect_s:g}") from None
        except (LookupError, TypeError):
            raise self._no_such_server("/models did not answer with a list of models") from None
        if self.served_model is None and len(models) == 1:
            (self.served_model,) = models
        if self.served_model not in models:
            raise ConfigError(
                f"engine.served_model={self.served_model}: {self.url} serves {', '.join(sorted(models)) or 'nothing'}"
            )
        window = models[self.served_model].get("max_model_len")
        if not isinstance(window, int) and self.api == IDS:
            raise ConfigError(
                f"engine.api=ids: {self.url} does not say the window of {self.served_model}, so it is no vLLM server; "
                "use engine.api=chat"
            )
        if isinstance(window, int) and window < self.window_tokens:
            raise ConfigError(
                f"budget.window_tokens={self.window_tokens}: {self.served_model} at {self.url} takes at most {window}"
            )
        self._facts = {"server_window_tokens": window, "template_checked": await self._template_is_ours()}

    def _no_such_server(self, why: str) -> ConfigError:
        return ConfigError(
            f"engine.url={self.url}: {why.removeprefix('engine=server: ')}; must be the address below which a server "
            f"answers /models, such as http://localhost:8000/v1, its key (if any) in engine.key_env={self._key_env}"
        )

    async def _template_is_ours(self) -> bool:
        """Whether the server rendered our probes to our ids; false where it cannot be asked. Raises
        :class:`ConfigError` when it rendered others."""
        if self.api != IDS:
            return False
        root = self.url.removesuffix("/v1")
        for number, messages in enumerate(probes()):
            for thinking in (False, True) if self._config["thinking_supported"] else (False,):
                body = {
                    "model": self.served_model,
                    "messages": [{"role": m.role, "content": m.content} for m in messages],
                    "add_generation_prompt": True,
                    "add_special_tokens": False,
                    "chat_template_kwargs": {"enable_thinking": thinking},
                }
                try:
                    answer = await self._ask("POST", f"{root}/tokenize", body, {}, tries=self._retries + 1)
                    theirs = list(answer["tokens"])
                except (EngineError, LookupError, TypeError):
                    return False
                ours = self.chat.encode(messages, thinking=thinking)
                if theirs != ours:
                    raise ConfigError(
                        f"model={self.model}: chat: {self.url} renders probe {number} (thinking={thinking}) to "
                        f"{len(theirs)} ids, we to {len(ours)}; is it the same model?"
                    )
        return True

    async def close(self) -> None:
        """Close the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    def describe(self) -> Mapping[str, Json]:
        """What answers, how it is asked, and whether our counts are exact: for the manifest."""
        return {
            "engine": self.id,
            "model": self.model,
            "url": self.url,
            "served_model": self.served_model,
            "api": self.api,
            "prompt_counts": "exact" if self.api == IDS else "estimated before sending, reported after",
            "sampling": self._config["sampling"],
            "per_request_seed": self._per_request_seed,
            **super().describe(),
            **self._facts,
        }

    # ------------------------------------------------------------------------------------- a call

    async def complete(self, request: Request) -> Reply:
        """Run one call. Raises :class:`ContextOverflow` (found by counting) or :class:`EngineError`."""
        counted = self.preflight(request)
        if self._http is None:
            raise EngineError("engine=server: not started")
        path, body = self._ids_body(request) if self.api == IDS else self._chat_body(request)
        headers = {}
        if self._session_header:
            headers[self._session_header] = hashlib.sha256(request.episode.encode()).hexdigest()[:32]
        started = time.perf_counter()
        answer = await self._ask("POST", self.url + path, body, headers, tries=self._retries + 1)
        return self._reply(answer, counted, request, time.perf_counter() - started)

    def _ids_body(self, request: Request) -> tuple[str, dict[str, Json]]:
        body = self._common(request) | {
            "prompt": self.chat.encode(request.messages, thinking=request.thinking),
            "max_tokens": request.max_tokens,
            "add_special_tokens": False,
            "cache_salt": self._salt,
            **_NEUTRAL,
        }
        if not request.thinking:  # a constraint would hold from the first token on, so also inside the thoughts
            if request.schema is not None:
                body["structured_outputs"] = {"json": request.schema}
            elif request.grammar is not None:
                body["structured_outputs"] = {"regex": request.grammar}
        return "/completions", body

    def _chat_body(self, request: Request) -> tuple[str, dict[str, Json]]:
        body = self._common(request) | {
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "max_tokens": request.max_tokens,
        }
        if self._config["thinking_supported"]:
            body["chat_template_kwargs"] = {"enable_thinking": request.thinking}
        if request.schema is not None:
            body["response_format"] = {
                "type": "json_schema", "json_schema": {"name": "reply", "schema": request.schema},
            }  # fmt: skip
        return "/chat/completions", body

    def _common(self, request: Request) -> dict[str, Json]:
        sampling = self._config["sampling"]["thinking" if request.thinking else "no_thinking"]
        body = {"model": self.served_model, "stream": False, **sampling}
        if self._per_request_seed:
            # the engine's seed alone varies the sampling of the same tasks
            body["seed"] = (request.seed + self._seed) % 2**31
        return body

    def _reply(self, answer: Json, counted: int, request: Request, latency_s: float) -> Reply:
        try:
            choice, usage = answer["choices"][0], answer["usage"]
            text = choice["text"] if self.api == IDS else choice["message"]["content"] or ""
            reason, prompt, completion = choice["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            if not (isinstance(text, str) and isinstance(prompt, int) and isinstance(completion, int)):
                raise TypeError
        except (LookupError, TypeError, AttributeError):
            raise EngineError(f"engine=server: an answer without text and usage: {self._short(answer)}") from None
        if self.api == IDS and prompt != counted:
            raise EngineError(f"engine=server: {counted} ids were sent, and the server counted {prompt}")
        finish = finish_of(self.id, reason, prompt, completion, request.max_tokens, self.window_tokens)
        return Reply(
            text=text, finish=finish, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached,
            latency_s=latency_s,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------- asking

    async def _ask(
        self, method: str, url: str, body: Mapping[str, Json] | None, headers: Mapping[str, str], *, tries: int
    ) -> Json:
        """The JSON that the server answers, asked again as often as may help. Raises :class:`EngineError`."""
        trouble = ""
        try:
            async with asyncio.timeout(self.timeout_s):
                for attempt in range(tries):
                    answer, trouble, wait_s = await self._once(method, url, body, headers)
                    if not trouble:
                        return answer
                    # between half of the wait and all of it, so that many callers do not come back at once
                    doubled = self._first_wait_s * 2**attempt * random.uniform(0.5, 1)
                    if attempt + 1 < tries:
                        await asyncio.sleep(min(self._longest_wait_s, doubled if wait_s is None else wait_s))
        except TimeoutError:
            last = f"; last: {trouble}" if trouble else ""
            raise EngineError(f"engine=server: no reply within engine.timeout_s={self.timeout_s:g}{last}") from None
        raise EngineError(f"engine=server: {trouble}" + (f" ({tries} tries)" if tries > 1 else ""))

    async def _once(
        self, method: str, url: str, body: Mapping[str, Json] | None, headers: Mapping[str, str]
    ) -> tuple[Json, str, float | None]:
        """The answer; or what may go better the next time, and how long the server wants us to wait. Raises
        :class:`EngineError` for what will not."""
        assert self._http is not None
        data = None if body is None else orjson.dumps(body)
        sent = dict(headers) if data is None else {**headers, "Content-Type": "application/json"}
        try:
            async with self._http.request(method, url, data=data, headers=sent) as response:
                raw = await response.read()
                status, after = response.status, response.headers.get("Retry-After")
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as fault:
            return None, f"{type(fault).__name__}: {self._short(fault)}", None
        except (aiohttp.ClientError, ValueError) as fault:  # such as an address that is none
            raise EngineError(f"engine=server: {type(fault).__name__}: {self._short(fault)}") from None
        if status in PASSING:
            return None, f"status {status}: {self._short(raw)}", _seconds(after)
        if status != 200:
            raise EngineError(f"engine=server: status {status}: {self._short(raw)}")
        try:
            return orjson.loads(raw), "", None
        except orjson.JSONDecodeError:
            return None, f"an answer that is no JSON: {self._short(raw)}", None

    def _short(self, what: object) -> str:
        """An answer or a fault in part, on one line, without the key."""
        text = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
        if self._key:
            text = text.replace(self._key, "<key>")
        line = " ".join(text.split())
        return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."


def _address(url: object) -> str:
    """The server's address. Raises :class:`ConfigError`, in which no secret is repeated."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:  # of urlsplit too: such as a port that is none
        shown = "..." if "@" in str(url) else url
        raise ConfigError(f"engine.url={shown}: must be an address such as http://localhost:8000/v1") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"engine.url={parts.scheme}://...{parts.path}: must have no user, password, query or fragment, since it is "
            "recorded; a key goes into the environment variable that engine.key_env names"
        )
    return parts.geturl().rstrip("/")


def _key_of(name: object) -> str | None:
    """The key in that environment variable. Raises :class:`ConfigError`, in which no key is repeated."""
    if name is None:
        return None
    if not isinstance(name, str) or not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        raise ConfigError("engine.key_env: must be null or the name, in capitals, of the variable that holds the key")
    key = os.environ.get(name, "").strip()
    if not key:
        raise ConfigError(f"engine.key_env={name}: this environment variable is not set; set it to the key")
    if not re.fullmatch("[!-~]+", key):
        raise ConfigError(f"engine.key_env={name}: this environment variable holds no key: printable ASCII, no spaces")
    return key


def _seconds(retry_after: str | None) -> float | None:
    """A ``Retry-After`` in seconds; a date is not read."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None
