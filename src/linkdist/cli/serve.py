"""`linkdist serve`: an HTTP service that predicts with a model."""

from __future__ import annotations

import ipaddress
import os
import socket
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Option, echo

from linkdist.cli.options import ModelDir
from linkdist.errors import OptionError

EXTRA = (
    "fastapi", "onnxruntime", "prometheus_client", "pydantic", "python_multipart", "uvicorn",
)  # fmt: skip
"""The modules that the extra `serve` installs."""

DRAIN = 30
"""Seconds that open requests may still take after SIGTERM."""


def serve(
    model: ModelDir,
    host: Annotated[
        str, Option(help="The address to listen on. 0.0.0.0 accepts requests from other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int, Option(help="The port to listen on. 0 selects a free port.", min=0, max=65535)
    ] = 8000,
    token_file: Annotated[
        Path | None,
        Option(metavar="FILE", help="A file with the token that every request must contain."),
    ] = None,
    workers: Annotated[
        int, Option(help="Number of processes that answer requests.", min=1, max=64)
    ] = 1,
    access_log: Annotated[
        bool,
        Option(
            "--access-log",
            help="Write a line for each request to standard error, without rows and tokens.",
        ),
    ] = False,
) -> None:
    """Serve a model over HTTP, with a web page at /.

    When 'linkdist update' replaces the model, the service loads the new one. On SIGTERM, it answers
    the open requests before it stops.
    """
    _check_extra()
    from linkdist.artifacts.manifest import ONNX, read_header
    from linkdist.serve.settings import Settings

    read_header(model, [ONNX])
    token_path = str(token_file.resolve()) if token_file else ""
    settings = Settings(str(model.resolve()), token_path, access_log)
    settings.read_token()
    settings.publish()
    with _listen(host, port) as listening:
        if not (settings.token_file or _is_loopback(host)):
            reachable = "no token is set, and other machines can reach this service"
            echo(f"{reachable}: see --token-file.", err=True)
        shown = f"[{host}]" if ":" in host else host
        echo(f"Serving {model} at http://{shown}:{listening.getsockname()[1]}", err=True)
        _run(listening, workers)


def _check_extra() -> None:
    try:
        for name in EXTRA:
            import_module(name)
    except ImportError as error:
        raise OptionError(
            f"serving needs {error.name}, which is not installed: pip install 'linkdist[serve]'."
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    """Open a socket; connections queue in it until the model is loaded."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Workers inherit this setting with the socket. They could not set it, because they do not know
    # that the socket is a TCP socket, and small answers would be delayed.
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

    app = "linkdist.serve.app:make_app"
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
