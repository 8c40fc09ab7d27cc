"""Links in requests: relations, weights, and what is refused. Oracle: the request itself."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.artifacts.manifest import Header, Shape
from linkdist.serve.errors import RefusedError
from linkdist.serve.schema import RequestSchema


def schema_of(relations=("links",), directed=False, weight=None):
    R, K = 1, len(relations) * (1 + directed)
    alpha, own = np.ones((R, K), np.float32), np.ones(R, np.float32)
    about = {"weight": weight}
    shape, names = Shape(R, 2, 8, 2), ("no", "yes")
    task = ("classification", relations, directed)
    return RequestSchema(Header(shape, names, alpha, own, None, about, {}, "", 0.5, *task))


PLAIN, TYPED = schema_of(), schema_of(("cites", "knows"), directed=True, weight="strength")


def read(schema, links, rows=3, **more):
    body = {"rows": [[1.0, 2.0]] * rows, "links": links, **more}
    return schema.read(json.dumps(body).encode(), 100)


def refused(schema, links, **more):
    with pytest.raises(RefusedError) as error:
        read(schema, links, **more)
    assert error.value.status == 422
    return error.value.error


def test_pairs_and_objects_are_the_same():
    link = {"source": 2, "target": 0}
    for one in ([2, 0], link, {**link, "relation": "links"}, {**link, "weight": None}):
        found = read(PLAIN, [one]).links
        assert found.pairs.tolist() == [[0, 2]]
        assert (found.relation, found.weights) == (None, None)


def test_relations_directions_and_weights_are_read():
    links = [
        {"source": 2, "target": 0, "relation": "knows", "weight": 2},
        {"source": 0, "target": 2, "relation": "cites", "weight": 0.5},
        {"source": 2, "target": 0, "relation": "knows", "weight": 1.5},
    ]
    found = read(TYPED, links).links
    assert found.directed
    assert found.relations == ("cites", "knows")
    listed = zip(found.pairs.tolist(), found.relation.tolist(), found.weights.tolist(), strict=True)
    assert list(listed) == [([0, 2], 0, 0.5), ([2, 0], 1, 3.5)]


def test_links_without_the_weights_of_the_training_are_noticed():
    link = {"source": 0, "target": 1, "relation": "knows"}
    assert read(TYPED, []).notices == []
    assert read(TYPED, [{**link, "weight": 1}]).notices == []
    (notice,) = read(TYPED, [link]).notices
    assert "have no weights, so all of them weigh the same" in notice


@pytest.mark.parametrize(
    ("schema", "link", "words"),
    [
        (PLAIN, {"source": 0}, "two positions from 0 to 2"),
        (PLAIN, {"source": 0, "target": 3}, "two positions from 0 to 2"),
        (PLAIN, {"source": 0, "target": True}, "two positions from 0 to 2"),
        (PLAIN, {"source": 0, "target": 1, "strength": 2}, '"strength": 2}'),
        (PLAIN, [0, 1, "cites"], 'link 0 is [0, 1, "cites"]'),
        (PLAIN, {"source": 0, "target": 1, "relation": "lniks"}, "'lniks' (near: links)"),
        (PLAIN, {"source": 0, "target": 1, "relation": 7}, "must be text; link 0 has 7"),
        (PLAIN, {"source": 0, "target": 1, "weight": 0}, "from 1e-30 to 1e+30; link 0 has 0"),
        (PLAIN, {"source": 0, "target": 1, "weight": -1.5}, "link 0 has -1.5"),
        (PLAIN, {"source": 0, "target": 1, "weight": "2"}, 'link 0 has "2"'),
        (PLAIN, {"source": 0, "target": 1, "weight": True}, "link 0 has true"),
        (PLAIN, {"source": 0, "target": 1, "weight": 1e-40}, "link 0 has 1e-40"),
        (PLAIN, {"source": 0, "target": 1, "weight": 10**50}, "link 0 has 1000000"),
        (TYPED, [0, 1], "must have a 'relation', one of cites, knows; link 0 is [0, 1]"),
        (TYPED, {"source": 0, "target": 1, "relation": None}, "must have a 'relation'"),
        (TYPED, {"source": 0, "target": 1, "relation": "likes"}, "unknown relation 'likes'"),
    ],
)
def test_a_bad_link_is_refused_with_what_to_change(schema, link, words):
    assert words in refused(schema, [link])


def test_an_infinite_weight_is_refused():
    body = b'{"rows": [[1, 2], [1, 2]], "links": [{"source": 0, "target": 1, "weight": 1e999}]}'
    with pytest.raises(RefusedError, match="link 0 has Infinity"):
        PLAIN.read(body, 10)


def test_all_problems_are_told_at_once():
    links = [
        {"source": 0, "target": 9, "relation": "knows", "weight": 1},
        {"source": 0, "target": 1, "relation": "konws", "weight": 1},
        {"source": 0, "target": 1, "relation": "cites", "weight": -1},
        {"source": 0, "target": 1, "relation": "cites"},
        [1, 2],
    ]
    text = refused(TYPED, links, neighbours=[[1.0]])
    for words in (
        "a row must be a list of 2 finite numbers, since the model has no columns; row 4 has [1.0]",
        'link 0 is {"source": 0, "target": 9',
        "unknown relation 'konws' (near: knows)",
        "must be a number from 1e-30 to 1e+30; link 2 has -1",
        "a link must have a 'relation', one of cites, knows; link 4 is [1, 2]",
        "all links of a request must have a 'weight', or none; link 3 is [0, 1], link 4 is [1, 2]",
    ):
        assert words in text


def test_many_wrong_links_give_a_short_message():
    names = [{"source": 0, "target": 1, "relation": f"r{k}" * 40} for k in range(500)]
    text = refused(TYPED, [*names, *[[0]] * 400])
    assert "500 unknown relations in all" in text
    assert "400 in total" in text
    assert len(text) < 1500


values = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)
fields = st.dictionaries(
    st.sampled_from(["source", "target", "relation", "weight", "x"]), values | st.integers(0, 3)
)


@settings(deadline=None)
@given(links=st.lists(fields | st.lists(values | st.integers(0, 3)) | values, max_size=4))
def test_whatever_is_sent_is_read_or_refused_with_a_sentence(links):
    for schema in (PLAIN, TYPED):
        body = json.dumps({"rows": [[1.0, 2.0]] * 3, "links": links}).replace("Infinity", "1e999")
        found = outcome(schema, body.encode())
        if isinstance(found, RefusedError):
            assert found.status == 422
            assert found.error.endswith(".")
        else:
            assert found.problems(3) == []


def outcome(schema, body):
    try:
        return schema.read(body, 100).links
    except RefusedError as error:
        return error
