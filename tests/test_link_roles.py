"""Relations, weights and direction from tables to predictions.

Oracles: the same training from other tables, and the library underneath with links from Python.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import linkdist
from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.pipeline import GraphSource, Options, digest_of, read_graph, read_tables
from linkdist.progress import Callback
from linkdist.tables.source import Tables

N, M = 30, 90
FAST = {"method": "linkdist", "epochs": 2, "hidden_size": 8, "device": "cpu", "held_out": 0}
ROLES = {"relation": "kind", "weight": "years", "directed": True}


@pytest.fixture(scope="module")
def nodes():
    random = np.random.default_rng(0)
    size = random.normal(size=N).round(3)
    return pd.DataFrame({"id": range(N), "size": size, "field": np.where(size > 0, "up", "down")})


@pytest.fixture(scope="module")
def links():
    random = np.random.default_rng(1)
    ends = random.integers(0, N, (M, 2))
    kinds = np.array(["knows", "cites", "likes"])[random.integers(0, 3, M)]
    years = random.uniform(0.5, 4, M).astype(np.float32)
    return pd.DataFrame({"of": ends[:, 0], "to": ends[:, 1], "kind": kinds, "years": years})


def train(nodes, links, **options):
    """A model in whose predictions every head counts, and each differently."""
    model = linkdist.train(nodes, links, id="id", label="field", **FAST | options)
    alpha = model.model.alpha
    alpha.copy_(torch.linspace(0.5, 2.0, alpha.shape[-1]).expand_as(alpha))
    return model


@pytest.fixture(scope="module")
def model(nodes, links):
    return train(nodes, links, **ROLES)


def as_tables(links):
    """A table for each relation, sorted by name as the relations of a column are."""
    return {kind: part.drop(columns="kind") for kind, part in links.groupby("kind")}


def by_hand(links, relations=("cites", "knows", "likes")):
    codes = np.array([relations.index(kind) for kind in links.kind])
    return Links(links[["of", "to"]].to_numpy(), codes, links.years.to_numpy(), relations, True)


def weights(model):
    return {name: value.tolist() for name, value in model.model.network.state_dict().items()}


def test_the_graph_is_the_one_built_by_hand(nodes, links):
    tables = Tables(nodes, links, "id", "field", **ROLES)
    _, graph, _ = read_graph(tables, Callback())
    expected = by_hand(links).with_own_loops(N).merged(N)
    assert np.array_equal(graph.links, expected.pairs)
    assert np.array_equal(graph.link_relation, expected.relation)
    assert graph.link_weights == pytest.approx(expected.weights)
    assert (graph.relations, graph.directed) == (expected.relations, True)


def test_tables_of_relations_give_the_same_model(nodes, links, model, tmp_path):
    tables = as_tables(links)
    roles = {name: ROLES[name] for name in ("weight", "directed")}
    found = train(nodes, tables, **roles)
    assert weights(found) == weights(model)
    assert np.array_equal(found.predict_proba(nodes, tables), model.predict_proba(nodes, links))
    paths = [tmp_path / f"{kind}.csv" for kind in tables]
    for path, part in zip(paths, tables.values(), strict=True):
        part.to_csv(path, index=False)
    assert weights(train(nodes, paths, **roles)) == weights(model)
    turned = found.predict_proba(nodes, paths[::-1])
    assert np.array_equal(turned, model.predict_proba(nodes, links))
    alone = links[links.kind == "knows"]
    assert np.array_equal(found.predict_proba(nodes, paths[1]), model.predict_proba(nodes, alone))


def test_a_model_records_the_roles_and_the_relations(model, nodes, links):
    roles = ("source", "target", "relation", "weight", "directed", "relations")
    found = [model.about[role] for role in roles]
    assert found == ["of", "to", "kind", "years", True, ("cites", "knows", "likes")]
    plain = train(nodes, links[["of", "to"]])
    assert [plain.about[role] for role in roles] == [None, None, None, None, False, ("links",)]


def test_predictions_are_those_of_the_library(nodes, links, model):
    x = model.encoders.transform(pa.RecordBatch.from_pandas(nodes))
    expected = model.model.predict_proba(x, by_hand(links))
    assert np.allclose(model.predict_proba(nodes, links), expected, atol=1e-6)
    other_order = links[["years", "to", "kind", "of"]]
    assert np.allclose(model.predict_proba(nodes, other_order), expected, atol=1e-6)
    turned = links.rename(columns={"of": "to", "to": "of"})
    assert not np.allclose(model.predict_proba(nodes, turned), expected, atol=1e-6)


def test_links_unlike_those_of_the_training_are_refused(nodes, links, model):
    with pytest.raises(TableError, match="with the relations in column 'kind'; found only of, to"):
        model.predict(nodes, links.drop(columns="kind"))
    with pytest.raises(TableError, match=r"cites, knows, likes; found others: 'new' \(90 rows\)"):
        model.suggest(nodes, links.assign(kind="new"))
    trained = r"the relations in column 'kind' and the weights in column 'years'; found only of, to"
    with pytest.raises(TableError, match=trained):
        model.predict(nodes, links[["of", "to"]])
    with pytest.raises(TableError, match="the weights in column 'years'; found only of, to, kind"):
        model.evaluate(nodes, links.drop(columns="years"))
    with pytest.raises(TableError, match=r"row 1 has -1\.0, .* 90 in total"):
        model.predict(nodes, links.assign(years=-1))
    plain = train(nodes, links[["of", "to"]])
    with pytest.raises(TableError, match="without relations, so it takes one link table; found"):
        plain.predict(nodes, as_tables(links))
    assert len(plain.predict(nodes, links)) == N


def test_all_problems_of_links_are_reported_at_once(nodes, links, model):
    years = [0.0, -2.0, np.inf, np.nan, *links.years[4:]]
    wrong = links.assign(years=years, kind=["likes", "new", None, *links.kind[3:]])
    with pytest.raises(TableError) as error:
        model.predict(nodes, wrong)
    found = str(error.value)
    assert "column 'kind' must contain a relation in every row; row 3 is empty" in found
    assert "found others: 'new' (1 row)" in found
    assert "column 'years' must contain a weight in every row; row 4 is empty" in found
    assert "positive numbers" in found
    assert "row 1 has 0.0, row 2 has -2.0, row 3 has inf" in found


def test_rows_are_suggested_with_relations(nodes, links, model):
    fields = nodes.field.where(nodes.index % 3 > 0)
    rows = model.suggest(nodes.assign(field=fields), links, 4).to_pandas()
    p = model.predict_proba(nodes, links)[rows.id]
    assert rows.confidence.to_numpy() == pytest.approx(p.max(axis=1), abs=1e-6)
    assert set(rows.id) <= set(nodes.id[fields.isna()])


def test_a_direction_that_the_model_does_not_know_is_refused(nodes, links):
    saved = train(nodes, links[["of", "to"]])
    tables = Tables(nodes, links, "id", "field", directed=True)
    with pytest.raises(OptionError, match="trained with undirected links; leave out --directed"):
        read_graph(tables, Callback(), saved)


def test_other_weights_relations_and_directions_are_another_training(nodes, links):
    """A checkpoint must not continue with other links."""
    tables = Tables(nodes, links, "id", "field")
    tables = [replace(tables, **roles) for roles in (
        {}, {"relation": "kind"}, {"weight": "years"}, {"directed": True}, ROLES,
    )]  # fmt: skip
    renamed = links.assign(kind=links.kind.str.upper())
    heavier = links.assign(years=2 * links.years)
    tables += [replace(tables[-1], edges=other) for other in (renamed, heavier)]
    graphs = [read_tables(one, Callback()).graph for one in tables]
    assert len({digest_of(graph, Options().seed) for graph in graphs}) == len(graphs)
    again = GraphSource(read_tables(tables[-1], Callback()).graph)
    assert digest_of(again.graph, 0) == digest_of(graphs[-1], 0)


def test_the_summary_counts_the_links_of_each_relation(nodes, links):
    summaries = []

    class Summaries(Callback):
        def summary(self, summary):
            summaries.append(str(summary))

    train(nodes, links, callback=Summaries(), **ROLES)
    counts = links.drop_duplicates(["of", "to", "kind"]).kind.value_counts().sort_index()
    shown = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    assert f"links of each relation: {shown}; directed from column 'of' to 'to'" in summaries[0]
