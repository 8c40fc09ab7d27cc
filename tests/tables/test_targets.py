"""Labels of three tasks, against plain Python: numbers are formatted, sets are joined."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.data.graph import Graph
from linkdist.errors import OptionError, TableError
from linkdist.tables.label_survey import find_format
from linkdist.tables.labels import check_known_classes
from linkdist.tables.nodes import read_nodes
from linkdist.tables.targets import LabelFormat, count_labels
from linkdist.tables.validation import Problems

ROWS = 6


def read(label="y", **options):
    """Read a table in memory whose columns are given; other options are those of `read_nodes`."""
    names = ("task", "unknown", "more_labels", "label_format", "features", "kinds", "classes")
    rest = {name: options.pop(name) for name in names if name in options}
    rows = len(next(iter(options.values())))
    table = {"id": range(rows), "x": [i * i for i in range(rows)], **options}
    return read_nodes(table, "id", label, **rest)


def refused(message=None, **options):
    with pytest.raises(TableError, match=message) as caught:
        read(**options)
    return str(caught.value)


def check_graph(nodes):
    """`Graph.build` takes the labels as they are."""
    links = [(0, 1)]
    graph = Graph.build(nodes.features, links, nodes.labels, nodes.classes, task=nodes.task)
    assert np.array_equal(graph.labels, nodes.labels, equal_nan=nodes.task == "regression")


# Regression ---------------------------------------------------------------------------------------


@st.composite
def written_numbers(draw):
    """Numbers, None where unknown, and texts that mean them in one column."""
    cents = draw(st.lists(st.one_of(st.none(), st.integers(-(10**9), 10**9)), min_size=1))
    comma, groups, unit = draw(st.tuples(st.booleans(), st.booleans(), st.sampled_from("€%-")))
    texts = []
    for value in cents:
        if value is None:
            texts.append(draw(st.sampled_from([None, "", "  ", "NA", "nan"])))
            continue
        text = f"{abs(value) / 100:,.2f}" if groups else f"{abs(value) / 100:.2f}"
        if comma:
            text = text.translate(str.maketrans(",.", ".,"))
        texts.append("-" * (value < 0) + text + {"€": " €", "%": "%"}.get(unit, ""))
    return texts, [math.nan if value is None else value / 100 for value in cents]


@given(written_numbers())
def test_numbers_are_read_however_they_are_written(case):
    texts, expected = case
    labels = pa.array(texts, pa.large_string())
    form, guess = find_format(("y",), [labels], "regression", [], Problems())
    found, unknown = form.encode(labels)
    assert guess is None
    assert unknown == {}
    assert np.allclose(found, expected, rtol=1e-12, atol=0, equal_nan=True)
    again = LabelFormat.of(json.loads(json.dumps(about(form))), form.classes)
    assert again == form
    for text, number in zip(labels, expected, strict=True):  # one row alone is read in the same way
        one, _ = again.encode(pa.array([text.as_py()], pa.large_string()))
        assert np.allclose(one, number, rtol=1e-12, atol=0, equal_nan=True)


def about(form):
    """What a model directory records."""
    label = form.columns[0] if len(form.columns) == 1 else form.columns
    state = {"label_format": form.state(), "unknown": form.unknown}
    return {"task": form.task, "label": label, **state}


@given(st.lists(st.floats(-1e30, 1e30) | st.none(), min_size=2).filter(lambda y: len({*y}) > 2))
def test_numbers_of_parquet_are_exact(numbers):
    nodes = read(y=pa.array(numbers, pa.float64()), task="regression")
    expected = [math.nan if number is None else number for number in numbers]
    assert np.array_equal(nodes.labels, expected, equal_nan=True)
    assert (nodes.task, nodes.classes, nodes.labels.dtype) == ("regression", ("y",), np.float64)


def test_a_decimal_comma_of_training_is_kept():
    nodes = read(y=["3,5", "1.200,50", None, "7"], task="regression")
    assert nodes.labels.tolist()[:2] == [3.5, 1200.5]
    form = LabelFormat.of(json.loads(json.dumps(about(nodes.label_format))), nodes.classes)
    assert read(y=["1.200", "2"], label_format=form).labels.tolist() == [1200.0, 2.0]
    assert read(y=["1.200", "2"], task="regression").labels.tolist() == [1.2, 2.0]


@pytest.mark.parametrize("kind", [pa.float32(), pa.int16(), pa.bool_(), pa.decimal128(9, 2)])
def test_numbers_of_other_types_are_numbers(kind):
    found = read(
        y=pa.array([0, 1, 1, None], pa.int64()).cast(pa.float64()).cast(kind), task="regression"
    )
    assert found.labels.tolist()[:3] == [0.0, 1.0, 1.0]
    assert math.isnan(found.labels[3])


@pytest.mark.parametrize(
    "column", [["4.5", "-1", "NA?", "7", "9"], ["4.5", "-1.0", "NA?", "7", "9"]]
)
def test_unknown_values_are_unknown_numbers(column):
    found = read(y=column, task="regression", unknown=["NA?", "-1"])
    assert np.array_equal(found.labels, [4.5, np.nan, np.nan, 7, 9], equal_nan=True)
    assert count_labels(found.labels, found.classes) == {"y": 3}
    check_graph(found)


def test_text_and_infinite_numbers_are_errors_with_their_rows():
    y = ["1.5", "old", "2.5", "inf", "young", "-1e39"]
    found = refused(y=y, task="regression")
    assert found == (
        "the node table: column 'y' must contain numbers, or nothing where the number is unknown "
        "(--unknown declares other values); row 2 has 'old', row 5 has 'young'. "
        "column 'y' must contain finite numbers; row 4 has 'inf', row 6 has '-1e39'."
    )


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([2.5] * ROWS, "'y' must contain different numbers; all are 2.5"),
        ([2.5, None], "'y' must contain different numbers; all are 2.5"),
        ([None, None], "'y' contains no labels; training needs some"),
        ([["a"], ["b"]], "'y' must contain one value per row; it contains lists"),
        ([pd.Timestamp("2004-05-31"), pd.Timestamp("2004-06-01")], "'y' must contain numbers"),
    ],
)
def test_numbers_that_cannot_be_learned_are_errors(y, message):
    refused(message, y=y, task="regression")


def test_a_model_reads_tables_without_numbers_or_with_equal_ones():
    form = LabelFormat("regression", ("y",), ("y",))
    assert np.isnan(read(y=[None, None], label_format=form).labels).all()
    assert read(y=[3, 3], label_format=form).labels.tolist() == [3.0, 3.0]
    assert np.isnan(
        read_nodes({"id": [1, 2], "x": [1, 2]}, "id", None, label_format=form).labels
    ).all()


def test_all_problems_of_a_table_are_in_one_message():
    found = refused(y=["1.5", "old"], x=["a", "b"], id=[1, 1], task="regression", features=["z"])
    for part in ("unknown column 'z'", "duplicate ids", "row 2 has 'old'"):
        assert part in found


# Several labels -----------------------------------------------------------------------------------

WORDS = {0: ("0", "false", "No", "0.0", " no "), 1: ("1", "TRUE", "yes", "1.0")}
cells = st.sampled_from([0, 1])


@given(st.data())
def test_columns_of_zeros_and_ones_are_labels(data):
    known = data.draw(st.lists(st.booleans(), min_size=2, max_size=8).filter(any))
    columns = [data.draw(st.lists(cells, min_size=len(known), max_size=len(known))) for _ in "abc"]
    written = {
        name: [
            data.draw(st.sampled_from(WORDS[one]))
            if is_known
            else data.draw(st.sampled_from([None, "", "?"]))
            for one, is_known in zip(column, known, strict=True)
        ]
        for name, column in zip("abc", columns, strict=True)
    }
    expected = np.where(np.array(known)[:, None], np.array(columns).T, -1)
    form = LabelFormat("multilabel", ("a", "b", "c"), ("a", "b", "c"), ("?",), binary=True)
    nodes = read(label=["a", "b", "c"], label_format=form, **written)
    assert nodes.labels.tolist() == expected.tolist()
    assert nodes.labels.dtype == np.int64
    check_graph(nodes)


def test_label_columns_are_classes_in_their_order_and_never_features():
    nodes = read(label=["loop", "even"], even=[1, 0, None], loop=[True, True, None])
    assert (nodes.task, nodes.classes) == ("multilabel", ("loop", "even"))
    assert nodes.labels.tolist() == [[1, 1], [1, 0], [-1, -1]]
    assert nodes.encoders.names == ("x",)
    assert nodes.guess.why == "2 label columns"
    for name in ("even", "loop"):
        message = f"column '{name}' contains ids or labels and cannot be a feature"
        refused(message, label=["loop", "even"], even=[1, 0], loop=[0, 1], features=[name])


def test_one_column_of_zeros_and_ones_is_a_label_if_the_task_says_so():
    nodes = read(y=["yes", "no", None], task="multilabel")
    assert (nodes.classes, nodes.labels.tolist()) == (("y",), [[1], [0], [-1]])
    assert read(y=["yes", "no", None]).task == "classification"


def test_rows_with_some_labels_and_other_values_are_errors():
    columns = {"a": [1, None, 0, None], "b": ["1", "0", "2", None], "c": [None, None, 1, None]}
    found = refused(label=["a", "b", "c"], **columns)
    assert found == (
        "the node table: column 'b' must contain 0 or 1, true or false, or yes or no; "
        "row 3 has '2'. columns 'a', 'b', 'c' must all have a value in a row, or none of them; "
        "row 1 lacks 'c', row 2 lacks 'a', 'c'."
    )


tags = st.sampled_from(["art", "math", "logic", "sci fi", "10", "9"])
sets = st.lists(st.none() | st.lists(tags, max_size=4), min_size=1, max_size=12)


def as_rows(lists, classes):
    """The expected array, by membership."""
    return [[-1] * len(classes) if row is None else [int(name in row) for name in classes]
            for row in lists]  # fmt: skip


@given(
    sets.filter(
        lambda rows: any(rows) and len({repr(sorted({*r})) for r in rows if r is not None}) > 1
    )
)
def test_lists_are_labels(lists):
    nodes = read(y=pa.array(lists, pa.list_(pa.string())))
    found = {name for row in lists for name in row or ()}
    integers = found <= {"10", "9"}
    assert nodes.classes == tuple(sorted(found, key=int if integers else str))
    assert nodes.labels.tolist() == as_rows(lists, nodes.classes)
    assert nodes.task == "multilabel"
    check_graph(nodes)


@pytest.mark.parametrize("mark", ["|", ";", ",", " | "])
@given(lists=sets)
def test_separated_text_is_read_like_lists(mark, lists):
    lists = [row or None for row in lists]  # text has no empty list
    lists += [["art", "math"], ["math", "logic"]]
    text = [None if row is None else mark.join(row) for row in lists]
    nodes = read(y=text, task="multilabel")
    assert nodes.label_format.separator == mark.strip()
    assert nodes.labels.tolist() == as_rows(lists, nodes.classes)
    assert set(nodes.classes) == {name for row in lists for name in row or ()}


def test_an_empty_list_means_none_of_the_classes(tmp_path):
    lists = [["a"], [], None, ["a", "b"]]
    expected = [[1, 0], [0, 0], [-1, -1], [1, 1]]
    assert read(y=lists).labels.tolist() == expected
    frame = pd.DataFrame({"id": range(4), "x": [1, 4, 9, 16], "y": lists})
    frame.to_csv(tmp_path / "nodes.csv", index=False)  # writes "['a', 'b']"
    frame.to_json(tmp_path / "nodes.jsonl", orient="records", lines=True)
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "nodes.parquet")
    for name in ("nodes.csv", "nodes.jsonl", "nodes.parquet"):
        nodes = read_nodes(tmp_path / name, "id", "y")
        assert (nodes.task, nodes.classes) == ("multilabel", ("a", "b")), name
        assert nodes.labels.tolist() == expected, name


def test_blanks_separate_labels_if_nothing_else_does():
    nodes = read(y=["art math", "math", None], task="multilabel")
    assert (nodes.label_format.separator, nodes.classes) == (" ", ("art", "math"))


def test_a_list_with_an_unknown_value_is_unknown():
    nodes = read(y=[["a"], ["NA"], ["a", "NA"], ["b"]], unknown=["NA"])
    assert nodes.labels.tolist() == [[1, 0], [-1, -1], [-1, -1], [0, 1]]


def test_lists_of_numbers_are_labels_by_their_text():
    assert read(y=[[3, 5], [10], []]).classes == ("3", "5", "10")


@pytest.mark.parametrize("y", [[["a"], ["law", "a"], ["law", "b"]], ["a", "law|a", "law|b"]])
def test_classes_that_a_model_does_not_know_are_named(y):
    form = LabelFormat("multilabel", ("y",), ("a", "b"), separator="|")
    nodes = read(y=y, label_format=form)
    assert nodes.unknown_labels == {"law": 2}
    assert nodes.labels.tolist() == [[1, 0], [-1, -1], [-1, -1]]
    with pytest.raises(TableError, match=r"classes that the model does not know: 'law' \(2 rows\)"):
        check_known_classes("y", nodes.unknown_labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [["a"], ["a"], None]},
         "'y' must contain different labels in different rows; all have 'a'"),
        ({"y": pa.array([[], None], pa.list_(pa.string()))}, "'y' contains no labels"),
        ({"y": pa.array([None, None], pa.list_(pa.string()))}, "'y' contains no labels"),
        ({"y": [None, None], "task": "multilabel"}, "'y' contains no labels"),
        ({"y": [[{"a": 1}], []]}, "'y' must contain lists of names; it contains struct"),
        ({"y": [["a"], ["b"]], "task": "classification"}, "'y' must contain one value per row"),
        ({"y": [" ".join(f"w{i}_{j}" for j in range(60)) for i in range(20)], "task": "multilabel"},
         "'y' must contain at most 1000 different labels; found 1200, such as 'w0_0'"),
        ({"label": ["a", "b"], "a": [1, 1], "b": [0, 0]}, "columns 'a', 'b' must .*; all have 'a'"),
        ({"label": ["a", "b"], "a": [0, 0], "b": [0, 0]}, "columns 'a', 'b' must .*; none has any"),
        ({"label": ["a", "b"], "a": [None, None], "b": [None, None]}, "'b' contain no labels"),
        ({"label": ["a", "b"], "a": [1, 0], "b": [[1], [0]]}, "'b' must contain one value per row"),
        ({"label": ["a", "b"], "a": [1, 0]}, "unknown column 'b'"),
        ({"label": ["a", "a"], "a": [1, 0]}, "a label column must be named once; found 'a' twice"),
        ({"label": ["a", "id"], "a": [1, 0]}, "ids and labels must be two columns; both are 'id'"),
        ({"label": ["a", "b"], "a": [1, 0], "b": [1, 1], "task": "regression"},
         "regression has one label column; found 'a', 'b'"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_learned_are_errors(options, message):
    refused(message, **options)


def test_an_unknown_task_is_an_error():
    with pytest.raises(
        OptionError, match="unknown task 'ranking'; choose from classification, reg"
    ):
        read(y=["a", "b"], task="ranking")


# Classification -----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", None])
def test_classes_are_read_as_before(task):
    nodes = read(y=["10", "9", "-1", None, "9"], task=task)
    assert (nodes.labels.tolist(), nodes.classes) == ([1, 0, -1, -1, 0], ("9", "10"))
    assert (nodes.task, nodes.guess is None) == ("classification", task is not None)


def test_numbers_are_classes_if_the_task_says_so():
    y = [f"{i}.5" for i in range(30)]
    assert read(y=y).task == "regression"
    assert read(y=y, task="classification").classes == tuple(sorted(y))


@given(st.sampled_from(["classification", "regression", "multilabel"]), st.booleans())
def test_formats_survive_a_model_directory(task, several):
    columns = ("a", "b") if several and task == "multilabel" else ("a",)
    form = LabelFormat(task, columns, ("u", "v"), ("NA",))
    if task == "multilabel":
        form = LabelFormat(task, columns, ("u", "v"), ("NA",), binary=several, separator=";")
    assert LabelFormat.of(json.loads(json.dumps(about(form))), ("u", "v")) == form


def test_a_model_of_an_earlier_version_has_classes():
    form = LabelFormat.of({"id": "id", "label": "y"}, ("a", "b"))
    assert form.encode(pa.array(["b", None, "c"]))[0].tolist() == [1, -1, -1]
