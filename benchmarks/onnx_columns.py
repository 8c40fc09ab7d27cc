"""Exported ONNX files against `linkdist predict`, for every kind of column.

For each kind a model is trained on a made table of 2,000 rows; 10,000 new rows, with missing and
unseen values, are predicted by the model and by ONNX Runtime, in Python and, with --node, in
JavaScript: FOLDER is one in which `npm install --ignore-scripts onnxruntime-node` was run.
Usage: python benchmarks/onnx_columns.py [--rows 10000] [--node FOLDER]
"""

import argparse
import csv
import json
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet
from measure import write

from linkdist import pipeline
from linkdist.artifacts.model_dir import load_model
from linkdist.artifacts.onnx import export_onnx
from linkdist.artifacts.onnx_graph.inputs import column_inputs
from linkdist.prediction import predict
from linkdist.tables.io import open_table
from linkdist.tables.node_table import NodeTable

TRAINED = 2000
WORDS = 20_000
EXAMPLE = Path(__file__).parents[1] / "examples" / "onnx_predict.mjs"
PUNCTUATION = np.array([" ", ", ", " - ", ". ", "\u2019s "])


def numeric(random, y):
    """Numbers far from 0, of which some are missing."""
    x = np.round(1e6 + 40 * y + 30 * random.standard_normal(len(y)), 3)
    return pa.array(x, mask=random.random(len(y)) < 0.1)


def dates(random, y):
    """Timestamps as ISO text; the classes are months apart."""
    seconds = 1_500_000_000 + 6e6 * y + random.integers(0, 10**7, len(y))
    text = np.datetime_as_string(seconds.astype("datetime64[s]"))
    return pa.array(text, mask=random.random(len(y)) < 0.1)


def categories(random, y):
    """Names of towns with letters beyond ASCII; new rows have unseen ones."""
    return pa.array([f"Köln {k}" for k in zipf(random, y, 1, 2000)[:, 0]])


def text(random, y):
    """Sentences of 5 to 60 words of a vocabulary of 20,000, with capitals and punctuation."""
    letters = np.array([f"wört{k}" if k % 3 else f"Слово{k}" for k in range(WORDS)])
    rows = []
    for words in letters[zipf(random, y, 60, WORDS)]:
        kept = words[: random.integers(5, 61)]
        marks = PUNCTUATION[random.integers(0, len(PUNCTUATION), len(kept))]
        rows.append("".join(np.stack([kept, marks], axis=1).ravel()).capitalize())
    return pa.array(rows)


def tags(random, y):
    """One to six tags of 3,000, with blanks in them."""
    found = zipf(random, y, 6, 3000)
    return pa.array(
        ["|".join(f"tag no {k}" for k in row[: 1 + i % 6]) for i, row in enumerate(found)]
    )


def vectors(random, y):
    """Vectors of 32 numbers, of which some are missing."""
    x = random.standard_normal((len(y), 32)) + y[:, None] / 3
    missing = random.random(len(y)) < 0.1
    rows = [None if gap else row for row, gap in zip(x.tolist(), missing, strict=True)]
    return pa.array(rows, pa.list_(pa.float32()))


def zipf(random, y, k, most):
    """Ranks of k words for each row; half of them depend on the class."""
    ranks = random.zipf(1.3, (len(y), k)) % most
    return np.where(random.random(ranks.shape) < 0.5, (ranks * 3 + y[:, None]) % most, ranks)


KINDS = {
    "numeric": numeric,
    "date": dates,
    "categorical": categories,
    "text": text,
    "tags": tags,
    "tags:binary": tags,
    "vector": vectors,
}


def table(kinds, n, seed):
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    columns = {f"x {kind}": KINDS[kind](random, y) for kind in kinds}
    ids = [f"n{seed}-{i}" for i in range(n)]
    return pa.table({"id": ids, **columns, "label": [("left", "middle", "right")[k] for k in y]})


