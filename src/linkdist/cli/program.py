"""What the programs `linkdist` and `linkdist-serve` share: exit codes, and how they report errors.

Modules of this folder import PyTorch, NumPy and the like inside the commands that need them, so
that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any, TypeAlias

import typer

from linkdist._version import __version__
from linkdist.errors import LinkDistError

INTERRUPTED = 130
"""The exit code that shells use for Ctrl-C."""

Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Errors are shown with their traceback.")
]


def version_option(program: str) -> Any:  # noqa: ANN401
    """The option that prints the version of a program and exits."""

    def print_version(wanted: bool) -> None:
        if wanted:
            print(f"{program} {__version__}")
            raise typer.Exit

    text = "The program prints its version and exits."
    return typer.Option("--version", callback=print_version, is_eager=True, help=text)


def make_app() -> typer.Typer:
    """Make a program without commands."""
    return typer.Typer(
        no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False
    )


def run(app: typer.Typer, program: str) -> None:
    """Run a command line; a user's mistake ends in a plain message and exit code 2."""
    _replace_unknown_characters()
    # Processes that this one starts import nothing from the current directory.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        app()
    except LinkDistError as error:
        if "--debug" in sys.argv:
            raise
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer turns most interruptions into an exit without a message.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print(f"{program}: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        print(f"{program}: unexpected {type(error).__name__}: {error}", file=sys.stderr)
        print(
            f"{program}: '{program} --debug ...' shows the traceback; please report this error.",
            file=sys.stderr,
        )
        sys.exit(1)


def _replace_unknown_characters() -> None:
    """Write '?' for a character, such as '±', that a stream's encoding does not contain.

    Otherwise, a finished training would end in an error.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
