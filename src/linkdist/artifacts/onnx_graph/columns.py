r"""The encoders of columns as ONNX operations, in `linkdist.tables` written in NumPy.

===============  ================================================================================
column           input
===============  ================================================================================
numeric          (n,) double; NaN where missing
date             (n,) double, seconds since 1970 (UTC); NaN where missing
vector           (n, width) float; NaN where missing
categorical      (n,) string; empty where missing
text             (n,) string; empty where missing
tags             (n,) string, tags with a separator between them; empty where missing
===============  ================================================================================

Strings become features with `StringNormalizer`, `TfIdfVectorizer` and `com.microsoft.Tokenizer`,
which ONNX Runtime has on every platform. Its regular expressions know letters as \p{L}.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.artifacts.manifest import OUTPUTS
from linkdist.artifacts.onnx_graph.graph import INNER, GraphBuilder, Untyped
from linkdist.data.graph import IntArray
from linkdist.tables.bag_encoders import BinaryTags, Categorical, Tags
from linkdist.tables.embedding import Embedding
from linkdist.tables.encoders import DIGITS, FAR, PERIODS, Date, Encoder, Numeric, Vector
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.parsing import EDGES, SEPARATORS
from linkdist.tables.standardise import LIMIT
from linkdist.tables.text_encoders import HashedText, Text

WORD = r"[\p{L}\p{N}_]+"
"""The words of `linkdist.tables.text_encoders`, in the syntax of ONNX Runtime."""

BLANKS = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What separates tags if nothing else does, as a class of characters: blanks of all kinds."""

DECISIONS = ("label", "labels", "classes", "low", "high")
"""Outputs of a file with columns, besides those in `OUTPUTS`."""

RESERVED = {"", *DECISIONS, *(name for names in OUTPUTS.values() for name in names)}

Dense: TypeAlias = Numeric | Date | Vector
"""Encoders that standardise numbers."""


def obstacles(encoders: FeatureEncoder | None) -> list[str]:
    """Reasons why the columns of a table cannot be the inputs of an ONNX file.

    Examples
    --------
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> obstacles(make_feature_encoder({"age": "numeric", "label": "categorical"}))
    ["column 'label' has the name of an output"]
    """
    if encoders is None:
        return ["the model knows no columns, only features"]
    reasons = [
        f"column {name!r} has the name of an output"
        for name in encoders.names
        if name in RESERVED or name.startswith(INNER)
    ]
    for column in encoders.columns:
        if reason := _obstacle(column):
            reasons.append(f"column {column.name!r} {reason}")
    return reasons


def _obstacle(column: Encoder) -> str | None:
    if isinstance(column, Embedding):
        return "is encoded by a text encoder, which is not part of the model"
    if isinstance(column, HashedText):
        return "has hashed words, as in older models; train again for a vocabulary"
    if isinstance(column, Tags):
        if separator_of(column) is None:
            return "has tags with blanks and all of " + " ".join(SEPARATORS)
        wrong = [tag for tag in column.frequencies if not tag or tag != tag.strip(EDGES)]
        return f"has tags that are empty or quoted, such as {wrong[0]!r}" if wrong else None
    return None


def separator_of(column: Tags) -> str | None:
    """What separates tags in an input: a blank, or else one of `SEPARATORS` that no tag contains.

    A model that was trained on lists of tags may have tags with blanks.

    Examples
    --------
    >>> separator_of(Tags("genre", 2, {"war": 1})), separator_of(Tags("town", 1, {"New York": 1}))
    (' ', '|')
    """
    if column.separator is not None:
        return column.separator
    if not any(tag.split() != [tag] for tag in column.frequencies):
        return " "
    free = (mark for mark in SEPARATORS if not any(mark in tag for tag in column.frequencies))
    return next(free, None)


