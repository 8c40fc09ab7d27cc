"""Explanations against brute force: tables with values removed, predicted again."""

from itertools import combinations
from math import factorial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch

from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.inference import explain_parts
from linkdist.inference.engine import Engine
from linkdist.inference.explain import explain
from linkdist.inference.explain_parts import RowParts
from linkdist.inference.heads import Heads, NearRows
from linkdist.model import logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.prediction import torch_heads
from linkdist.tables.feature_encoder import make_feature_encoder
from linkdist.tables.prediction_columns import PredictionColumns
from tests.serve.models import SAMPLE, of_all_kinds
from tests.task_models import TASKS, random_links, task_model

COLUMNS = ("title", "venue", "year")


@pytest.fixture(scope="module")
def engine(papers_model):
    return Engine(papers_model)


@pytest.fixture(scope="module")
def rows(papers):
    return pyarrow.csv.read_csv(papers / "nodes.csv").select(COLUMNS).to_pylist()


def batch_of(rows):
    kinds = {"title": pa.string(), "venue": pa.string(), "year": pa.int64()}
    return pa.RecordBatch.from_pylist(rows, pa.schema(kinds))


def explained(engine, rows, **options):
    return list(
        explain(engine.heads, engine.header.encoders, engine.columns, batch_of(rows), **options)
    )


def log_odds(engine, rows, k):
    """The log-odds of class k, as a service predicts these rows."""
    p = engine.probabilities(engine.header.encoders.transform(batch_of(rows))).astype(float)
    return np.log(p[:, k]) - np.log(np.delete(p, k, axis=1).sum(axis=1))


def of_column(one, column):
    return sum(part.contribution for part in one.parts if part.column == column)


def test_contributions_sum_to_the_predicted_log_odds(engine, rows):
    rows = rows[:100]
    p = engine.probabilities(engine.header.encoders.transform(batch_of(rows)))
    for k, (row, one) in enumerate(zip(rows, explained(engine, rows), strict=True)):
        assert one.row == k
        best = int(p[k].argmax())
        assert one.label == engine.header.classes[best]
        (score,) = log_odds(engine, [row], best)
        (base,) = log_odds(engine, [dict.fromkeys(COLUMNS)], best)
        assert one.base == pytest.approx(base, abs=1e-4)
        total = one.base + sum(part.contribution for part in one.parts)
        assert total == pytest.approx(score, abs=1e-4)
        assert one.score == pytest.approx(total, abs=1e-9)
        assert one.probability == pytest.approx(p[k, best], abs=1e-5)


def test_columns_have_their_shapley_values(engine, rows):
    for row in rows[:4]:
        (one,) = explained(engine, [row])
        k = engine.header.classes.index(one.label)
        for column in COLUMNS:
            others = [name for name in COLUMNS if name != column]
            expected = 0.0
            for size in range(3):
                for kept in combinations(others, size):
                    without = {name: row[name] if name in kept else None for name in COLUMNS}
                    a, b = log_odds(engine, [without, {**without, column: row[column]}], k)
                    expected += (b - a) * factorial(size) * factorial(2 - size) / factorial(3)
            assert of_column(one, column) == pytest.approx(expected, abs=1e-4)


def test_words_contribute_what_their_removal_changes(engine, rows):
    agree = 0
    for row in rows[:40]:
        (one,) = explained(engine, [row])
        k = engine.header.classes.index(one.label)
        words = list(dict.fromkeys(row["title"].lower().split()))
        others = [" ".join(w for w in row["title"].lower().split() if w != word) for word in words]
        variants = [row, *({**row, "title": text} for text in others)]
        score, *left = log_odds(engine, variants, k)
        found = {part.value: part.contribution for part in one.parts if part.kind == "word"}
        expected = dict(zip(words, score - np.array(left), strict=True))
        assert found == pytest.approx(expected, abs=1e-4)
        agree += max(found, key=found.get) == max(expected, key=expected.get)
    assert agree >= 38


def test_missing_and_unknown_values_are_no_parts(engine):
    row = {"title": "photon photon", "venue": "nowhere", "year": None}
    (one,) = explained(engine, [row])
    assert [(part.kind, part.value) for part in one.parts] == [("word", "photon")]
    (empty,) = explained(engine, [dict.fromkeys(COLUMNS)])
    assert empty.parts == ()
    assert empty.score == empty.base


def test_other_classes_can_be_explained(engine, rows):
    found = explained(engine, rows[:2], labels=["physics", "history", "physics"])
    assert [(one.row, one.label) for one in found] == [
        (0, "physics"), (0, "history"), (1, "physics"), (1, "history")
    ]  # fmt: skip
    with pytest.raises(OptionError, match="unknown class 'physic'"):
        explained(engine, rows[:1], labels=["physic"])


