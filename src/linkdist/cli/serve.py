"""`linkdist serve`: a model as an HTTP service, and its page."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from linkdist.artifacts.manifest import ONNX, read_header
from linkdist.errors import LinkDistError, OptionError
from linkdist.serve.settings import Settings

DRAIN = 30
"""Seconds that requests have to end after SIGTERM."""


def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory of 'train'.")],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0: everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the token that every request must carry."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1, max=64)] = 1,
) -> None:
    """Serve a model over HTTP, with a page for people at /.

    A model that 'update' puts in its place is picked up; SIGTERM ends what is being answered first.
    """
    _need_extra()
    read_header(model, [ONNX])
    settings = Settings(str(model.resolve()), str(token_file.resolve()) if token_file else "")
    _check_token(settings)
    settings.publish()
    with _listening(host, port) as listening:
        if not (settings.token_file or _is_loopback(host)):
            _say("no token is set, and other machines can reach this service: see --token-file.")
        shown = f"[{host}]" if ":" in host else host
        _say(f"Serving {model} at http://{shown}:{listening.getsockname()[1]}")
        _run(listening, workers)


def _need_extra() -> None:
    try:
        import fastapi
        import onnxruntime
        import prometheus_client
        import pydantic
        import uvicorn
    except ImportError as error:
        raise OptionError(
            f"serving needs {error.name}, which is not installed: pip install 'linkdist[serve]'."
        ) from error
    del fastapi, onnxruntime, prometheus_client, pydantic, uvicorn


def _check_token(settings: Settings) -> None:
    from linkdist.serve.middleware import read_token

    read_token(settings.token_file)


def _listening(host: str, port: int) -> socket.socket:
    """A socket that queues who connects, also before the model is read."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Handed on, it bears this along: workers do not know that it is TCP, and would wait to send.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise OptionError(f"{host}:{port} cannot be listened to: {error}.") from error
    listening.listen(2048)
    listening.set_inheritable(True)
    return listening


def _run(listening: socket.socket, workers: int) -> None:
    import uvicorn

    app = "linkdist.serve.app:make"
    options: dict[str, Any] = {
        "factory": True,
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN,
    }
    if workers == 1:
        uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[listening])
        return
    with TemporaryDirectory(prefix="linkdist-") as counters:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters
        uvicorn.run(app, fd=listening.fileno(), workers=workers, **options)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command by itself; a user's mistake is told in plain words, exit code 2."""
    try:
        typer.run(serve)
    except LinkDistError as error:
        _say(f"linkdist: {error}")
        sys.exit(2)


if __name__ == "__main__":
    main()
