"""Explanations of real rows: sums, agreement with occlusion, and time.

The words of a graph's nodes are written as text into a table, a model is trained on it, and rows
are explained one by one. Occlusion removes each word of a text, encodes the row again and predicts
it; the top word is the one whose removal lowers the log-odds of the predicted class most. For
comparison, all words and columns share the log-odds by Shapley values, estimated from permutations.
Usage: python benchmarks/explain.py [--sets papers,cora,blogcatalog] [--rows 500] [--epochs N]
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
from graphs import load
from measure import write
from scipy import sparse

from linkdist import pipeline
from linkdist.inference.engine import Engine
from linkdist.inference.explain import explain
from linkdist.inference.explain_parts import RowParts
from linkdist.inference.explain_table import explain_table
from linkdist.inference.shapley import shapley_values
from linkdist.tables.predictions import write_table
from linkdist.tables.text_encoders import words_of

PAPERS = Path(__file__).parent.parent / "examples" / "papers"
PERMUTED = 1024
"""Subsets from which Shapley values of words are estimated."""


def tables(name, folder):
    """The node table, the link table, and the columns of ids and labels."""
    if name == "papers":
        return pipeline.Tables(PAPERS / "nodes.csv", PAPERS / "links.csv", "paper", "field")
    graph = load(name)
    x = sparse.csr_matrix(graph.features)
    ids = [f"n{i}" for i in range(graph.n)]
    rows = np.split(x.indices, x.indptr[1:-1])
    text = [" ".join(f"w{word}" for word in np.sort(row)) for row in rows]
    labels = [f"class {k}" for k in graph.labels]
    nodes, links = folder / f"{name}-nodes.csv", folder / f"{name}-links.csv"
    write_table(pa.table({"id": ids, "words": text, "class": labels}), nodes)
    ends = {end: [ids[i] for i in column] for end, column in zip("ab", graph.links.T, strict=True)}
    write_table(pa.table(ends), links)
    return pipeline.Tables(nodes, links, "id", "class")


def log_odds(engine, batch, k):
    p = engine.probabilities(engine.header.encoders.transform(batch)).astype(np.float64)
    return np.log(p[:, k]) - np.log(np.delete(p, k, axis=1).sum(axis=1))


def occlusion(engine, row, text, k):
    """How much each word of a text adds to the log-odds, by removing it from the table."""
    words = words_of(row.column(text.name)[0].as_py() or "")
    without = {word: " ".join(one for one in words if one != word) for word in words}
    place = row.schema.get_field_index(text.name)
    columns = [
        pa.concat_arrays([row.column(i)] * (1 + len(without))) for i in range(row.num_columns)
    ]
    columns[place] = pa.concat_arrays([row.column(place), pa.array(without.values(), pa.string())])
    score, *left = log_odds(engine, pa.record_batch(columns, row.schema.names), k)
    return score, dict(zip(without, score - np.array(left), strict=True))


def shapley_of_words(engine, row, k):
    """The Shapley values of all words and columns."""
    parts = RowParts(engine.header.encoders, row)
    heads = engine.heads

    def value(present):
        return heads.explained(heads.outputs(parts.features(present))[0].astype(np.float64))

    _, _, found = shapley_values(value, len(parts.names), PERMUTED)
    pairs = zip(parts.names, found[:, k], strict=True)
    return {name.value: x for name, x in pairs if name.kind == "word"}


def top(values):
    return max(values, key=values.get)


def measure(name, rows, epochs, folder):
    """One line of the table."""
    source = tables(name, folder)
    out = folder / f"{name}-model"
    pipeline.train(source, out, pipeline.Options(epochs=epochs, device="cpu"))
    engine = Engine(out)
    encoders = engine.header.encoders
    text = next(one for one in encoders.columns if one.kind == "text")
    table = (
        pyarrow.csv.read_csv(source.nodes).select(encoders.names).slice(0, rows).combine_chunks()
    )
    batch = table.to_batches()[0]
    one_by_one = [batch.slice(k, 1) for k in range(rows)]
    list(explain(engine.heads, encoders, engine.columns, batch.slice(0, 5)))  # warm-up
    seconds, errors, agree, shapley, words = [], [], [], [], []
    for row in one_by_one:
        started = time.perf_counter()
        (found,) = explain(engine.heads, encoders, engine.columns, row)
        seconds.append(time.perf_counter() - started)
        k = engine.header.classes.index(found.label)
        score, removed = occlusion(engine, row, text, k)
        errors.append(abs(found.base + sum(part.contribution for part in found.parts) - score))
        own = {part.value: part.contribution for part in found.parts if part.kind == "word"}
        words.append(len(own))
        if len(own) > 1:
            agree.append(top(own) == top(removed))
            shapley.append(top(shapley_of_words(engine, row, k)) == top(removed))
    return {
        "data": name,
        "rows": rows,
        "words a row": f"{np.mean(words):.0f} (most {max(words)})",
        "largest error of sums": f"{max(errors):.1e}",
        "top word agrees": f"{np.mean(agree):.1%}",
        "top word of Shapley values agrees": f"{np.mean(shapley):.1%}",
        "ms a row, median": f"{1e3 * np.median(seconds):.1f}",
        "ms a row, 95 %": f"{1e3 * np.quantile(seconds, 0.95):.1f}",
        "ms a row with links": f"{1e3 * with_links(engine, source, 50):.1f}",
    }


def with_links(engine, source, rows):
    """Seconds for each of the rows after the tables are read."""
    found = explain_table(
        engine.heads, engine.columns, engine.header, source.nodes, source.edges, rows=rows
    )
    next(found)
    started = time.perf_counter()
    count = len(list(found))
    return (time.perf_counter() - started) / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default="papers,cora,blogcatalog")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        rows = [
            measure(name, options.rows, options.epochs, Path(folder))
            for name in options.sets.split(",")
        ]
    notes = [
        "",
        "A word contributes what its removal changes, so the top words agree where the computation "
        "is right. Shapley values of single words, estimated from "
        f"{PERMUTED} subsets, are shown for comparison.",
    ]
    command = " ".join(["python benchmarks/explain.py", *sys.argv[1:]])
    write("explain", command, rows, notes=notes)


if __name__ == "__main__":
    main()
