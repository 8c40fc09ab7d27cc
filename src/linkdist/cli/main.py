"""The program `linkdist`: its commands."""

from __future__ import annotations

from typing import Annotated

from linkdist.cli.benchmark import benchmark
from linkdist.cli.check import check, evaluate, suggest
from linkdist.cli.drift import drift
from linkdist.cli.explain import explain
from linkdist.cli.paper import datasets, report, reproduce
from linkdist.cli.predict import export, predict, update
from linkdist.cli.program import Debug, make_app, run, version_option
from linkdist.cli.serve import serve
from linkdist.cli.store import store
from linkdist.cli.train import train

app = make_app()


@app.callback()
def program(
    debug: Debug = False,
    version: Annotated[bool, version_option("linkdist")] = False,
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
for command in (predict, explain, evaluate, drift, suggest, update, export, serve):
    app.command(rich_help_panel=OWN)(command)
app.add_typer(store, name="store", rich_help_panel=OWN)
for command in (datasets, benchmark, reproduce, report):
    app.command(rich_help_panel=NAMED)(command)


def main() -> None:
    """Run the command line."""
    run(app, "linkdist")


if __name__ == "__main__":
    main()
