"""Alarms of `linkdist drift`: how often by chance, and for each disturbance.

A model is trained on a random half of the streamers of DE (twitch). Twenty draws of several sizes,
from the training table and from the other half, should raise no alarm. Then each column of twenty
draws of the other half is scaled, shuffled or half removed: an alarm should name this column, and
no other column. Last, the streamers of other countries.
Usage: LINKDIST_DATA=FOLDER python benchmarks/drift.py [--draws 20] [--epochs 20]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from measure import write

import linkdist

COLUMNS = ("days", "views", "partner", "games")
SIZES = (100, 200, 500, 1000)
WORDS = {"scaled": "times 10", "shuffled": "shuffled", "half_missing": "half missing"}
COUNTRIES = ("ENGB", "ES", "PTBR")


def streamers(country):
    """The table of a country, with the games as tags."""
    folder = Path(os.environ["LINKDIST_DATA"], "twitch", country)
    table = pyarrow.csv.read_csv(folder / "target.csv")
    games = json.loads((folder / "features.json").read_text())
    nodes = table["new_id"].to_pylist()
    return pa.table(
        {
            "node": nodes,
            "days": table["days"],
            "views": table["views"],
            "partner": table["partner"].cast(pa.string()),
            "games": [[f"g{game}" for game in games[str(node)]] for node in nodes],
            "mature": table["mature"].cast(pa.string()),
        }
    )


def links_among(nodes):
    """The links of DE between some nodes."""
    path = Path(os.environ["LINKDIST_DATA"], "twitch", "DE", "edges.csv")
    links = pyarrow.csv.read_csv(path)
    first, second = (np.isin(links[name], nodes) for name in ("from", "to"))
    return links.filter(pa.array(first & second))


def draw(table, size, seed):
    rows = np.random.default_rng(seed).choice(table.num_rows, size, replace=False)
    return table.take(pa.array(rows))


def scaled(column, seed):
    return pa.array(10 * column.to_numpy()) if pa.types.is_integer(column.type) else None


def shuffled(column, seed):
    return column.take(pa.array(np.random.default_rng(seed).permutation(len(column))))


def half_missing(column, seed):
    values = column.combine_chunks()
    kept = np.random.default_rng(seed).permutation(len(values)) % 2 == 0
    pairs = zip(values.to_pylist(), kept.tolist(), strict=True)
    return pa.array([value if keep else None for value, keep in pairs])


def disturbances(model, table, draws):
    """How often the disturbed column is named, and how often another one is."""
    rows = []
    for change in (scaled, shuffled, half_missing):
        for name in COLUMNS:
            row = {"measured": f"{name} {WORDS[change.__name__]}"}
            for size in SIZES:
                named = others = 0
                for seed in range(draws):
                    some = draw(table, size, 100 + seed)
                    column = change(some[name], seed)
                    if column is None:
                        break
                    place = some.schema.names.index(name)
                    report = model.drift(some.set_column(place, name, column))
                    alarms = [one for one in report.alarms if one in COLUMNS]
                    named += name in alarms
                    others += any(one != name for one in alarms)
                else:
                    row[f"{size} rows"] = f"{named}/{draws} named, {others} others"
            if len(row) > 1:
                rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    german = streamers("DE")
    order = np.random.default_rng(0).permutation(german.num_rows)
    half = german.num_rows // 2
    training, rest = german.take(pa.array(order[:half])), german.take(pa.array(order[half:]))
    model = linkdist.train(
        training,
        links_among(training["node"]),
        id="node",
        label="mature",
        epochs=given.epochs,
        device="cpu",
    )
    rows = []
    for name, table in (("the training table", training), ("the other half of DE", rest)):
        row = {"measured": f"draws of {name}"}
        for size in SIZES:
            found = [model.drift(draw(table, size, seed)).alarms for seed in range(given.draws)]
            row[f"{size} rows"] = f"{sum(map(bool, found))}/{given.draws} alarms"
        rows.append(row)
    rows += disturbances(model, rest, given.draws)
    started = time.perf_counter()
    reports = {country: model.drift(streamers(country)) for country in COUNTRIES}
    seconds = time.perf_counter() - started
    total = sum(report.rows for report in reports.values())
    summary = model.about["summary"]
    sizes = {one["name"]: len(json.dumps(one)) for one in summary["columns"]}
    notes = [
        "",
        "Other countries:",
        "",
        *(
            f"- {country}, {report.rows} rows: "
            + "; ".join(
                f"**{one.name}** {', '.join(one.alarms)}" for one in report.columns if one.alarms
            )
            for country, report in reports.items()
        ),
        "",
        f"The whole other half of DE: {str(model.drift(rest)).splitlines()[0]}",
        "",
        "The summary has "
        + ", ".join(f"{size:,} bytes for {name}" for name, size in sizes.items())
        + f", {len(json.dumps(summary['pairs'])):,} for related columns and "
        f"{len(json.dumps(summary['predictions'])):,} for predictions. Comparing took "
        f"{1e6 * seconds / total:.0f} µs a row, with the prediction.",
    ]
    command = f"python benchmarks/drift.py --draws {given.draws} --epochs {given.epochs}"
    write("drift", command, rows, notes=notes, alarms={
        country: report.as_json() for country, report in reports.items()
    })  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
