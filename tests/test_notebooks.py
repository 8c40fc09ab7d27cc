"""The notebooks of examples/ run, print what they show, and end at the same predictions.

Oracles: the stored outputs, each other, and the service's engine on the directories they write.
"""

import csv
import json

import numpy as np
import pytest

from tests.pages import differences
from tools.run_notebooks import NOTEBOOKS, code_cells, examples_folder, run_cell, stored

WALKS = ("tables", "frames", "sklearn")
VARIES = "nbval-ignore-output"
"""The tag of cells whose output may differ between machines, as the plugin nbval names it."""


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Run all notebooks: their folder, and what each cell of each one printed."""
    printed = {}
    with (
        pytest.MonkeyPatch.context() as patch,
        examples_folder(tmp_path_factory.mktemp("walks")) as folder,
    ):
        patch.setenv("COLUMNS", "120")
        for path in NOTEBOOKS:
            cells, namespace = code_cells(json.loads(path.read_text())), {"__name__": "__main__"}
            ran = ["".join(run_cell("".join(cell["source"]), namespace)) for cell in cells]
            printed[path.stem] = list(zip(cells, ran, strict=True))
    return folder, printed


def labels(folder, walk):
    """The predicted class of every paper."""
    with (folder / f"{walk}-predictions.csv").open() as file:
        return {row["paper"]: row["label"] for row in csv.DictReader(file)}


def test_there_is_a_notebook_for_every_walk():
    assert {path.stem for path in NOTEBOOKS} == {f"walk_{walk}" for walk in WALKS}


@pytest.mark.parametrize("walk", WALKS)
def test_cells_print_what_the_notebook_shows(walked, walk):
    found = {}
    for cell, printed in walked[1][f"walk_{walk}"]:
        if VARIES in cell["metadata"].get("tags", ()):
            continue
        if missing := differences(stored(cell), printed):
            found["".join(cell["source"])] = (missing, printed)
        assert bool(stored(cell)) == bool(printed)
    assert found == {}


def test_walks_end_at_the_same_predictions(walked):
    tables, frames, sklearn = (labels(walked[0], walk) for walk in WALKS)
    assert len(tables) == 748
    assert len(set(tables.values())) == 4
    assert frames == tables
    assert sklearn == tables


@pytest.mark.parametrize("walk", WALKS)
def test_saved_models_can_be_served(walked, walk):
    pytest.importorskip("onnxruntime")
    from linkdist.serve.served_model import ServedModel
    from linkdist.tables.io import open_table

    folder, _ = walked
    engine = ServedModel(folder / f"{walk}-model")
    encoders = engine.header.encoders
    (batch,) = open_table(folder / "papers" / "new_nodes.csv").batches(encoders.names)
    best = engine.probabilities(encoders.transform(batch)).argmax(axis=1)
    predicted = np.array(engine.header.classes)[best].tolist()
    assert predicted == list(labels(folder, walk).values())
