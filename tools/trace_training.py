"""List the modules that a training passes on its way from two tables to a saved model.

A module counts if one of its functions runs between the call of `pipeline.train` and the end of the
first `save_model`; the report is written after that.
Usage: python tools/trace_training.py
"""

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

from linkdist import pipeline

ROOT = Path(__file__).parent.parent
PAPERS = ROOT / "examples" / "papers"
PACKAGE = str(ROOT / "src" / "linkdist")


def traced() -> dict[str, set[str]]:
    """Train on the example tables; the functions that ran, by module."""
    found: dict[str, set[str]] = {}

    def watch(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "return" and frame.f_code.co_name == "save_model":
            sys.setprofile(None)
            threading.setprofile(None)
        if event == "call" and name.startswith(PACKAGE) and name.endswith(".py"):
            module = name.removeprefix(PACKAGE).removesuffix(".py").strip("/").replace("/", ".")
            found.setdefault(module, set()).add(frame.f_code.co_qualname)

    tables = pipeline.Tables(PAPERS / "nodes.csv", PAPERS / "links.csv", "paper", "field")
    options = pipeline.Options(epochs=1, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        sys.setprofile(watch)
        threading.setprofile(watch)
        try:
            pipeline.train(tables, Path(folder) / "model", options)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    # A class body or a lambda at import time is no step of the training.
    return {
        module: functions - {"<module>"}
        for module, functions in found.items()
        if functions - {"<module>"}
    }


def main() -> None:
    """Print the modules with the number of functions that ran, and the total."""
    found = traced()
    for module in sorted(found):
        print(f"{len(found[module]):4d}  {module}")
    functions = sum(map(len, found.values()))
    print(f"{len(found)} modules, {functions} functions")


if __name__ == "__main__":
    main()
