"""Relations, weights and direction of links; the oracle reads the rows one by one in Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from linkdist.data.links import LINKS, MOST_RELATIONS
from linkdist.errors import TableError
from linkdist.tables import formats
from linkdist.tables import links as module
from linkdist.tables.links import LinkReport, read_links

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

IDS = pa.array(["7", "8", "9"])
NODES = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)
NAMES = st.sampled_from(["knows", "cites", "a b", "Ä", "7"])
WEIGHTS = st.floats(2**-7, 128, width=32)
ROWS = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 11), NAMES, WEIGHTS), min_size=1, max_size=25
)
COLUMNS = ("a", "kind", "b", "years")


def write(path, columns):
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        lines = [";".join("" if value is None else str(value) for value in row) for row in rows]
        path.write_text("\n".join([";".join(table.column_names), *lines]) + "\n")
    return path


def as_table(rows, form, folder, name="links"):
    """Rows as a table in memory or a file; the columns are in an order that needs the roles."""
    a, b, kinds, years = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 4
    columns = dict(zip(COLUMNS, (a, kinds, b, years), strict=True))
    if form == "memory":
        return columns
    types = (pa.int64(), pa.string(), pa.int64(), pa.float64())
    arrays = map(pa.array, columns.values(), types)
    return write(folder / f"{name}{form}", dict(zip(columns, arrays, strict=True)))


FORMS = st.sampled_from(["memory", ".parquet", ".csv"])


def read_one_by_one(rows, ids, directed):
    """Links and what was found of each row, in plain Python."""
    place, found = {node: row for row, node in enumerate(ids)}, defaultdict(list)
    for a, b, kind, years in rows:
        if a in place and b in place:
            pair = place[a], place[b]
            found[(kind, *(pair if directed else sorted(pair)))].append(years)
    return {key: math.fsum(found[key]) for key in sorted(found)}


@in_one_folder
@given(NODES, ROWS, FORMS, st.integers(1, 7), *[st.booleans()] * 3)
def test_links_are_those_of_the_rows_one_by_one(
    tmp_path, ids, rows, form, size, related, weighted, directed
):
    told = [(a, b, kind if related else "links", years) for a, b, kind, years in rows]
    expected = read_one_by_one(told, ids, directed)
    assume(expected)
    roles = {"relation": "kind"} if related else {}
    roles |= {"weight": "years"} if weighted else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LINKS", size)
        links, report = read_links(
            as_table(rows, form, tmp_path), pa.array(ids), "a", "b", directed=directed, **roles
        )
    names = tuple(sorted({kind for kind, *_ in expected}))
    assert (links.relations, links.directed) == (names, directed)
    assert links.pairs.tolist() == [[a, b] for _, a, b in expected]
    assert links.pairs.dtype == np.int64
    if len(names) > 1:
        assert links.relation.tolist() == [names.index(kind) for kind, *_ in expected]
    else:
        assert links.relation is None
    if weighted:
        assert links.weights.dtype == np.float32
        assert links.weights.tolist() == pytest.approx(list(expected.values()), rel=1e-6)
        assert report.weights == (links.weights.min(), links.weights.max())
    else:
        assert links.weights is report.weights is None
    known = sum(a in ids and b in ids for a, b, *_ in rows)
    assert (report.total, report.kept) == (len(rows), len(expected))
    assert (report.unknown, report.duplicates) == (len(rows) - known, known - len(expected))
    assert report.loops == sum(a == b for _, a, b in expected)
    if related:
        assert dict(report.relations) == Counter(kind for kind, *_ in expected)
        assert set(report.left_out) == {kind for *_, kind, _ in rows} - set(names)
    assert report.ends == (("a", "b") if directed else None)
    assert links.problems(len(ids)) == []
    links.edges()


@in_one_folder
@given(NODES, ROWS, FORMS, *[st.booleans()] * 2)
def test_tables_of_relations_are_one_table_with_a_column(
    tmp_path, ids, rows, form, weighted, directed
):
    expected = read_one_by_one(rows, ids, directed)
    groups = {
        kind: [row for row in rows if row[2] == kind] for kind in sorted({r[2] for r in rows})
    }
    assume({kind for kind, *_ in expected} == set(groups))
    roles = {"directed": directed} | ({"weight": "years"} if weighted else {})
    tables = {kind: as_table(part, form, tmp_path, kind) for kind, part in groups.items()}
    if form != "memory" and len(tables) > 1:
        tables = list(tables.values())
    one, whole = read_links(
        as_table(rows, form, tmp_path), pa.array(ids), "a", "b", relation="kind", **roles
    )
    several, sums = read_links(tables, pa.array(ids), "a", "b", **roles)
    assert several.relations == one.relations
    for part in ("pairs", "relation", "weights"):
        assert np.array_equal(getattr(several, part), getattr(one, part))
    assert several.problems(len(ids)) == []
    same = ("total", "kept", "unknown", "duplicates", "loops", "relations", "weights", "ends")
    assert [getattr(sums, name) for name in same] == [getattr(whole, name) for name in same]


@in_one_folder
@given(ROWS, FORMS, st.permutations(["knows", "cites", "a b", "Ä", "7", "unseen"]))
def test_relations_of_a_model_keep_their_positions(tmp_path, rows, form, relations):
    ids = pa.array(range(12))
    links, report = read_links(
        as_table(rows, form, tmp_path), ids, "a", "b", relation="kind", relations=relations
    )
    expected = read_one_by_one(rows, range(12), False)
    assert links.relations == tuple(relations)
    found = [
        (relations[r], *pair) for r, pair in zip(links.relation, links.pairs.tolist(), strict=True)
    ]
    assert sorted(found) == list(expected)
    assert links.relation.tolist() == sorted(links.relation)
    assert dict(report.relations) == {
        name: sum(kind == name for kind, *_ in expected) for name in relations
    }


@in_one_folder
@given(ROWS, FORMS, st.sets(NAMES, min_size=1))
def test_relations_that_a_model_does_not_know_are_counted(tmp_path, rows, form, known):
    unknown = Counter(kind for *_, kind, _ in rows if kind not in known)
    assume(unknown)
    with pytest.raises(TableError) as caught:
        read_links(
            as_table(rows, form, tmp_path), pa.array(range(12)), "a", "b",
            relation="kind", relations=sorted(known),
        )  # fmt: skip
    message = str(caught.value)
    assert f"the model was trained with the relations {', '.join(sorted(known))};" in message
    for name, count in unknown.items():
        assert f"{name!r} ({count} row{'s' * (count > 1)})" in message
    assert message.count("row") == len(unknown)


@given(ROWS)
def test_turning_the_columns_turns_directed_links(rows):
    ids, table = pa.array(range(12)), as_table(rows, "memory", None)
    links = read_links(table, ids, "a", "b", directed=True)[0]
    turned = read_links(table, ids, "b", "a", directed=True)[0]
    assert sorted(turned.pairs[:, ::-1].tolist()) == links.pairs.tolist()


# Bad weights and relations ------------------------------------------------------------------------

MISSING = st.sampled_from([None, "", "NA", "nan"])
WRONG = st.sampled_from(["0", "-1.5", "inf", "-inf", "many", "1_000", "1e31", "1e-31", "false"])
RIGHT = st.sampled_from(["1", "0.25", "1e3", "$5", " 2 ", "true"])


@in_one_folder
@given(
    st.lists(st.tuples(st.sampled_from(["x", "y", None]), MISSING | WRONG | RIGHT), min_size=1),
    st.sampled_from([".parquet", ".csv"]),
    st.integers(1, 4),
)
def test_all_bad_weights_and_relations_are_named_with_their_rows(tmp_path, rows, form, size):
    kinds, years = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
    table = {"a": [7] * len(rows), "b": [8] * len(rows), "kind": kinds, "years": years}
    path = write(tmp_path / f"links{form}", table)
    lost = [row for row, (kind, _) in enumerate(rows, 1) if kind is None]
    missing = [row for row, (_, text) in enumerate(rows, 1) if text in (None, "", "NA", "nan")]
    wrong = [row for row, (_, text) in enumerate(rows, 1) if text and text in BAD]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LINKS", size)
        try:
            links, _ = read_links(path, IDS, relation="kind", weight="years")
        except TableError as error:
            message = str(error)
        else:
            assert lost + missing + wrong == []
            assert math.isclose(links.weights.sum(), sum(RIGHTS[text] for _, text in rows))
            return
    assert message.startswith(f"{path}: ")
    rules = {
        "column 'kind' must contain a relation in every row; ": lost,
        "column 'years' must contain a weight in every row; ": missing,
        "column 'years' must contain positive numbers from 1e-30 to 1e+30; ": wrong,
    }
    for rule, broken in rules.items():
        assert (rule in message) == bool(broken)
        told = message.partition(rule)[2].partition(". ")[0] if broken else ""
        assert told.count("row ") == len(broken[:5])
        assert all(f"row {row} {shown(rows[row - 1][1], rule)}" in told for row in broken[:5])
        assert (f"{len(broken)} in total" in told) == (len(broken) > 5)


BAD = {"0": "0.0", "-1.5": "-1.5", "inf": "inf", "-inf": "-inf", "many": "'many'", "1e31": "1e+31",
       "1_000": "'1_000'", "1e-31": "1e-31", "false": "0.0"}  # fmt: skip
RIGHTS = {"1": 1.0, "0.25": 0.25, "1e3": 1000.0, "$5": 5.0, " 2 ": 2.0, "true": 1.0}


def shown(text, rule):
    return f"has {BAD[text]}" if "positive" in rule else "is empty"


@pytest.mark.parametrize(
    ("values", "weights"),
    [
        ([1, 2], [1, 2]),
        ([True, True], [1, 1]),
        ([Decimal("0.5"), Decimal("2.25")], [0.5, 2.25]),
        (pa.array([1.5, 2.0], pa.float16()), [1.5, 2.0]),
        (pa.array(["0.5", "2"]).dictionary_encode(), [0.5, 2]),
        (["0,5", "2,25"], [0.5, 2.25]),
        (["2", "1,000.5"], [2, 1000.5]),
        (pd.Categorical(["3", "4"]), [3, 4]),
    ],
)
def test_numbers_of_any_type_are_weights(values, weights):
    table = {"a": [7, 8], "years": values, "b": [8, 9]}
    links, report = read_links(table, IDS, weight="years")
    assert links.weights.tolist() == weights
    assert links.pairs.tolist() == [[0, 1], [1, 2]]
    assert str(report) == f"2 links from 2 rows; weights from {weights[0]:g} to {weights[1]:g}."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([date(2020, 1, 1), None], r"every row; row 2 is empty\. .* row 1 has '2020-01-01'\.$"),
        ([[1.0], [2.0]], "must contain one value per row; it contains list"),
        ([float("nan"), 1.0], r"every row; row 1 is empty\.$"),
        (pa.nulls(2), r"every row; row 1 is empty, row 2 is empty\.$"),
        (["1.5", "2,5"], r"positive numbers from 1e-30 to 1e\+30; row 1 has '1\.5'\.$"),
    ],
)
def test_other_values_are_no_weights(values, message):
    with pytest.raises(TableError, match=message):
        read_links({"a": [7, 8], "b": [8, 9], "years": values}, IDS, weight="years")


def test_weights_of_a_csv_may_change_their_type_after_its_first_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK", 256)
    path = tmp_path / "links.csv"
    path.write_text("\n".join(["a,b,years", *["7,8,2"] * 500, "7,8,0.5"]) + "\n")
    links, _ = read_links(path, IDS, weight="years")
    assert links.weights.tolist() == [1000.5]


def test_columns_have_one_role_each(tmp_path):
    table = {"a": [7], "b": [8], "kind": ["x"]}
    for roles in ({"relation": "kind", "weight": "kind"}, {"source": "kind", "relation": "kind"}):
        with pytest.raises(TableError, match="one role; found several for kind"):
            read_links(table, IDS, **roles)
    with pytest.raises(TableError, match=r"unknown column 'kin' \(near: kind\), 'w'; choose from"):
        read_links(table, IDS, relation="kin", weight="w")
    with pytest.raises(TableError, match="links need two columns of ids; found b"):
        read_links({"a": ["x"], "b": [8]}, IDS, relation="a")


def test_there_are_at_most_20_relations():
    kinds = [f"r{i}" for i in range(MOST_RELATIONS)]
    table = {"a": [7] * 20, "b": [8] * 20, "kind": kinds}
    assert read_links(table, IDS, relation="kind")[0].relations == tuple(sorted(kinds))
    table = {"a": [7] * 23, "b": [8] * 23, "kind": [*kinds, "s", "s", "t"]}
    rule = r"links can have 20 relations; found 22, most often 's' \(2 rows\), 'r0' \(1 row\),"
    with pytest.raises(TableError, match=rule):
        read_links(table, IDS, relation="kind")
    tables = {name: {"a": [7], "b": [8]} for name in [*kinds, "s"]}
    with pytest.raises(TableError, match="there can be 20 relations; found 21 tables"):
        read_links(tables, IDS)


# The report ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "roles", "hint"),
    [
        (
            {"strength": [1, 2]},
            {},
            "--weight strength would use strength as the weights of the links",
        ),
        ({"n Count": [1.5, 2]}, {}, "--weight n Count would"),
        ({"weight": ["1", "x"]}, {}, None),
        ({"weight": [1, 0]}, {}, None),
        ({"year": [2020, 2021]}, {}, None),
        (
            {"edge_type": ["x", "y"]},
            {},
            "--relation edge_type would use edge_type as the relations",
        ),
        ({"Kind": ["x", None]}, {}, "--relation Kind would"),
        ({"kind": [1, 2]}, {}, None),
        ({"kind": ["x", "x"]}, {}, None),
        ({"kind": ["x", "y"]}, {"relations": LINKS}, None),
        ({"years": [1, 2], "weight": [1, 2]}, {"weight": "years"}, None),
    ],
)
def test_the_report_names_the_option_that_would_use_a_column(column, roles, hint):
    _, report = read_links({"a": [7, 8], "b": [8, 9], **column}, IDS, **roles)
    unused = [name for name in column if name != roles.get("weight")]
    text = f"columns that are not used: {', '.join(unused)}"
    assert text in str(report)
    if hint is None:
        assert str(report).endswith(f"{text}.")
    else:
        assert f"{text}; {hint}" in str(report)


def test_too_many_values_are_no_relations():
    kinds = [f"r{i}" for i in range(MOST_RELATIONS + 1)]
    table = {"a": [7] * len(kinds), "b": [8] * len(kinds), "type": kinds}
    assert read_links(table, IDS)[1].hints == ()
    del kinds[0], table["a"][0], table["b"][0]
    assert len(read_links(table, IDS)[1].hints) == 1


def test_the_report_of_all_roles_is_one_sentence():
    table = {"a": [7, 7, 8], "b": [8, 8, 7], "kind": ["x", "x", "y"], "w": [1, 2, 0.5]}
    _, report = read_links(table, IDS, relation="kind", weight="w", directed=True)
    assert str(report) == (
        "2 links from 3 rows; links of each relation: x 1, y 1; directed from column 'a' to 'b'; "
        "weights from 0.5 to 3; duplicates merged, weights added up: 1."
    )
    assert report == LinkReport(
        total=3, kept=2, duplicates=1, relations=(("x", 1), ("y", 1)), weights=(0.5, 3.0),
        directed=True, ends=("a", "b"),
    )  # fmt: skip
