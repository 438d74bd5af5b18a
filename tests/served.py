"""A small server with OpenAI's HTTP interface that misbehaves as servers do: in a test, or as a process of its own,
``python tests/served.py <port> <what the coming calls meet> ...``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from typing import Any

from aiohttp import web

from arcbench.engines.scripted import spoken
from arcbench.types import Message

TEXT = "```\nls\n```"


class Server:
    """An OpenAI-compatible server that answers ``TEXT``, or (``reads``) to messages what the scripted reader does.
    ``next`` are what the coming calls meet, in order; after that all is well."""

    def __init__(
        self,
        *next: str,
        window: object = 2048,
        models: tuple[str, ...] = ("m",),
        counts: int = 0,
        reads: bool = False,
    ) -> None:
        self.next = deque(next)
        self.window = window
        self.models = models
        self.counts = counts
        """How many prompt tokens it counts more than it was sent."""
        self.reads = reads
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.app = web.Application()
        self.app.router.add_get("/v1/models", self.list_models)
        self.app.router.add_post("/v1/completions", self.answer)
        self.app.router.add_post("/v1/chat/completions", self.answer)

    async def list_models(self, request: web.Request) -> web.Response:
        if self.next and self.next[0] == "html":
            return web.Response(text="<html>It works!</html>", content_type="text/html")
        window = {} if self.window is None else {"max_model_len": self.window}
        return web.json_response({"data": [{"id": name, **window} for name in self.models]})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        body = await request.json()
        self.bodies.append(body)
        what = self.next.popleft() if self.next else "well"
        if what.isdecimal():
            return web.Response(status=int(what), text=f"trouble {request.headers.get('Authorization', '')}")
        if what == "wait":
            return web.Response(status=429, headers={"Retry-After": "0.2"})
        if what == "reset":
            request.transport.abort()
            return web.Response()
        if what == "cut":
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"choices"')
            request.transport.close()
            return response
        if what == "die":
            os._exit(1)
        if what == "hang":
            await asyncio.sleep(30)
        if what == "garbage":
            return web.Response(text="{not json", content_type="application/json")
        if what == "empty":
            return web.json_response({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 0}})
        chat = "messages" in body
        prompt = 7 if chat else len(body["prompt"]) + self.counts
        text = spoken([Message(**each) for each in body["messages"]]) if self.reads else TEXT
        said = {"message": {"content": None if what == "silent" else text}} if chat else {"text": text}
        finish = {"length": "length", "filter": "content_filter"}.get(what, "stop")
        usage = {"prompt_tokens": prompt, "completion_tokens": 3}
        if what == "cached":
            usage["prompt_tokens_details"] = {"cached_tokens": 5}
        return web.json_response({"choices": [{**said, "finish_reason": finish}], "usage": usage})


if __name__ == "__main__":
    web.run_app(Server(*sys.argv[2:], window=None, reads=True).app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
