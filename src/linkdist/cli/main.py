"""The program `linkdist`: its commands, its exit codes and how it reports errors.

Modules of this folder import PyTorch, NumPy and the like inside the commands that need them, so
that `linkdist --help` and `linkdist --version` answer at once.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

import linkdist
from linkdist.cli.benchmark import benchmark
from linkdist.cli.check import check, evaluate, suggest
from linkdist.cli.paper import datasets, report, reproduce
from linkdist.cli.predict import export, predict, update
from linkdist.cli.serve import serve
from linkdist.cli.store import store
from linkdist.cli.train import train
from linkdist.errors import LinkDistError

INTERRUPTED = 130
"""The exit code that shells use for Ctrl-C."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"linkdist {linkdist.__version__}")
        raise typer.Exit


@app.callback()
def program(
    debug: Annotated[
        bool, typer.Option("--debug", help="Errors are shown with their traceback.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="The program prints its version and exits.",
        ),
    ] = False,
) -> None:
    """Train on a graph's links, keep an MLP.

    LinkDist learns from the links of a graph and produces a plain MLP, which classifies a node
    from its features alone. Where links are available, a second mode uses them too. To start:
    linkdist benchmark digits
    """


OWN, NAMED = "Your own data", "Named data sets"
app.command(rich_help_panel=OWN)(check)
# Train names the command that a data set's name is for.
app.command(rich_help_panel=OWN, context_settings={"allow_extra_args": True})(train)
for command in (predict, evaluate, suggest, update, export, serve):
    app.command(rich_help_panel=OWN)(command)
app.add_typer(store, name="store", rich_help_panel=OWN)
for command in (datasets, benchmark, reproduce, report):
    app.command(rich_help_panel=NAMED)(command)


def _replace_unknown_characters() -> None:
    """Write '?' for a character, such as '±', that a stream's encoding does not contain.

    Otherwise, a finished training would end in an error.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    """Run the command line; a user's mistake ends in a plain message and exit code 2."""
    _replace_unknown_characters()
    # Processes that this one starts import nothing from the current directory.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        app()
    except LinkDistError as error:
        if "--debug" in sys.argv:
            raise
        print(f"linkdist: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer turns most interruptions into an exit without a message.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print("linkdist: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        print(f"linkdist: unexpected {type(error).__name__}: {error}", file=sys.stderr)
        print(
            "linkdist: 'linkdist --debug ...' shows the traceback; please report this error.",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