def written(rows, path):
    """A table as CSV, or as Parquet if it has vectors."""
    if any(pa.types.is_list(kind) for kind in rows.schema.types):
        pyarrow.parquet.write_table(rows, path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return path.with_suffix(".csv")


def trained(kinds, folder):
    """A model directory that was trained for two epochs."""
    nodes = written(table(kinds, TRAINED, 0), folder / "nodes")
    same = np.random.default_rng(1).integers(0, TRAINED, (3 * TRAINED, 2))
    links = pa.table({"a": [f"n0-{i}" for i in same[:, 0]], "b": [f"n0-{i}" for i in same[:, 1]]})
    asked = {f"x {kind}": kind for kind in kinds}
    tables = pipeline.Tables(nodes, written(links, folder / "links"), "id", "label", kinds=asked)
    options = pipeline.Options("colinkdist", epochs=2, device="cpu")
    pipeline.train(tables, folder / "model", options)
    return folder / "model"


def one_row(session, inputs, repeats=2000):
    """Median microseconds of a single row."""
    rows = [{name: values[i : i + 1] for name, values in inputs.items()} for i in range(200)]
    times = []
    for k in range(repeats):
        started = time.perf_counter()
        session.run(["label", "probabilities"], rows[k % len(rows)])
        times.append(time.perf_counter() - started)
    return 1e6 * float(np.median(times))


def measured(kinds, count, node):
    with TemporaryDirectory() as name:
        folder = Path(name)
        model = trained(kinds, folder)
        saved = load_model(model)
        export_onnx(saved, folder / "model.onnx")
        nodes = written(table(kinds, count, 2), folder / "new")
        predict(model, nodes, folder / "out.parquet", device="cpu")
        expected = pyarrow.parquet.read_table(folder / "out.parquet")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(folder / "model.onnx", options)
        label, p, inputs = run(session, saved.encoders, nodes)
        shares = np.stack([expected[f"p_{one}"].to_numpy() for one in saved.model.classes], axis=1)
        labels = np.array(expected["label"].to_pylist())
        row = {
            "columns": ", ".join(kinds) if len(kinds) < 4 else "all of them",
            "features": saved.model.d,
            "rows": len(labels),
            "accuracy": f"{np.mean(labels == table(kinds, count, 2)['label'].to_numpy()):.1%}",
            "largest difference": f"{np.abs(p - shares).max():.1e}",
            "equal labels": f"{np.mean(label == labels):.2%}",
            "equal in JavaScript": in_node(folder, nodes, labels, node),
        }
        return {**row, "µs a row": round(one_row(session, inputs))}


def run(session, encoders, nodes):
    """Labels and probabilities of a table, and the inputs of its first rows."""
    labels, shares, first = [], [], None
    for _, batch in NodeTable(open_table(nodes), "id", None, encoders).batches(1000):
        inputs = column_inputs(encoders, batch)
        label, p = session.run(["label", "probabilities"], inputs)
        labels.append(label)
        shares.append(p)
        first = inputs if first is None else first
    return np.concatenate(labels), np.concatenate(shares), first


def in_node(folder, nodes, labels, node):
    """The share of equal labels of the JavaScript example."""
    if node is None or nodes.suffix != ".csv":
        return "no CSV" if node else "not run"
    script = shutil.copy(EXAMPLE, node)
    command = ["node", script, str(folder / "model.onnx"), str(nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [line.rsplit(", ", 1)[0] for line in done.stdout.splitlines()]
    return f"{np.mean(np.array(found) == labels):.2%}"


NOTES = (
    "",
    "'largest difference' is that of a probability between `linkdist predict` and ONNX Runtime. "
    "'µs a row': a single row, one thread, the median of 2,000 runs. CSV has no vectors, so the "
    "JavaScript example does not run on them.",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--node", type=Path)
    options = parser.parse_args()
    csv_kinds = [kind for kind in KINDS if kind != "vector"]
    sets = [*([kind] for kind in KINDS), csv_kinds, list(KINDS)]
    rows = []
    for kinds in sets:
        rows.append(measured(kinds, options.rows, options.node))
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    rows[-2]["columns"] = "all but vector"
    command = f"python benchmarks/onnx_columns.py --rows {options.rows}"
    write("onnx_columns", command + (" --node FOLDER" if options.node else ""), rows, notes=NOTES)


if __name__ == "__main__":
    main()
