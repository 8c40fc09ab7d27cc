"""A table of related columns of every kind, and a model of it without a training."""

import numpy as np
import pyarrow as pa

from linkdist.inference.drift_table import Reference
from linkdist.tables.column_summary import KEY, summarise_columns, summarise_predictions
from linkdist.tables.feature_encoder import make_feature_encoder
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.prediction_values import label_values, prediction_values

KINDS = {
    "age": "numeric",
    "price": "numeric",
    "shop": "categorical",
    "day": "date",
    "title": "text",
    "genres": "tags",
    "place": "vector",
    "noise": "numeric",
}
RELATED = [name for name in KINDS if name != "noise"]
CLASSES = ("art", "law", "math")
WORDS = [[f"{name}{k}" for k in range(30)] for name in ("ink", "court", "proof")]
COMMON = [f"common{k}" for k in range(40)]


def made_table(n, seed=0):
    """Rows of three classes, on which every column but `noise` depends."""
    random = np.random.default_rng(seed)
    z = random.integers(0, 3, n)
    near = np.where(random.random(n) < 0.8, z, random.integers(0, 3, n))
    titles = [" ".join([*random.choice(WORDS[k], 2), *random.choice(COMMON, 4)]) for k in near]
    genres = [list(dict.fromkeys(random.choice(WORDS[k][:8], 2).tolist())) for k in near]
    days = np.datetime64("2010-01-01") + (200 * z + random.integers(0, 400, n)).astype("m8[D]")
    return pa.table(
        {
            "age": 40 + 10 * z + random.normal(0, 6, n),
            "price": np.exp(z + random.normal(0, 0.5, n)),
            "shop": np.array([f"shop{k}" for k in 3 * near + random.integers(0, 3, n)]),
            "day": pa.array(days),
            "title": titles,
            "genres": pa.array(genres),
            "place": pa.array(list(random.normal(size=(n, 4)) * (1 + z[:, None]))),
            "noise": random.normal(size=n),
            "topic": np.array(CLASSES)[z],
        }
    )


def made_reference(table):
    """A model of plain weights, with a summary of a table as its training."""
    batch = table.combine_chunks().to_batches()[0]
    encoders = make_feature_encoder(KINDS, table).partial_fit(batch.select(list(KINDS)))
    weights = np.random.default_rng(0).normal(size=(encoders.d, 3))
    about = {"id": "node", "label": "topic", "task": "classification"}
    columns = PredictionColumns.of(about, CLASSES)

    def predict(features, links):
        scores = np.exp(np.clip(features @ weights, -30, 30))
        return scores / scores.sum(axis=1, keepdims=True)

    labels = label_values(
        columns.form, np.array([CLASSES.index(v.as_py()) for v in batch["topic"]])
    )
    state = summarise_columns(encoders, table, "topic", labels).state()
    p = predict(encoders.transform(batch.select(list(KINDS))), None)
    state["predictions"] = {"features": summarise_predictions([prediction_values(columns, p)])}
    return Reference({**about, KEY: state}, encoders, columns, predict)


def changed(table, name, values):
    """The table with another column."""
    return table.set_column(table.schema.names.index(name), name, values)


def shuffled(table, name, seed=0):
    """The table with the values of one column in other rows."""
    order = np.random.default_rng(seed).permutation(table.num_rows)
    return changed(table, name, table[name].take(pa.array(order)))


def half_missing(table, name):
    """The table without every second value of a column."""
    column = table[name].combine_chunks()
    present = pa.array(np.arange(table.num_rows) % 2 == 0)
    return changed(
        table, name, pa.compute.if_else(present, column, pa.nulls(len(column), column.type))
    )


def some_rows(table, size, seed):
    """A random draw of rows."""
    rows = np.random.default_rng(seed).choice(table.num_rows, size, replace=False)
    return table.take(pa.array(rows))
