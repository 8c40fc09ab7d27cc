"""Accuracy on text if frequent words have features, and if all words are hashed.

Real text: the docstrings of installed packages, read without importing them. A class is a package,
or a part of one; links join neighbours in a file and the names after 'See Also'. And the titles of
examples/papers. 70 % of the rows are the table of the training, which the encoders are fitted to; a
share of them has labels. The others are new rows, on which accuracy is measured from features.
Usage: python benchmarks/text_vocabulary.py [--seeds 5] [--epochs 30] [--sets ...]
"""

import argparse
import ast
import csv
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from measure import write
from sklearn.linear_model import LogisticRegression

from linkdist import Graph, Split, fit
from linkdist.tables.text_encoders import HashedText, Text

PACKAGES = ("numpy", "scipy", "pandas", "sklearn", "sympy", "networkx", "torch", "pyarrow")
SEE = re.compile(r"See Also\n\s*-+\n(.*?)(?:\n\n|\Z)", re.DOTALL)
ROWS = 6000
"""Maximum number of rows of a set; more are a random sample."""

FEW, MANY = 0.1, 0.5
"""Shares of the rows with labels; LinkDist is trained with few, for which links are made."""


def documented(package):
    """Module, name and docstring of every documented function and class of a package."""
    root = Path(find_spec(package).submodule_search_locations[0])
    for file in sorted(root.rglob("*.py")):
        module = ".".join((package, *file.relative_to(root).with_suffix("").parts))
        if "tests" in module or "test_" in module:
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node)
                if text and len(text.split()) >= 5:
                    yield module, node.name, text


def docstrings(depth, packages=PACKAGES, words=None):
    """Texts, classes and links; a class is the first `depth` parts of a module's name."""
    found = [row for package in packages for row in documented(package)]
    first = {text: i for i, (_, _, text) in reversed(list(enumerate(found)))}
    found = [found[i] for i in sorted(first.values())]  # copies tell nothing
    classes = [".".join(module.split(".")[:depth]) for module, _, _ in found]
    large = {name for name, count in Counter(classes).items() if count >= 60}
    kept = [i for i, name in enumerate(classes) if name in large]
    random = np.random.default_rng(0)
    kept = sorted(random.permutation(kept)[:ROWS].tolist())
    rows = [found[i] for i in kept]
    links = list(see_also(rows)) + [
        (i, i + 1) for i in range(len(rows) - 1) if rows[i][0] == rows[i + 1][0]
    ]
    texts = [" ".join(text.split()[:words]) for _, _, text in rows]
    return texts, [classes[i] for i in kept], np.array(links)


def see_also(rows):
    """Links from a text to the names that it refers to."""
    places = {name: i for i, (_, name, _) in enumerate(rows)}
    for i, (_, name, text) in enumerate(rows):
        section = SEE.search(text)
        names = re.findall(r"(\w+)\s*(?::|,|\n|$)", section[1]) if section else ()
        yield from ((i, places[other]) for other in names if other in places and other != name)


def papers():
    """The titles of examples/papers, all of whose fields are known."""
    folder = Path(__file__).parents[1] / "examples" / "papers"
    with (folder / "nodes.csv").open() as nodes, (folder / "truth.csv").open() as truth:
        rows = list(csv.DictReader(nodes))
        fields = {row["paper"]: row["field"] for row in csv.DictReader(truth)}
    rows = [row for row in {row["paper"]: row for row in rows}.values() if row["paper"] in fields]
    places = {row["paper"]: i for i, row in enumerate(rows)}
    with (folder / "links.csv").open() as file:
        pairs = [(places.get(row["from"]), places.get(row["to"])) for row in csv.DictReader(file)]
    links = [pair for pair in pairs if None not in pair]
    return [row["title"] for row in rows], [fields[row["paper"]] for row in rows], np.array(links)


SETS = {
    "docstrings, package": lambda: docstrings(1),
    "docstrings, package, first 12 words": lambda: docstrings(1, words=12),
    "docstrings, part of a package": lambda: docstrings(2),
    "docstrings, part of scipy": lambda: docstrings(2, ["scipy"]),
    "papers, titles": papers,
}


def vocabulary(most, fewest):
    """An encoder of at most `most` words that at least `fewest` rows contain."""
    kind = type("Words", (Text,), {"most": most, "fewest": fewest})
    return lambda: kind("text")


ENCODINGS = {
    "hashed, 4096": lambda: HashedText("text", 0, [0] * 4096),
    "words, 4096": vocabulary(4096, 1),
    "words, 8192": vocabulary(8192, 1),
    "words, 16384": vocabulary(16384, 1),
    "words in 2 rows, 8192": vocabulary(8192, 2),
}


def accuracies(texts, classes, links, make, seed, labelled, epochs):
    """Accuracy on new rows of logistic regression and of LinkDist; the number of features."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(texts))
    table, new = np.split(order, [int(0.7 * len(order))])
    known = table[: int(labelled * len(table))]
    y = np.unique(classes, return_inverse=True)[1]
    encoder = make()
    encoder.partial_fit(pa.array([texts[i] for i in table]))
    x = encoder.transform(pa.array(texts))
    logistic = LogisticRegression(C=10, max_iter=300).fit(x[known], y[known])
    scores = {"logistic": np.mean(logistic.predict(x[new]) == y[new]), "features": encoder.width}
    if epochs:
        inside = np.zeros(len(texts), dtype=bool)
        inside[table] = True
        links = links[inside[links].all(axis=1)]
        graph = Graph.build(x, links, y)
        train, val = known[len(known) // 10 :], known[: len(known) // 10]
        split = Split(train, val, new)
        done = fit(graph, split, method="colinkdist", seeds=[seed], epochs=epochs, device="cpu")
        p = done.model.predict_proba(x[new])
        scores["LinkDist"] = np.mean(p.argmax(axis=1) == y[new])
    return scores


def percent(values):
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    rows = []
    for name in options.sets:
        texts, classes, links = SETS[name]()
        print(name, len(texts), len(set(classes)), len(links), flush=True)
        for labelled in (FEW, MANY):
            for encoding, make in ENCODINGS.items():
                epochs = options.epochs if labelled == FEW else 0
                found = [
                    accuracies(texts, classes, links, make, seed, labelled, epochs)
                    for seed in range(options.seeds)
                ]
                row = {"set": name, "rows": len(texts), "classes": len(set(classes))}
                row |= {"labelled": f"{labelled:.0%}", "encoding": encoding}
                row["features"] = round(np.mean([one["features"] for one in found]))
                row["logistic regression"] = percent([one["logistic"] for one in found])
                if epochs:
                    row["LinkDist"] = percent([one["LinkDist"] for one in found])
                rows.append(row)
                print(*row.values(), sep=" | ", flush=True)
    command = f"python benchmarks/text_vocabulary.py --seeds {options.seeds}"
    write("text_vocabulary", f"{command} --epochs {options.epochs}", rows, notes=NOTES)


NOTES = (
    "",
    "Accuracy on new rows in percent, from features: mean and deviation over seeds. 'labelled' is "
    "the share of the table's rows with labels.",
)

if __name__ == "__main__":
    main()
