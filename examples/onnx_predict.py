"""Predict with ONNX Runtime and NumPy alone.

python onnx_predict.py model.onnx nodes.csv [model.json]

An exported model of numeric columns takes the columns as they are. The network of any other model
takes features. They are computed from the columns with the numbers in `model.json`, which is in
the model directory.

For each row it prints the class and its probability; a number and its prediction interval; or the
labels whose probability reaches their threshold.
"""

import csv
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import numpy as np
import onnxruntime

MISSING = ("", "#n/a", "-nan", "n/a", "na", "nan", "none", "null")


PERIODS = 86400 * np.array([365.2425, 7, 1])  # seconds in a year, a week and a day


def number(text, decimal="."):
    if text.strip().lower() in MISSING:
        return np.nan
    return float(text if decimal == "." else text.replace(".", "").replace(decimal, "."))


def standardise(x, column):
    mean, deviation = np.array(column["mean"]), np.array(column["deviation"])
    z = np.where(deviation > 0, x - mean, 0) / np.where(deviation > 0, deviation, 1)
    return np.clip(np.nan_to_num(z), -1e6, 1e6)


def numeric(texts, column):
    return standardise([[number(text, column.get("decimal", "."))] for text in texts], column)


def seconds(text, form):
    if text.strip().lower() in MISSING:
        return np.nan
    read = datetime.fromisoformat if form == "ISO" else lambda value: datetime.strptime(value, form)
    moment = read(text.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def date(texts, column):
    age = np.array([[seconds(text, column["format"])] for text in texts])
    angles = 2 * np.pi * age / PERIODS
    circles = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(age), -1)
    return standardise(np.hstack([age, circles]), column)


def categorical(texts, column):
    return np.array([[text == known for known in column["categories"]] for text in texts])


def text(texts, column):
    counts = np.zeros((len(texts), len(column["frequencies"])))
    for row, words in zip(counts, texts, strict=True):
        for word in re.findall(r"\w+", words.lower()):
            row[crc32(word.encode()) % len(row)] += 1
    return tf_idf(counts, column["rows"], column["frequencies"])


def tf_idf(counts, rows, frequencies):
    weights = counts * (np.log((1 + rows) / (1 + np.array(frequencies))) + 1)
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / np.where(length > 0, length, 1)


def binary_tags(texts, column):
    parts = [text.split(column["separator"]) for text in texts]
    tags = [{part.strip(" []'\"\n") for part in row} for row in parts]
    return np.array([[known in row for known in column["frequencies"]] for row in tags], float)


def tags(texts, column):
    counts = list(column["frequencies"].values())
    return tf_idf(binary_tags(texts, column), column["rows"], counts)


ENCODERS = {"numeric": numeric, "date": date, "categorical": categorical, "text": text}
ENCODERS |= {"tags": tags, "tags:binary": binary_tags}


def features(nodes, path):
    """The (n, d) features of the rows of a table."""
    columns = json.loads(path.read_text())["columns"] if path.exists() else None
    if not columns or any(column["kind"] not in ENCODERS for column in columns):
        sys.exit(f"the model takes features, and {path} has no columns that make them from a CSV.")
    texts = [([row[column["name"]] for row in nodes], column) for column in columns]
    blocks = [ENCODERS[column["kind"]](values, column) for values, column in texts]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def best_class(p, classes, decision):
    return f"{classes[p.argmax()]}, {p.max():.1%}"


def number_and_interval(value, classes, decision):
    width = decision.get("widths", {}).get("features")  # half the width; None: there is none
    interval = "" if width is None else f", {value[0] - width:.5g} to {value[0] + width:.5g}"
    return f"{value[0]:.5g}{interval}"


def likely_labels(p, classes, decision):
    least = decision.get("thresholds", {}).get("features", [0.5] * len(p))
    likely = [k for k in range(len(p)) if p[k] >= least[k]]
    return ", ".join(f"{classes[k]} {p[k]:.1%}" for k in likely) or "no label"


TASKS = {
    "classification": ("probabilities", best_class),
    "regression": ("value", number_and_interval),
    "multilabel": ("probabilities", likely_labels),
}

model, table = map(Path, sys.argv[1:3])
session = onnxruntime.InferenceSession(model)
metadata = session.get_modelmeta().custom_metadata_map
classes, task, decision = (
    json.loads(metadata.get(key, default))
    for key, default in (("classes", "[]"), ("task", '"classification"'), ("decision", "{}"))
)
with table.open(newline="", encoding="utf-8-sig") as file:
    nodes = list(csv.DictReader(file))
names = [column.name for column in session.get_inputs()]
if names == ["features"]:
    header = Path(sys.argv[3]) if len(sys.argv) > 3 else model.with_name("model.json")
    inputs = {"features": features(nodes, header)}
else:
    inputs = {name: np.array([number(row[name]) for row in nodes]) for name in names}
output, line = TASKS[task]
for prediction in session.run([output], inputs)[0]:
    print(line(prediction, classes, decision))