def test_long_texts_have_one_part_for_their_light_words(engine, rows, monkeypatch):
    monkeypatch.setattr("linkdist.inference.explain.MOST", 10)
    words = list(dict.fromkeys(" ".join(row["title"] for row in rows[:10]).split()))
    assert len(words) > 20
    row = {"title": " ".join([*words, *words[:5] * 20]), "venue": "letters", "year": 1990}
    (one,) = explained(engine, [row])
    (rest,) = [part for part in one.parts if part.kind == "words"]
    kept = [part.value for part in one.parts if part.kind == "word"]
    assert rest.value == f"{len(words) - 9} other words"
    assert len(kept) == 9
    assert set(words[:5]) <= set(kept)  # the most frequent words weigh most
    k = engine.header.classes.index(one.label)
    shorter = " ".join(word for word in row["title"].split() if word in kept)
    score, without = log_odds(engine, [row, {**row, "title": shorter}], k)
    assert rest.contribution == pytest.approx(score - without, abs=1e-4)
    assert one.base + sum(part.contribution for part in one.parts) == pytest.approx(score, abs=1e-4)


def test_words_that_the_encoder_finds_elsewhere_are_one_part(engine, rows, monkeypatch):
    found = [word for word in rows[0]["title"].split() if word != "photon"]
    monkeypatch.setattr(explain_parts, "words_of", lambda text: found)
    (one,) = explained(engine, rows[:1])
    (rest,) = [part for part in one.parts if part.kind == "words"]
    assert rest.value == "other words"
    k = engine.header.classes.index(one.label)
    score, without = log_odds(engine, [rows[0], {**rows[0], "title": " ".join(found)}], k)
    assert rest.contribution == pytest.approx(score - without, abs=1e-4)
    assert one.score == pytest.approx(score, abs=1e-4)


def test_parts_of_every_kind_of_column(tmp_path):
    engine = Engine(of_all_kinds(tmp_path / "model"))
    encoders, table = engine.header.encoders, pa.record_batch(SAMPLE)
    for k in range(3):
        parts = RowParts(encoders, table.slice(k, 1))
        whole, none = np.ones((1, len(parts.names)), bool), np.zeros((1, len(parts.names)), bool)
        features = encoders.transform(table.slice(k, 1)).toarray()
        np.testing.assert_allclose(parts.features(whole).toarray(), features, atol=1e-6)
        missing = pa.record_batch([pa.nulls(1, table[name].type) for name in SAMPLE], list(SAMPLE))
        np.testing.assert_allclose(
            parts.features(none).toarray(), encoders.transform(missing).toarray(), atol=1e-6
        )
    names = [
        (name.kind, name.column, name.value) for name in RowParts(encoders, table.slice(0, 1)).names
    ]
    assert names == [
        ("column", "day", "05/31/2004"), ("tag", "genre", "war"), ("tag", "genre", "drama"),
        ("tag", "topics", "a"), ("tag", "topics", "b"), ("column", "price", "1.200,50 €"),
        ("column", "v", "[0.0, 1.0]"),
    ]  # fmt: skip
    few = RowParts(encoders, table.slice(0, 1), most=1)
    assert ("tags", "topics", "2 other tags") in few.names
    whole = np.ones((1, len(few.names)), bool)
    features = encoders.transform(table.slice(0, 1)).toarray()
    np.testing.assert_allclose(few.features(whole).toarray(), features, atol=1e-6)


def test_a_linear_network_has_a_closed_form():
    kinds = {"a": "numeric", "b": "numeric", "c": "categorical"}
    table = pa.record_batch({"a": [1.0, 3.0], "b": [2.0, 6.0], "c": ["x", "y"]})
    encoders = make_feature_encoder(kinds).partial_fit(table)
    weights = np.array([2.0, -3.0, 5.0, 7.0], dtype=np.float32)

    def outputs(features):
        own = (features.toarray() @ weights + 1)[:, None, None]
        return own, own

    heads = Heads(outputs, np.ones((1, 1), np.float32), np.ones(1, np.float32), "regression")
    columns = PredictionColumns.of({"task": "regression"}, ("price",))
    (one, two) = explain(heads, encoders, columns, table)
    assert (one.label, one.base, one.score, one.probability) == ("price", 1, 7, None)
    first, second = ({part.column: part.contribution for part in x.parts} for x in (one, two))
    assert first == pytest.approx({"a": -2, "b": 3, "c": 5})
    assert second == pytest.approx({"a": 2, "b": -3, "c": 7})
    with pytest.raises(OptionError, match="predicts a number"):
        next(explain(heads, encoders, columns, table, labels=["price"]))


def test_values_that_are_too_large_are_an_error():
    encoders = make_feature_encoder({"a": "numeric"}).partial_fit(
        pa.record_batch({"a": [1.0, 3.0]})
    )
    one = np.ones((1, 1), np.float32)
    heads = Heads(lambda x: (np.full((len(x), 1, 1), np.inf),) * 2, one, one[0], "regression")
    columns = PredictionColumns.of({"task": "regression"}, ("price",))
    with pytest.raises(TableError, match="too large"):
        list(explain(heads, encoders, columns, pa.record_batch({"a": [4.0]})))


