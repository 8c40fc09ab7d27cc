"""The guess of the task, from labels whose task people would agree on."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.tables.task import guess_task


def guessed(labels, column="y"):
    return guess_task([column], pa.array(labels, pa.large_string())).task


def numbers(count, seed=0, low=0, high=10**6):
    draw = random.Random(seed)
    return [str(draw.randint(low, high)) for _ in range(count)]


MARGINS = [f"{i * 0.37 - 3:.3f}" for i in range(60)]


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["math", "art", None], "classification"),
        (["0", "1"] * 20, "classification"),
        (["true", "false"] * 20, "classification"),
        (["0.5", "1.5", "2.5"] * 20, "classification"),  # a few grades
        (MARGINS, "regression"),
        ([*MARGINS, None, "NA", "?"], "regression"),
        ([*MARGINS, "1", "2", "old"], "regression"),  # then 'old' is an error, with its row
        ([f"{i}.{i % 10}5".replace(".", ",") for i in range(60)], "regression"),
        ([f"${1000 + 37 * i:,}.50" for i in range(60)], "regression"),
        ([f"{i / 4} %" for i in range(60)], "regression"),
        (numbers(500), "regression"),
        (numbers(30), "regression"),  # classes would have one label each
        (numbers(500, high=40), "classification"),
        (numbers(500, low=18, high=90), "regression"),  # ages
        (numbers(5000, low=18, high=90), "classification"),  # many labels of each
        (numbers(300, high=99), "classification"),  # class numbers from 0 on, almost all present
        ([*numbers(300, high=99), *["-1"] * 50], "classification"),
        ([f"{i:05d}" for i in range(0, 9000, 90)], "classification"),  # codes
        ([*numbers(200), "12b"], "classification"),  # names, some of which are numbers
        (["drama|war", "war|love", "love"] * 9, "multilabel"),
        (["drama;war", "war", "love"] * 9, "multilabel"),
        (["drama;war", "war", "love", "war", "drama"] * 9, "classification"),  # with a warning
        (["math"] * 100 + ["art"] * 100 + ["math|art"], "multilabel"),  # a third of the texts
        (["Law; Economics", "Physics"] * 9, "classification"),  # no part occurs twice
        (["a, b", "a"] * 9, "classification"),  # a comma may belong to a name
        (["['a', 'b']", "['b']", "[]"] * 9, "multilabel"),  # as pandas writes lists
        ([], "classification"),
        ([None, "NA"], "classification"),
    ],
)  # fmt: skip
def test_the_task_is_guessed_from_the_labels(labels, task):
    assert guessed(labels) == task
    assert guessed(labels[::-1]) == task


def test_numbers_in_a_column_of_ids_are_classes():
    assert guessed(numbers(500), "shop_id") == "classification"


def test_several_columns_and_lists_are_several_labels():
    text = pa.StructArray.from_arrays([pa.array(["1"]), pa.array(["0"])], ["a", "b"])
    assert guess_task(["a", "b"], text) == ("multilabel", "2 label columns")
    found = guess_task(["tags"], pa.array([["a"], []]))
    assert found == ("multilabel", "column 'tags', which contains lists")


def test_the_reason_names_the_option_that_changes_the_guess():
    assert guess_task(["y"], pa.array(["math", "art"])).why == "column 'y'"
    ages = guess_task(["y"], pa.array(numbers(5000, low=18, high=90)))
    assert ages.why == "column 'y'; --task regression predicts the number"
    views = guess_task(["y"], pa.array(list(map(str, range(100, 10000, 99)))))
    expected = "column 'y', which contains 100 different whole numbers; --task classification "
    assert views.why == expected + "makes each number a class"
    tags = guess_task(["y"], pa.array(["a|b", "a|c", "a|c"]))
    expected = "column 'y', in which '|' separates labels, such as 'a|c'; --task classification "
    assert tags.why == expected + "makes each text a class"


@given(st.lists(st.sampled_from(["art", "math", "logic", "1", "2", "NA"]), max_size=40))
def test_a_few_names_are_always_classes(labels):
    assert guessed(labels) == "classification"


@given(st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=30), st.text(max_size=5))
def test_any_text_has_a_task(labels, column):
    assert guessed(labels, column) in ("classification", "regression", "multilabel")
