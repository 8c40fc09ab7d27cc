"""Tables as people have them: each case changes one thing about a small clean pair of tables.

`docs/messy-tables.md` shows what happens to each of them; `tests/tables/test_messy.py` runs them.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet

IDS = [f"P{i}" for i in range(24)]
AGES = [str(20 + i * 7 % 40) for i in range(24)]
FIELDS = ["math", "art", "math", "art", "", "math"] * 4
LINKS = "from,to\n" + "".join(f"P{i},P{(i * 5 + 1) % 24}\n" for i in range(24))


def csv(sep=",", header=None, **columns):
    """A node table of ids, ages and fields; a column that is given is added or replaced."""
    table = {"id": IDS, "age": AGES, "field": FIELDS} | columns
    rows = [sep.join(header or table), *map(sep.join, zip(*table.values(), strict=True))]
    return "\n".join(rows) + "\n"


@dataclass
class Case:
    """A pair of tables.

    Attributes
    ----------
    title : str
        What is messy about it.
    nodes : str, bytes or dict
        The content of the node table; a dict is written as Parquet.
    links : str
        The content of the link table.
    name : str
        The name of the node table.
    options : dict
        Further arguments of `linkdist.train`.
    """

    title: str
    nodes: Any
    links: str = LINKS
    name: str = "nodes.csv"
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder):
        """Write both tables; return their paths."""
        nodes, links = folder / self.name, folder / "links.csv"
        if isinstance(self.nodes, dict):
            pyarrow.parquet.write_table(pa.table(self.nodes), nodes)
        else:
            content = self.nodes.encode() if isinstance(self.nodes, str) else self.nodes
            nodes.write_bytes(content)
        links.write_text(self.links)
        return nodes, links


def some(value, rows=(3,), of=AGES):
    """A column with another value in some rows."""
    return [value if i in rows else old for i, old in enumerate(of)]


def parquet(**columns):
    """The clean table as columns of Parquet."""
    fields = [name or None for name in FIELDS]
    return {"id": IDS, "age": list(map(int, AGES)), "field": fields} | columns


TAGS = ["drama|war", "war|love", "love", "drama|love", "war", "drama|war|love"] * 4
RAGGED = [[1.0, 2.0], [1.0, 2.0, 3.0]] * 12
NUMBERS = [f"{i * 0.37:.3f}" for i in range(24)]
SEVERAL = ["math|art", "art|logic", "math", "art"] * 6
GROUPED = "from,to\n" + "".join(f"P{i},P{(i * 5 + 2) % 24}\n" for i in range(0, 24, 2))
CLEAN = csv()

CASES = [
    Case("a clean table", CLEAN),
    Case("a missing id", csv(id=some("", of=IDS))),
    Case("a duplicate id", csv(id=some("P1", of=IDS))),
    Case("ids that are numbers", csv(id=list(map(str, range(24)))), LINKS.replace("P", "")),
    Case("ids with leading zeros, links without", csv(id=[f"{i:03d}" for i in range(24)]),
         LINKS.replace("P", "")),
    Case("ids beyond 64 bits", csv(id=[f"9{i:022d}" for i in range(24)]),
         "a,b\n" + "".join(f"9{i:022d},9{i + 1:022d}\n" for i in range(23))),
    Case("a byte order mark", b"\xef\xbb\xbf" + CLEAN.encode()),
    Case("semicolons", csv(";")),
    Case("tabs in a .tsv file", csv("\t"), name="nodes.tsv"),
    Case("a .csv.gz file", gzip.compress(CLEAN.encode()), name="nodes.csv.gz"),
    Case("a broken .csv.gz file", gzip.compress(CLEAN.encode())[:40], name="nodes.csv.gz"),
    Case("JSON lines", "".join(
        json.dumps({"id": i, "age": int(a), "field": f or None}) + "\n"
        for i, a, f in zip(IDS, AGES, FIELDS, strict=True)), name="nodes.jsonl"),
    Case("latin-1 text", CLEAN.replace("math", "françois").encode("latin-1")),
    Case("UTF-16 text", CLEAN.encode("utf-16")),
    Case("an Excel file", b"PK\x03\x04\0\0\0\0", name="nodes.xlsx"),
    Case("an empty file", ""),
    Case("a header without rows", "id,age,field\n"),
    Case("a row with too few values", CLEAN.replace("P3,", "P3\nP3,", 1)),
    Case("two columns of the same name", csv(header=["id", "age", "age"])),
    Case("quotes that are not closed", CLEAN.replace("P3,", '"P3,', 1)),
    Case("one word among numbers", csv(age=some("old"))),
    Case("many words among numbers", csv(age=some("old", rows=range(0, 24, 3)))),
    Case("NaN and blanks among numbers", csv(age=some("NaN", of=some("  ", rows=(5,))))),
    Case("infinity among numbers", csv(age=some("inf"))),
    Case("money", csv(price=[f'"${1000 + 37 * i:,}.50"' for i in range(24)])),
    Case("a decimal comma", csv(";", price=[f"{i},{i % 10}5" for i in range(24)])),
    Case("percentages", csv(share=[f"{i} %" for i in range(24)])),
    Case("ISO dates", csv(day=[f"2004-05-{1 + i:02d}" for i in range(24)])),
    Case("US dates", csv(day=[f"05/{1 + i:02d}/2004" for i in range(24)])),
    Case("dates that may start with the month or the day",
         csv(day=[f"05/{1 + i % 12:02d}/2004" for i in range(24)])),
    Case("one word among dates",
         csv(day=some("soon", of=[f"2004-05-{1 + i:02d}" for i in range(24)]))),
    Case("timestamps in Parquet", parquet(day=[date(2004, 5, 1 + i) for i in range(24)]),
         name="nodes.parquet"),
    Case("true and false", csv(open=["true", "false"] * 12)),
    Case("yes and no", csv(open=["yes", "no"] * 12)),
    Case("integers beyond 64 bits", csv(big=[str(10**20 + i) for i in range(24)])),
    Case("a constant column", csv(unit=["kg"] * 24)),
    Case("a column without values", csv(note=[""] * 24)),
    Case("a row number", csv(row=list(map(str, range(24))))),
    Case("a second column of ids, as numbers",
         csv(user_id=[str(i * 7919 % 1000) for i in range(24)])),
    Case("a second column of ids", csv(code=[f"x{i * 7919 % 1000:03d}" for i in range(24)])),
    Case("separated tags", csv(genre=TAGS)),
    Case("lists of tags in Parquet", parquet(genre=[t.split("|") for t in TAGS]),
         name="nodes.parquet"),
    Case("lists of different lengths", parquet(place=RAGGED), name="nodes.parquet"),
    Case("a nested column", parquet(place=[{"x": 1}] * 24), name="nodes.parquet"),
    Case("NA as a label", csv(field=[name or "NA" for name in FIELDS])),
    Case("NA as a label, declared", csv(field=[name or "NA" for name in FIELDS]),
         options={"unknown": ["NA"]}),
    Case("blanks as a label", csv(field=[name or "  " for name in FIELDS])),
    Case("-1 as a label among integers",
         csv(field=[{"math": "1", "art": "0"}.get(name, "-1") for name in FIELDS])),
    Case("no labels", csv(field=[""] * 24)),
    Case("one class", csv(field=["math" if name else "" for name in FIELDS])),
    Case("a class with one label", csv(field=some("logic", of=FIELDS))),
    Case("numbers to predict as labels", csv(field=NUMBERS)),
    Case("numbers to predict, declared as classes", csv(field=NUMBERS),
         options={"task": "classification"}),
    Case("words among numbers to predict", csv(field=some("many", of=NUMBERS))),
    Case("an unknown number to predict that is written as -1",
         csv(field=some("-1", rows=(3, 9), of=NUMBERS))),
    Case("an infinite number to predict", csv(field=some("inf", of=NUMBERS))),
    Case("one number to predict", csv(field=["3.5"] * 24), options={"task": "regression"}),
    Case("many whole numbers as labels", csv(field=[str(i * i * 17 + 100) for i in range(24)])),
    Case("several labels in a row", csv(field=SEVERAL)),
    Case("several labels in a row, declared as classes", csv(field=SEVERAL),
         options={"task": "classification"}),
    Case("lists of labels in Parquet",
         parquet(field=[[], ["art"], ["art", "math"], None] * 6), name="nodes.parquet"),
    Case("several label columns", csv(even=["yes", "no"] * 12, loop=["1", "1", "0", "0"] * 6),
         options={"label": ["even", "loop"], "features": ["age"]}),
    Case("several label columns, some values missing",
         csv(even=some("", of=["yes", "no"] * 12), loop=["1", "1", "0", "0"] * 6),
         options={"label": ["even", "loop"], "features": ["age"]}),
    Case("several label columns with another value",
         csv(even=some("maybe", of=["yes", "no"] * 12), loop=["1", "1", "0", "0"] * 6),
         options={"label": ["even", "loop"], "features": ["age"]}),
    Case("a column of graphs", csv(country=["DE", "ES"] * 12), GROUPED,
         options={"graph": "country"}),
    Case("a column of graphs, missing in some rows", csv(country=some("", of=["DE", "ES"] * 12)),
         options={"graph": "country"}),
    Case("links between two graphs", csv(country=["DE", "ES"] * 12), options={"graph": "country"}),
    Case("a label column that is not there", CLEAN, options={"label": "topic"}),
    Case("unused columns in the link table", CLEAN,
         "from,to,year\n" + "".join(f"P{i},P{i + 1},2004\n" for i in range(23))),
    Case("links to unknown nodes", CLEAN, LINKS + "P1,P99\n"),
    Case("duplicate links and self-loops", CLEAN, LINKS + "P1,P0\nP2,P2\n"),
    Case("duplicate links, with strict", CLEAN, LINKS + "P1,P0\n", options={"strict": True}),
    Case("links to no known node", CLEAN, LINKS.replace("P", "Q")),
    Case("a link table with one column", CLEAN, "from\nP1\n"),
]  # fmt: skip