def numbers(task, model, x, links, node):
    """The explained quantity of a node, from the predictions of PyTorch in double precision."""
    z, s = logits(model.network, make_inputs(x, torch.device("cpu")))
    near = relations_of(links.merged(len(x)), len(x), torch.device("cpu"))
    p = model.output.mean(model.with_neighbours(z, s, near).double()).mean(0)[node].numpy()
    if task == "regression":
        return p
    rest = 1 - p if task == "multilabel" else p.sum() - p
    return np.log(p) - np.log(rest)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("relations", "directed"), [(("links",), False), (("a", "b"), True)])
def test_neighbours_contribute_what_their_removal_changes(task, weighted, relations, directed):
    model, n = task_model(task, relations, directed), 9
    names = [f"x{k}" for k in range(4)]
    x = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    encoders = make_feature_encoder(dict.fromkeys(names, "numeric"))
    for encoder in encoders.columns:
        encoder.deviation = 1.0
    links = random_links(n, relations, directed, weighted)
    columns = PredictionColumns.of({"task": task}, TASKS[task])
    heads, rows = torch_heads(model), np.array([0, 2, n - 1])
    near = NearRows.of(links, n, rows)
    outputs = heads.outputs(x[near.positions])[1]
    ids = [str(i) for i in near.positions]
    neighbours = [near.neighbours(row, outputs, ids) for row in range(3)]
    assert neighbours[2] is None  # the last node has no links
    table = pa.record_batch([x[rows, k] for k in range(4)], names)
    labels = None if task == "regression" else TASKS[task]
    found = list(explain(heads, encoders, columns, table, neighbours, labels))
    assert len(found) == 3 * len(TASKS[task])
    merged = links.merged(n)
    for one in found:
        node, c = int(rows[one.row]), TASKS[task].index(one.label)
        score = numbers(task, model, x, links, node)[c]
        assert one.score == pytest.approx(score, abs=1e-4)
        assert one.base + sum(part.contribution for part in one.parts) == pytest.approx(
            score, abs=1e-4
        )
        single = [part for part in one.parts if part.kind == "neighbour"]
        heads_of = [part.column for part in single]
        for part in single:
            if heads_of.count(part.column) == 1:
                continue  # it has the whole contribution of its relation
            without = remove(merged, node, int(part.value), part.column, n)
            left = numbers(task, model, x, without, node)[c]
            assert part.contribution == pytest.approx(score - left, abs=1e-4)
        assert len(single) == len({tuple(e) for e in edges_of(merged, node)})


def edges_of(links, node):
    """The edges of a node: neighbour and head."""
    edges = links.edges()
    heads = np.zeros(len(edges.pairs), int) if edges.heads is None else edges.heads
    mine = (edges.pairs[:, 0] == node) & (edges.pairs[:, 1] != node)
    return zip(edges.pairs[mine, 1].tolist(), heads[mine].tolist(), strict=True)


def remove(links, node, neighbour, head, n):
    """The links without those from a node to a neighbour by one head."""
    k = links.heads.index(head)
    relation = k // 2 if links.directed else k
    of_relation = (
        np.full(len(links.pairs), True) if links.relation is None else links.relation == relation
    )
    pair = np.array([node, neighbour])
    if links.directed:
        hit = (links.pairs == (pair if k % 2 == 0 else pair[::-1])).all(axis=1)
    else:
        hit = (np.sort(links.pairs, axis=1) == np.sort(pair)).all(axis=1)
    return links.take(~(hit & of_relation))


def test_hubs_have_one_part_for_their_light_links():
    model = task_model("classification")
    heads, x = torch_heads(model), np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    weights = np.arange(1, 12, dtype=np.float32)
    links = Links(np.stack([np.zeros(11, np.int64), np.arange(1, 12)], axis=1), weights=weights)
    near = NearRows.of(links, 12, np.array([0]))
    few = near.neighbours(0, heads.outputs(x[near.positions])[1], list("abcdefghijk"), most=4)
    assert [(name.kind, name.value) for name in few.names] == [
        ("neighbour", "i"), ("neighbour", "j"), ("neighbour", "k"),
        ("neighbours", "8 other neighbours"),
    ]  # fmt: skip
    own = heads.outputs(x[:1])[0]
    all_of_them = heads.explained(heads.combined(own, np.ones((1, 4), bool), few))[0]
    np.testing.assert_allclose(
        all_of_them, numbers("classification", model, x, links, 0), atol=1e-4
    )
    three = heads.explained(heads.combined(own, np.array([[True, True, True, False]]), few))[0]
    heavy = links.take(weights > 8)
    np.testing.assert_allclose(three, numbers("classification", model, x, heavy, 0), atol=1e-4)
