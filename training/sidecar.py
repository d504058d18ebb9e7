"""Adapters over HTTP, for a trainer that shares no folder with the rollout node.

    PUT /adapters/NAME      a zip archive of adapter_config.json and adapter_model.safetensors
                            -> 201 {"path": where it lies on this node}
    DELETE /adapters/NAME   204
    GET /health             200, the only request that needs no token

The others need `Authorization: Bearer TOKEN`. An adapter appears under its name whole or not at
all. What goes wrong is {"error": one line} with 401 (token), 404 (no such adapter), 409 (the name
is taken; "path" says by what), 413 (too large), 422 (name or content) or 507 (disk full).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, require
from training.adapter_archive import ArchiveLimits, TooBig, unpack

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

TOKEN_VARIABLE = "CLINICAL_ENVS_SIDECAR_TOKEN"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_TOKEN = re.compile(r"[!-~]{16,}")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def read_token(file: Path | None, environ: Mapping[str, str]) -> str | None:
    """The token: from a file that only its owner can read, else from the environment.

    None where neither is given. No message contains it.

    Raises:
        InvalidArgument: the file cannot be read, others can read it, or the token is weak.
    """
    if file is None:
        source, token = TOKEN_VARIABLE, environ.get(TOKEN_VARIABLE)
    else:
        source, token = str(file), _private_text(file)
    if token is None:
        return None
    if not _TOKEN.fullmatch(token):
        raise InvalidArgument(
            f"{source}: a token has 16 or more characters and no space; make one with: "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return token


def build_app(folder: Path, token: str, limits: ArchiveLimits | None = None) -> Starlette:
    """The service over one folder, as an ASGI application.

    Raises:
        InvalidArgument: the folder cannot be made.
        MissingExtra: starlette is not installed.
    """
    require("starlette", "serve")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Route

    store = _Store(_prepared(folder), limits or ArchiveLimits())
    return Starlette(
        routes=[
            Route("/health", _health),
            Route("/adapters/{name}", store.put, methods=["PUT"]),
            Route("/adapters/{name}", store.delete, methods=["DELETE"]),
        ],
        middleware=[Middleware(_NeedsToken, token=token)],
        exception_handlers={TooBig: _too_big, InvalidArgument: _invalid, OSError: _cannot_write},
    )


class _Store:
    """The adapters of one folder."""

    def __init__(self, folder: Path, limits: ArchiveLimits) -> None:
        self.folder, self.limits = folder, limits

    async def put(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse

        target = self._target(request)
        if target.exists():
            return _taken(target)
        with TemporaryDirectory(prefix=".", suffix=".tmp", dir=self.folder) as scratch:
            archive, fresh = Path(scratch) / "upload.zip", Path(scratch) / "adapter"
            fresh.mkdir()
            try:
                await self._receive(request, archive)
            except ClientDisconnect:
                return _error(400, "the upload broke off")
            await run_in_threadpool(unpack, archive, fresh, self.limits)
            try:
                fresh.rename(target)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                return _taken(target)
        return JSONResponse({"path": str(target)}, 201)

    async def delete(self, request: Request) -> Response:
        from starlette.responses import Response

        with TemporaryDirectory(prefix=".", suffix=".tmp", dir=self.folder) as scratch:
            try:
                self._target(request).rename(Path(scratch) / "adapter")
            except FileNotFoundError:
                return _error(404, "no adapter of this name")
        return Response(status_code=204)

    def _target(self, request: Request) -> Path:
        name = str(request.path_params["name"])
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                "an adapter's name has 1 to 128 letters, digits, '.', '_' and '-', and does not "
                "begin with a dot"
            )
        return self.folder / name

    async def _receive(self, request: Request, archive: Path) -> None:
        limit, received = self.limits.archive, 0
        with archive.open("xb") as file:
            async for block in request.stream():
                received += len(block)
                if received > limit:
                    raise TooBig(f"the upload is larger than {limit} bytes")
                file.write(block)


class _NeedsToken:
    """ASGI middleware: nothing but /health without the token, and no body is read without it."""

    def __init__(self, app: Callable[..., Awaitable[None]], token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        open_to_all = scope["type"] == "lifespan" or scope["path"] == "/health"
        app = self._app if open_to_all or self._admits(scope) else _unauthorized()
        await app(scope, receive, send)

    def _admits(self, scope: Any) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        return secrets.compare_digest(token, self._token) and scheme.lower() == b"bearer"


def _private_text(file: Path) -> str:
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise InvalidArgument(f"others can read {file}; run: chmod 600 {file}")
        return file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise InvalidArgument(f"cannot read the token file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"the token file {file} is no plain text") from None


def _prepared(folder: Path) -> Path:
    """The folder, made, without what a killed sidecar left half-written."""
    path = folder.resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
        for unfinished in path.glob(".*.tmp"):
            shutil.rmtree(unfinished)
    except OSError as error:
        raise InvalidArgument(f"cannot write adapters to {path}: {error.strerror}") from None
    return path


def _error(status: int, line: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": " ".join(line.split())}, status)


def _taken(target: Path) -> Response:
    from starlette.responses import JSONResponse

    said = f"there is an adapter {target.name} already; choose another name"
    return JSONResponse({"error": said, "path": str(target)}, 409)


def _unauthorized() -> Response:
    return _error(401, "the bearer token is missing or wrong")


async def _health(request: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"status": "ok"})


async def _too_big(request: Request, error: Exception) -> Response:
    return _error(413, str(error))


async def _invalid(request: Request, error: Exception) -> Response:
    return _error(422, str(error))


async def _cannot_write(request: Request, error: Exception) -> Response:
    reason = os.strerror(getattr(error, "errno", None) or errno.EIO)
    status = 507 if getattr(error, "errno", None) in _FULL else 500
    return _error(status, f"the adapter cannot be written on the rollout node: {reason}")


app = typer.Typer(add_completion=False)


@app.command(help=__doc__)
def main(
    adapters: Annotated[Path, typer.Option(metavar="FOLDER", help="Where adapters are kept.")],
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to bind.")] = 8001,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Token, mode 600; by default {TOKEN_VARIABLE}."),
    ] = None,
) -> None:
    """Serve until stopped."""
    try:
        uvicorn = require("uvicorn", "serve")
        token = read_token(token_file, os.environ)
        if token is None:
            raise InvalidArgument(f"the sidecar needs a token: set {TOKEN_VARIABLE}")
        service = build_app(adapters, token)
    except ClinicalEnvsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    uvicorn.run(service, host=host, port=port, log_level="warning", access_log=False, ws="none")


if __name__ == "__main__":
    app()
