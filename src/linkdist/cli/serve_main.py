"""The program `linkdist-serve`: the commands of `linkdist` that need no PyTorch.

The distribution of the same name installs it with the modules that it imports and no others; see
packages/linkdist-serve in the repository.
"""

from __future__ import annotations

from typing import Annotated

from linkdist.cli.drift import drift
from linkdist.cli.explain import explain
from linkdist.cli.predict_onnx import predict
from linkdist.cli.program import Debug, make_app, run, version_option
from linkdist.cli.serve import serve

app = make_app()


@app.callback()
def program(
    debug: Debug = False,
    version: Annotated[bool, version_option("linkdist-serve")] = False,
) -> None:
    """Serve a model that 'linkdist train' wrote, and predict tables with it, without PyTorch."""


for command in (serve, predict, explain, drift):
    app.command()(command)


def main() -> None:
    """Run the command line."""
    run(app, "linkdist-serve")


if __name__ == "__main__":
    main()
