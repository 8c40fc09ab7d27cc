"""Predict with ONNX Runtime and NumPy alone.

python onnx_predict.py model.onnx nodes.csv

The file is one that `linkdist export` wrote: its inputs are the columns of the table. For each row
the program prints the class and its probability; a number and its prediction interval; or the
labels with their probabilities.
"""

import csv
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnxruntime

MISSING = ("", "#n/a", "-nan", "n/a", "na", "nan", "none", "null")
ROWS = 1000  # a batch, so that a table of any size needs little memory


def number(text, decimal):
    if decimal == ",":
        text = text.replace(".", "").replace(",", ".")
    return float({"true": 1, "false": 0}.get(text.lower(), text))


def seconds(text, form):
    """Seconds since 1970."""
    moment = datetime.fromisoformat(text) if form == "ISO" else datetime.strptime(text, form)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def value(text, column):
    """A number or a date; NaN if it is missing or cannot be read."""
    text = text.strip()
    try:
        if text.lower() in MISSING:
            return np.nan
        if column["kind"] == "date":
            return seconds(text, column["format"])
        return number(text, column["decimal"])
    except ValueError:
        print(f"column {column['name']!r}: {text!r} is read as missing.", file=sys.stderr)
        return np.nan


def inputs_of(rows, columns):
    inputs = {}
    for column in columns:
        texts = [row[column["name"]] for row in rows]
        if column["kind"] in ("numeric", "date"):
            inputs[column["name"]] = np.array([value(text, column) for text in texts])
        else:
            inputs[column["name"]] = np.array(texts, dtype=object)
    return inputs


def lines(outputs):
    """A line for each row."""
    if "label" in outputs:
        for label, p in zip(outputs["label"], outputs["probabilities"], strict=True):
            yield f"{label}, {p.max():.1%}"
    elif "labels" in outputs:
        for labels, p in zip(outputs["labels"], outputs["probabilities"], strict=True):
            found = [f"{label} {p[k]:.1%}" for k, label in enumerate(labels) if label]
            yield ", ".join(found) or "no label"
    else:
        ends = [outputs["low"][:, 0], outputs["high"][:, 0]] if "low" in outputs else []
        for found in zip(outputs["value"][:, 0], *ends, strict=True):
            interval = f", {found[1]:.5g} to {found[2]:.5g}" if ends else ""
            yield f"{found[0]:.5g}{interval}"


model, table = sys.argv[1:3]
session = onnxruntime.InferenceSession(model)
if [one.name for one in session.get_inputs()] == ["features"]:
    sys.exit(f"{model} takes features, not columns; `linkdist export` says why.")
columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
names = [output.name for output in session.get_outputs()]
if wrong := [one["name"] for one in columns if one["kind"] == "vector"]:
    sys.exit(f"{model} takes vectors, which CSV cannot store: {', '.join(wrong)}.")
with Path(table).open(newline="", encoding="utf-8-sig") as file:
    nodes = list(csv.DictReader(file))
if missing := [one["name"] for one in columns if nodes and one["name"] not in nodes[0]]:
    sys.exit(f"{table} lacks columns that the model takes: {', '.join(missing)}.")
for start in range(0, len(nodes), ROWS):
    found = session.run(names, inputs_of(nodes[start : start + ROWS], columns))
    print(*lines(dict(zip(names, found, strict=True))), sep="\n")
