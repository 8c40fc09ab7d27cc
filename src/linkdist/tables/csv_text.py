"""Keep spreadsheets from running text of a CSV file.

A spreadsheet takes a cell that starts with =, +, - or @ for a formula, and a formula can send
other cells elsewhere. Ids and class names come from tables of other people, so such text gets a
leading apostrophe in CSV files; a spreadsheet then shows it as text. Numbers stay as they are, and
so do Parquet files, which contain no formulas.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

KEEP_TEXT = "Use --raw-text (in Python, raw_text=True) to keep them as they are."

FORMULA = r"^[=+\-@\t\r\n]"
NUMBER = r"^[+-]?([0-9][0-9.,]*|[.,][0-9]+)([eE][+-]?[0-9]+)?$"


def escape_formulas(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Put an apostrophe before text that a spreadsheet would take for a formula.

    Returns
    -------
    batch : RecordBatch
        The rows with escaped text.
    counts : dict of str to int
        The number of escaped values of each column that has any.

    Examples
    --------
    >>> batch = pa.record_batch({"id": ["P1", "-5", "=1+2"], "year": [1, -2, 3]})
    >>> escaped, counts = escape_formulas(batch)
    >>> escaped["id"].to_pylist(), counts
    (['P1', '-5', "'=1+2"], {'id': 1})
    """
    columns, counts = [], {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column, count = _escaped(column)
            if count:
                counts[field.name] = count
        columns.append(column)
    return pa.record_batch(columns, schema=batch.schema), counts


def escape_names(schema: pa.Schema) -> pa.Schema:
    """Escape the names of columns likewise.

    Examples
    --------
    >>> escape_names(pa.schema({"=1+2": pa.int64(), "p_=1": pa.int64()})).names
    ["'=1+2", 'p_=1']
    """
    names, _ = _escaped(pa.array(schema.names, pa.string()))
    return pa.schema(
        [field.with_name(name) for field, name in zip(schema, names.to_pylist(), strict=True)]
    )


def _escaped(text: pa.Array) -> tuple[pa.Array, int]:
    starts = pc.match_substring_regex(text, FORMULA)
    unsafe = pc.and_not(starts, pc.match_substring_regex(text, NUMBER))
    count = pc.sum(unsafe).as_py() or 0
    if not count:
        return text, 0
    apostrophe, nothing = (pa.scalar(part, text.type) for part in ("'", ""))
    marked = pc.binary_join_element_wise(apostrophe, text, nothing)
    return pc.if_else(unsafe, marked, text), count


def escape_notice(counts: dict[str, int], advice: str = "") -> str:
    """What a user should know about escaped values; empty if there are none.

    Examples
    --------
    >>> print(escape_notice({"id": 2}))
    Warning: 2 values of column 'id' look like formulas of a spreadsheet and have a leading \
apostrophe in the CSV file.
    """
    if not counts:
        return ""
    found = ", ".join(f"{count} values of column {name!r}" for name, count in counts.items())
    text = f"Warning: {found} look like formulas of a spreadsheet and have a leading apostrophe"
    return f"{text} in the CSV file. {advice}".rstrip()
