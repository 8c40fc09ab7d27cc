"""`linkdist serve`: an HTTP service that predicts with a model."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from linkdist.cli.options import ModelDir, grouped
from linkdist.errors import OptionError

if TYPE_CHECKING:
    from linkdist.serve.settings import Settings

EXTRA = (
    "fastapi", "httptools", "onnxruntime", "prometheus_client", "python_multipart", "uvicorn",
)  # fmt: skip
"""Modules that the extra `serve` installs."""

DRAIN = 30
"""Seconds that open requests may still take after SIGTERM."""

SPARE = 64
"""File descriptors that are not for connections."""

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits. All hold for each of the --workers."""

    max_rows: Annotated[
        int, Option(help="Largest number of rows and neighbours in a JSON request.", min=1)
    ] = 10_000
    max_values: Annotated[
        int,
        Option(
            help="Largest number of probabilities in the answer to a JSON request: rows × classes.",
            min=1,
        ),
    ] = 1_000_000
    max_body: Annotated[
        int, Option(metavar="MIB", help="Largest size of a JSON request, in MiB.", min=1)
    ] = 8
    max_file: Annotated[
        int, Option(metavar="MIB", help="Largest size of an uploaded table, in MiB.", min=1)
    ] = 256
    max_seconds: Annotated[
        float,
        Option(
            help="Seconds in which a body must arrive and in which an answer is computed. A large "
            "file may take longer, if 16 KiB arrive in each second.",
            min=0.1,
        ),
    ] = 30.0
    max_waiting: Annotated[
        int, Option(help="Largest number of rows that wait to be computed.", min=1)
    ] = 100_000
    tables: Annotated[
        int, Option(help="Number of tables that are predicted at the same time.", min=1, max=64)
    ] = 2
    table_rows: Annotated[
        int, Option(help="Largest number of rows of an uploaded table.", min=1)
    ] = 5_000_000
    table_seconds: Annotated[
        float, Option(help="Seconds in which a table must be predicted.", min=0.1)
    ] = 300.0
    memory: Annotated[
        int,
        Option(
            metavar="MIB",
            help="Memory that a table or a large request may use while it is computed, in MiB.",
            min=64,
        ),
    ] = 512
    max_spool: Annotated[
        int,
        Option(
            metavar="MIB",
            help="Largest total size of the temporary files of requests and answers, in MiB.",
            min=1,
        ),
    ] = 1024
    connections: Annotated[int, Option(help="Largest number of open connections.", min=1)] = 512
    header_seconds: Annotated[
        float, Option(help="Seconds in which the headers of a request must arrive.", min=0.1)
    ] = 10.0

    def settings(self) -> dict[str, Any]:
        """Return the limits under the names of `linkdist.serve.settings.Settings`."""
        return {
            "rows": self.max_rows,
            "values": self.max_values,
            "body_bytes": self.max_body * MIB,
            "file_bytes": self.max_file * MIB,
            "seconds": self.max_seconds,
            "waiting": self.max_waiting,
            "tables": self.tables,
            "table_rows": self.table_rows,
            "table_seconds": self.table_seconds,
            "memory_bytes": self.memory * MIB,
            "spool_bytes": self.max_spool * MIB,
            "connections": _possible_connections(self.connections),
            "header_seconds": self.header_seconds,
        }


@grouped()
def serve(
    model: ModelDir,
    limits: Limits,
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
    no_token: Annotated[
        bool,
        Option(
            "--no-token",
            help="Requests from other machines are answered without a token. By default, a service "
            "that other machines can reach needs --token-file.",
        ),
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="A host name under which the service may be addressed, beside addresses and "
            "'localhost'. Repeat the option for several names; '*' allows all. By default, names "
            "are allowed only if there is a token.",
        ),
    ] = None,
    workers: Annotated[
        int, Option(help="Number of processes that answer requests.", min=1, max=64)
    ] = 1,
    drift_rows: Annotated[
        int,
        Option(
            help="Number of last rows that /metrics compares with the training. Rows of tables and "
            "of large requests are not among them. 0 switches the comparison off.",
            min=0,
        ),
    ] = 1000,
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
    _check_system()
    _check_extra()
    from linkdist.serve.settings import ANY_HOST, Settings

    if token_file is not None and no_token:
        raise OptionError("--token-file and --no-token contradict each other. Leave one of them.")
    if token_file is None and not (no_token or _is_loopback(host)):
        raise OptionError(
            f"other machines can reach a service on {host}, and there is no token. Name a token "
            "with --token-file, or allow requests without one with --no-token."
        )
    settings = Settings(
        str(model.resolve()),
        str(token_file.resolve()) if token_file else "",
        tuple(allowed_host or ([ANY_HOST] if token_file else [])),
        os.getpid() if workers > 1 else 0,
        access_log,
        drift_rows=drift_rows,
        **limits.settings(),
    )
    _check(settings)
    settings.publish()
    with _listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        echo(f"Serving {model} at http://{shown}:{listening.getsockname()[1]}", err=True)
        _run(listening, workers)


def _check_system() -> None:
    if sys.platform == "win32":
        raise OptionError(
            "'serve' runs on Linux and macOS. Windows lacks the limits on memory and files that "
            "protect a service. Start it in WSL or in a container; all other commands run here."
        )


def _check_extra() -> None:
    try:
        for name in EXTRA:
            import_module(name)
    except ImportError as error:
        raise OptionError(
            f"serving needs {error.name}, which is not installed: pip install 'linkdist[serve]'."
        ) from error


def _check(settings: Settings) -> None:
    """Raise an error if the token or the model cannot be used.

    A single worker loads the model itself. Several workers would be started again and again.
    """
    from linkdist.artifacts.manifest import ONNX, read_header

    settings.read_token()
    if settings.parent:
        from linkdist.inference.engine import Engine

        Engine(Path(settings.model))
    else:
        read_header(Path(settings.model), [ONNX])


def _possible_connections(wanted: int) -> int:
    """Raise the limit of open files as far as it goes; connections beyond it are not possible."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS states no limit and then refuses to have none
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - SPARE))


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

    from linkdist.serve.connections import BoundedProtocol
    from linkdist.serve.settings import SHARED

    app = "linkdist.serve.app:make_app"
    options: dict[str, Any] = {
        "factory": True,
        "http": BoundedProtocol,
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN,
    }
    if workers == 1:
        # A closed terminal ends the service like SIGTERM, after the open requests.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[listening])
        return
    with TemporaryDirectory(prefix="linkdist-") as counters:
        os.environ[SHARED] = counters
        uvicorn.run(app, fd=listening.fileno(), workers=workers, **options)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
