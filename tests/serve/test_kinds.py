"""Dates, tags and money over HTTP. Oracle: the encoders of tables, given the same values."""

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

from linkdist import from_features
from linkdist.artifacts.model_dir import load_model
from linkdist.errors import ModelError
from linkdist.serve.app import make_app
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.tables.validation import Problems
from tests.serve.models import SAMPLE, ask, of_all_kinds, shares


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return of_all_kinds(tmp_path_factory.mktemp("kinds") / "films")


@pytest.fixture(scope="module")
def saved(directory):
    return load_model(directory)


@pytest.fixture(scope="module")
def client(directory):
    with TestClient(make_app(Settings(str(directory)))) as client:
        yield client


def as_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def features_and_notices(saved, columns):
    problems = Problems()
    table = pa.record_batch(columns)
    features = saved.encoders.transform(table, problems=problems)
    problems.check()
    return features, problems.notices()


def test_requests_of_all_kinds_are_predicted_as_tables(client, saved):
    answer = ask(client, as_rows(SAMPLE))
    features, notices = features_and_notices(saved, SAMPLE)
    np.testing.assert_allclose(shares(answer), from_features(saved.model, features), atol=1e-4)
    assert notices == []
    assert "notices" not in answer.json()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"day": "05/31/2004"}, {"day": "2004-05-31"}),
        ({"day": "05/31/2004"}, {"day": " 2004-05-31T00:00:00Z "}),
        ({"genre": "war|drama"}, {"genre": ["war", "drama"]}),
        ({"genre": "war|drama"}, {"genre": ["drama", "war", "war", None]}),
        ({"topics": ["a", "b"]}, {"topics": "b a"}),
        ({"price": 1200.5}, {"price": "1.200,50 €"}),
        ({"price": 3.5}, {"price": "3,5"}),
        ({"price": 1200}, {"price": "1.200"}),
        ({"price": 0}, {"price": False}),
    ],
)
def test_values_may_be_written_in_several_ways(client, one, other):
    first, second = shares(ask(client, [one, other]))
    np.testing.assert_array_equal(first, second)
    alone = shares(ask(client, [other]))[0]
    np.testing.assert_allclose(alone, first, atol=1e-6)


def test_whole_numbers_are_tags_as_in_a_table(client):
    answer = ask(client, [{"topics": [7, "a"]}, {"topics": ["7", "a"]}])
    first, second = shares(answer)
    np.testing.assert_array_equal(first, second)
    assert "2 are unknown to the model ('7')" in answer.json()["notices"][2]


def test_notices_are_those_of_a_table(client, saved):
    rows = as_rows(SAMPLE) * 4
    rows[1] = {**rows[1], "day": None, "genre": ["pop", "war"], "topics": [], "price": "much"}
    columns = {name: [row[name] for row in rows] for name in SAMPLE}
    columns["genre"] = [row if isinstance(row, str) else "|".join(row) for row in columns["genre"]]
    features, notices = features_and_notices(saved, columns)
    answer = ask(client, rows)
    assert answer.json()["notices"] == notices
    assert notices == [
        "column 'day': of 12 values, 1 is missing.",
        "column 'genre': of 12 values, 1 is unknown to the model ('pop').",
        "column 'topics': of 12 values, 1 is missing.",
        "column 'price': of 12 values, 1 is unsuitable (read as missing) ('much').",
    ]
    np.testing.assert_allclose(shares(answer), from_features(saved.model, features), atol=1e-4)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("day", "soon", "must contain dates such as 05/31/2004; row 1 has 'soon'."),
        ("day", "31/05/2004", "must contain dates such as 05/31/2004"),
        ("day", 1085961600, "must contain dates such as"),
        ("genre", 7, "must contain lists or separated text; row 1 has 7."),
        ("genre", [["war"]], "must contain lists or separated text"),
        ("topics", {"a": 1}, "must contain lists or separated text"),
        ("price", "much", "must contain numbers; row 1 has 'much'."),
        ("price", 1e39, "must contain finite numbers; row 1 has 1e+39."),
        ("v", [1], "must contain vectors of length 2, of finite numbers; row 1 has [1]."),
    ],
)
def test_a_wrong_value_is_worded_as_in_a_table(client, column, value, words):
    answer = ask(client, [{column: value}])
    assert answer.status_code == 422
    assert answer.json()["columns"].keys() == {column}
    assert f"column '{column}' {words}" in answer.json()["error"]


def test_more_than_a_tenth_of_wrong_numbers_is_an_error(client):
    rows = [{"price": 5}] * 9 + [{"price": "1.5"}]
    assert ask(client, rows).status_code == 200
    assert ask(client, rows[1:]).status_code == 422


def test_the_document_and_the_description_know_all_kinds(client):
    document = client.get("/openapi.json").json()
    row = document["components"]["schemas"]["Row"]["properties"]
    types = {name: {part["type"] for part in row[name]["anyOf"]} for name in SAMPLE}
    assert types["day"] == {"string", "null"}
    assert types["genre"] == types["topics"] == {"array", "string", "null"}
    body = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert body["example"]["rows"][0]["genre"] == ["war", "drama"]
    answer = client.post("/v1/predict", json=body["example"])
    assert answer.status_code == 200
    assert "notices" not in answer.json()
    columns = {one["name"]: one for one in client.get("/v1/model").json()["columns"]}
    assert columns["day"]["kind"] == "date"
    assert columns["day"]["example"] == "08/09/2007"  # 1165 days after 05/31/2004
    assert columns["genre"]["values"] == ["war", "drama", "love"]
    assert columns["genre"]["separator"] == "|"


def test_the_request_of_the_model_card_is_answered(client, directory):
    card = (directory / "README.md").read_text()
    command = card.partition("$ curl")[2].partition("```")[0].replace("\\\n", "")
    body = shlex.split(command)[-1]
    answer = client.post("/v1/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert json.loads(body)["rows"][0].keys() == SAMPLE.keys()
    shown = client.get("/v1/model").json()["card"]
    assert card.endswith(f"---\n{shown}"), "the service leaves out the metadata"


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_table_with_tags_has_notices_at_its_end(client, saved, tmp_path, suffix):
    table = {"node": [1, 2, 3], **SAMPLE, "topics": [["a"], ["new"], None]}
    path = tmp_path / f"films.{suffix}"
    if suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, as_rows(table))))
    else:
        pyarrow.parquet.write_table(pa.table(table), path)
    answer = client.post(
        f"/v1/predict/table?name={path.name}",
        content=path.read_bytes(),
        headers={"accept": "application/x-ndjson"},
    )
    *_, last = map(json.loads, answer.text.splitlines())
    _, notices = features_and_notices(saved, {name: table[name] for name in SAMPLE})
    assert last == {"end": 3, "notices": notices}
    assert notices == [
        "column 'topics': of 3 values, 1 is missing and 1 is unknown to the model ('new')."
    ]


def test_a_model_with_a_text_encoder_is_refused_in_a_sentence(tmp_path):
    class Lengths:
        def encode(self, texts):
            return [[len(text)] for text in texts]

    of_all_kinds(tmp_path / "embedded", Lengths())
    with pytest.raises(ModelError, match=r"cannot encode column 'title', .* text_encoder=...\)\.$"):
        ServedModel(tmp_path / "embedded")
    card = (tmp_path / "embedded" / "README.md").read_text()
    assert 'linkdist.load_model("embedded", text_encoder=...)' in card
    assert "curl" not in card
