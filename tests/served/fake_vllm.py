"""A stand-in for vLLM's server that is a real process: it can be killed, hung and started empty.

It loads a checkpoint and adapters with the project's own model code and samples with plain forward
passes, no cache, so that it shares nothing with the engine it is compared to. Routes, bodies and
status codes are those of vLLM 0.31, as far as the engine uses them; `POST /control` switches
faults on.

Run as a script it imports the training stack once and then forks a process for each line on
standard input, so that starting a server takes milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

BASE = "base"


@dataclass
class Settings:
    """How a server is started. default_top_k stands in for a checkpoint's generation defaults.

    applies_adapters: False loads them and ignores them. logprobs_mode: as the flag of vLLM.
    """

    port: int
    model: str
    context: int = 512
    max_lora_rank: int = 16
    api_key: str = ""
    applies_adapters: bool = True
    logprobs_mode: str = "processed_logprobs"
    default_top_k: int = 0
    seed: int = 0


@dataclass
class Faults:
    """What goes wrong with the next requests. Counts are used up one a request.

    dies_playing, dies_loading: ends of the names of adapters that kill the process. dies_after:
    requests that are still answered before one kills it; negative never.
    """

    hang_s: float = 0.0
    hangs: int = 0
    drops: int = 0
    errors: int = 0
    truncated: int = 0
    load_hang_s: float = 0.0
    dies_playing: str = "-"
    dies_loading: str = "-"
    dies_after: int = -1


@dataclass
class Seen:
    """What was asked."""

    batches: list[int] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


class Sampler:
    """The model, its adapters, and one lock around both."""

    def __init__(self, settings: Settings) -> None:
        from training.models import load_policy

        self.settings = settings
        self.model, self.tokenizer = load_policy(settings.model)
        self.adapters: dict[str, str] = {}
        self.lock = threading.Lock()
        self.generator = torch.Generator().manual_seed(settings.seed)

    def load(self, name: str, path: str) -> None:
        from peft import PeftModel

        if isinstance(self.model, PeftModel):
            self.model.load_adapter(path, adapter_name=name)
        else:
            self.model = PeftModel.from_pretrained(self.model, path, adapter_name=name)
        self.model.eval()
        self.adapters[name] = path

    def unload(self, name: str) -> None:
        del self.adapters[name]
        if self.adapters:
            self.model.delete_adapter(name)
        else:
            self.model = self.model.unload()

    def complete(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """One choice a prompt."""
        rows = [list(prompt) for prompt in body["prompt"]]
        lengths = [len(row) for row in rows]
        logprobs: list[list[float]] = [[] for _ in rows]
        stop, most = body["stop_token_ids"], body["max_tokens"]
        open_rows = list(range(len(rows)))
        with torch.no_grad(), self._playing(body["model"]):
            while open_rows:
                for i, (token, logprob) in zip(
                    open_rows, self._next([rows[i] for i in open_rows], body), strict=True
                ):
                    rows[i].append(token)
                    logprobs[i].append(logprob)
                open_rows = [
                    i
                    for i in open_rows
                    if rows[i][-1] not in stop and len(rows[i]) - lengths[i] < most
                ]
        said = [row[length:] for row, length in zip(rows, lengths, strict=True)]
        return [
            {
                "index": i,
                "token_ids": ids,
                "logprobs": {"token_logprobs": logprobs[i]},
                "finish_reason": "stop" if ids[-1] in stop else "length",
            }
            for i, ids in enumerate(said)
        ]

    def _playing(self, name: str) -> Any:
        if not self.adapters:
            return nullcontext()
        if name == BASE or not self.settings.applies_adapters:
            return self.model.disable_adapter()
        self.model.set_adapter(name)
        return nullcontext()

    def _next(self, rows: list[list[int]], body: dict[str, Any]) -> list[tuple[int, float]]:
        """A token of each row, padded on the right: a causal model does not see the padding."""
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        logits = self.model(input_ids=ids).logits.float()
        last = logits[torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])]
        temperature = body["temperature"]
        shaped = last / (temperature or 1.0)
        top_k = body.get("top_k", self.settings.default_top_k)
        if top_k:
            worst = shaped.topk(top_k).values[:, -1:]
            shaped = shaped.masked_fill(shaped < worst, -torch.inf)
        if temperature == 0.0:
            tokens = last.argmax(-1)
        else:
            tokens = torch.multinomial(shaped.softmax(-1), 1, generator=self.generator)[:, 0]
        reported = {
            "processed_logprobs": shaped.log_softmax(-1),
            "raw_logprobs": last.log_softmax(-1),
            "raw_logits": last,
        }[self.settings.logprobs_mode]
        chosen = reported.gather(1, tokens[:, None])[:, 0]
        return list(zip(tokens.tolist(), chosen.tolist(), strict=True))


class Handler(BaseHTTPRequestHandler):
    """One request."""

    sampler: Sampler
    faults: Faults
    seen: Seen
    resets = 0

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200, {})
        elif self.path == "/seen":
            self._answer(200, vars(self.seen))
        elif self.path != "/v1/models":
            self._answer(404, {"detail": "Not Found"})
        elif self._admitted():
            self._answer(200, {"data": self._cards()})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/control":
            vars(self.faults).update(body)
            self._answer(200, {})
            return
        if self.path == "/reset":
            self._reset()
            return
        if not self._admitted():
            return
        routes = {
            "/v1/completions": self._complete,
            "/v1/load_lora_adapter": self._load,
            "/v1/unload_lora_adapter": self._unload,
        }
        routes[self.path](body)

    def _complete(self, body: dict[str, Any]) -> None:
        sampler, faults = self.sampler, self.faults
        if body["model"].endswith(faults.dies_playing) or faults.dies_after == 0:
            os._exit(1)
        faults.dies_after -= 1
        if faults.drops:
            faults.drops -= 1
            self.close_connection = True
            self.connection.close()
            return
        if faults.errors:
            faults.errors -= 1
            self._refuse(500, "EngineCore encountered an issue", "InternalServerError")
            return
        if faults.hangs:
            faults.hangs -= 1
            began = Handler.resets
            time.sleep(faults.hang_s)
            if Handler.resets != began:  # of a test that is over
                self.close_connection = True
                return
        longest = max(map(len, body["prompt"]))
        if body["model"] not in (BASE, *sampler.adapters):
            self._refuse(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        elif longest + body["max_tokens"] > sampler.settings.context:
            self._refuse(400, "This model's maximum context length is shorter", "BadRequestError")
        else:
            with sampler.lock:
                choices = sampler.complete(body)
            if faults.truncated:
                faults.truncated -= 1
                choices = [choice | {"token_ids": []} for choice in choices]
            self.seen.batches.append(len(choices))
            self.seen.models.append(body["model"])
            self.seen.tokens.append(body["max_tokens"])
            self._answer(200, {"model": body["model"], "choices": choices})

    def _load(self, body: dict[str, Any]) -> None:
        sampler, name, path = self.sampler, body["lora_name"], body["lora_path"]
        if name.endswith(self.faults.dies_loading):
            os._exit(1)
        if name in sampler.adapters:
            self._refuse(400, f"The lora adapter '{name}' has already been loaded.", "Invalid")
            return
        config = Path(path) / "adapter_config.json"
        if not config.is_file():
            words = f"Loading lora {name} failed: No adapter found for {path}"
            self._refuse(404, words, "NotFoundError")
            return
        rank, most = json.loads(config.read_text())["r"], sampler.settings.max_lora_rank
        if rank > most:
            words = f"'LoRA rank {rank} is greater than max_lora_rank {most}.'"
            self._refuse(500, f"Call to add_lora method failed: {words}", "InternalServerError")
            return
        with sampler.lock:
            sampler.load(name, path)
        if self.faults.load_hang_s:
            pause, self.faults.load_hang_s = self.faults.load_hang_s, 0.0
            time.sleep(pause)
        self._answer(200, {})

    def _unload(self, body: dict[str, Any]) -> None:
        name = body["lora_name"]
        if name not in self.sampler.adapters:
            self._refuse(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
            return
        with self.sampler.lock:
            self.sampler.unload(name)
        self._answer(200, {})

    def _reset(self) -> None:
        """As new."""
        Handler.resets += 1
        vars(self.faults).update(vars(Faults()))
        vars(self.seen).update(vars(Seen()))
        with self.sampler.lock:
            for name in list(self.sampler.adapters):
                self.sampler.unload(name)
        self._answer(200, {})

    def _cards(self) -> list[dict[str, Any]]:
        base = {"id": BASE, "parent": None, "max_model_len": self.sampler.settings.context}
        return [base, *({"id": name, "parent": BASE} for name in self.sampler.adapters)]

    def _admitted(self) -> bool:
        key = self.sampler.settings.api_key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self._answer(401, {"error": "Unauthorized"})
            return False
        return True

    def _refuse(self, status: int, message: str, kind: str) -> None:
        self._answer(status, {"error": {"message": message, "type": kind, "code": status}})

    def _answer(self, status: int, data: Any) -> None:
        content = json.dumps(data).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # whoever asked has hung up

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def serve(settings: Settings) -> None:
    """Until the process is killed."""
    Handler.protocol_version = "HTTP/1.1"
    Handler.sampler, Handler.faults, Handler.seen = Sampler(settings), Faults(), Seen()
    server = ThreadingHTTPServer(("127.0.0.1", settings.port), Handler)
    server.daemon_threads = True
    server.serve_forever()


def serve_sidecar(folder: str, port: int, token: str) -> None:
    """The real sidecar, until the process is killed."""
    import uvicorn

    from training.sidecar import build_app

    app = build_app(Path(folder), token)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def main() -> None:
    import peft  # noqa: F401 (imported once, before any fork)
    import transformers
    import uvicorn  # noqa: F401

    import training.models
    import training.sidecar  # noqa: F401

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            try:
                if "folder" in wanted:
                    serve_sidecar(**wanted)
                else:
                    serve(Settings(**wanted))
            finally:
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
