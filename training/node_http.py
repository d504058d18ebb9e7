"""Requests to the services of a rollout node, one attempt each: an answer, trouble, or an error.

Secrets come from the environment, travel in a header, and stand in no message. Proxies of the
environment are not used: the node is on a network of one's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from clinical_envs.errors import require
from training.patience import ServedError, Trouble

_MAY_PASS = (408, 425, 429, 502, 503, 504, 507)


class NodeClient:
    """One service. Close it.

    url: `http://HOST:PORT`. secret: environment variable of the bearer token. timeout_s: of one
    request.

    Raises:
        MissingExtra: httpx is not installed.
        ServedError: no header can carry the secret.
    """

    def __init__(self, url: str, *, secret: str, timeout_s: float) -> None:
        self.url, self.secret, self.timeout_s = url.rstrip("/"), secret, timeout_s
        self._httpx = require("httpx", "train")
        self._client = self._httpx.Client(
            base_url=self.url, timeout=timeout_s, trust_env=False, headers=_bearer(secret)
        )

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        json: Mapping[str, Any] | None = None,
        content: bytes | None = None,
    ) -> Any:
        """The response of one attempt, with a status that waiting would not change.

        Raises:
            Trouble: it may fare better later.
            ServedError: the secret is missing or wrong.
        """
        try:
            response = self._client.request(method, path, json=json, content=content)
        except self._httpx.TimeoutException:
            raise Trouble(
                f"{self.url} does not answer within {self.timeout_s:g} s (vllm.timeout_s)"
            ) from None
        except self._httpx.TransportError as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise Trouble(f"{self.url} cannot be reached ({reason})") from None
        if response.status_code in _MAY_PASS:
            raise Trouble(f"{self.url}: {detail(response)}")
        if response.status_code in (401, 403):
            raise ServedError(
                f"{self.url} refuses the key; set {self.secret} to the one it was started with"
            )
        return response


def detail(response: Any) -> str:
    """What an error response says, in one line."""
    try:
        said = response.json()["error"]
        text = said["message"] if isinstance(said, dict) else said
    except (ValueError, KeyError, TypeError):
        text = response.text
    return f"{' '.join(str(text).split())[:300] or 'no reason given'} ({response.status_code})"


def _bearer(variable: str) -> dict[str, str]:
    secret = os.environ.get(variable, "").strip()
    if not (secret.isascii() and secret.isprintable()):
        raise ServedError(f"{variable} holds a character that no secret has; set it again")
    return {"Authorization": f"Bearer {secret}"} if secret else {}