def add_columns(graph: GraphBuilder, encoders: FeatureEncoder) -> tuple[str, IntArray]:
    """Append inputs for all columns and the operations that encode them.

    Returns
    -------
    features : str
        Name of the features, (n, d): those of numbers first.
    order : (d,) array
        The place of each of them among the features of the encoders.
    """
    starts = np.cumsum([0, *(column.width for column in encoders.columns)])
    places = [np.arange(*ends) for ends in pairwise(starts)]
    dense: list[Dense] = []
    order: list[IntArray] = []
    numbers, blocks = [], []
    for column, place in zip(encoders.columns, places, strict=True):
        # All columns have an input; those without features do not use it.
        if isinstance(column, Numeric | Date | Vector):
            values = _numbers(graph, column)
            if column.width:
                dense.append(column)
                numbers.append(values)
                order.insert(len(dense) - 1, place)
        else:
            text = graph.input(column.name, "STRING")
            if column.width:
                blocks.append(_bag(graph, column, text))
                order.append(place)
    if dense:
        blocks.insert(0, _standardised(graph, dense, numbers))
    features = graph.add("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
    return features, np.concatenate(order)


def _numbers(graph: GraphBuilder, column: Dense) -> str:
    """The features of a column before they are standardised, (n, width) double."""
    if isinstance(column, Vector):
        return graph.cast(graph.input(column.name, "FLOAT", column.width), "DOUBLE")
    x = graph.add("Unsqueeze", graph.input(column.name, "DOUBLE"), np.array([1]))
    return x if isinstance(column, Numeric) else _circles(graph, x)


def _circles(graph: GraphBuilder, seconds: str) -> str:
    """The age, and points on the circles of the year, the week and the day."""
    periods = np.array(PERIODS)
    whole = graph.add("Floor", graph.add("Div", seconds, periods))
    rest = graph.add("Sub", seconds, graph.add("Mul", whole, periods))  # (n, 3)
    angles = graph.add("Div", graph.add("Mul", rest, np.float64(2 * np.pi)), periods)
    # ONNX Runtime has no cosine of double precision.
    both = graph.add("Unsqueeze", angles, np.array([2]))
    waves = graph.add("Sin", graph.add("Add", both, np.array([0, np.pi / 2])))  # (n, 3, 2)
    digits = np.float64(10.0**DIGITS)
    waves = graph.add("Div", graph.add("Round", graph.add("Mul", waves, digits)), digits)
    flat = graph.add("Reshape", waves, np.array([-1, 2 * len(PERIODS)]))
    return graph.add("Concat", seconds, flat, axis=1)


def _standardised(graph: GraphBuilder, columns: Sequence[Dense], numbers: Sequence[str]) -> str:
    """Standardise all numbers at once; see `linkdist.tables.standardise`."""
    x = graph.add("Concat", *numbers, axis=1)
    mean = np.hstack([column.mean for column in columns]).astype(np.float64)
    deviation = np.hstack([column.deviation for column in columns]).astype(np.float64)
    far = graph.add("Greater", graph.add("Abs", x), np.float64(FAR))
    x = graph.add("Where", far, np.float64(np.nan), x)
    # A constant column is 0, and so is a number over infinity.
    scale = np.where(deviation > 0, deviation, np.inf)
    y = graph.cast(graph.add("Div", graph.add("Sub", x, mean), scale), "FLOAT")
    y = graph.add("Where", graph.add("IsNaN", y), np.float32(0), y)
    return graph.add("Clip", y, np.float32(-LIMIT), np.float32(LIMIT))


def _bag(graph: GraphBuilder, column: Encoder, text: str) -> str:
    """Features (n, width) of categories, tags or words."""
    if isinstance(column, Categorical):
        one = graph.add("Unsqueeze", text, np.array([1]))
        return _weighted(graph, one, column.categories, mode="TF")
    if isinstance(column, Tags):
        tags = _tokens(graph, text, _tag(column.separator, separator_of(column)))
        if isinstance(column, BinaryTags):
            ones = np.ones(column.width)
            return _weighted(graph, tags, column.frequencies, mode="IDF", weights=ones)
        return _unit(graph, _weighted(graph, tags, column.frequencies, "IDF", column.features[1]))
    assert isinstance(column, Text)
    words = add_words(graph, text)
    return _unit(graph, _weighted(graph, words, column.frequencies, "TFIDF", column.features[1]))


def add_words(graph: GraphBuilder, text: str) -> str:
    """Append the operations of `linkdist.tables.text_encoders.words_of`, (n, most) strings."""
    # The locale of a machine may be missing, or know no letters beyond ASCII.
    lower: Untyped = {"case_change_action": "LOWER", "locale": "C.UTF-8"}
    return _tokens(graph, graph.add("StringNormalizer", text, **lower), WORD)


def _tag(trained: str | None, separator: str | None) -> str:
    """A regular expression of tags, without blanks and quotes around them."""
    between = BLANKS if trained is None and separator == " " else re.escape(separator or "")
    edges = "".join(map(re.escape, EDGES))
    return f"[^{between}{edges}](?:[^{between}]*[^{between}{edges}])?"


def _tokens(graph: GraphBuilder, text: str, pattern: str) -> str:
    """The parts of each text that match a pattern, (n, most), empty at the end."""
    options: Untyped = {"mark": 0, "mincharnum": 1, "pad_value": "", "tokenexp": pattern}
    return graph.add("Tokenizer", text, domain="com.microsoft", **options)


def _weighted(
    graph: GraphBuilder,
    tokens: str,
    known: Sequence[str] | dict[str, int],
    mode: str,
    weights: npt.NDArray[np.float64] | None = None,
) -> str:
    """Counts (`TF`), presence (`IDF`) or both (`TFIDF`) of known texts, times weights."""
    options: Untyped = {
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "mode": mode,
    }
    options |= {"ngram_counts": [0], "ngram_indexes": list(range(len(known)))}
    if weights is not None:
        options["weights"] = weights.tolist()
    return graph.add("TfIdfVectorizer", tokens, pool_strings=list(known), **options)


def _unit(graph: GraphBuilder, x: str) -> str:
    """Scale rows to length 1."""
    length = graph.add("ReduceL2", x, axes=[1], keepdims=1)
    # The weight of a word is at least 1, so only a row without words is shorter.
    return graph.add("Div", x, graph.add("Max", length, np.float32(1)))
