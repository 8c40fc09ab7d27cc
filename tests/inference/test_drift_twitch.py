"""Streamers of one country, and of others: only the others raise an alarm."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import linkdist

pytestmark = pytest.mark.data

FOLDER = Path(os.environ.get("LINKDIST_DATA", ""), "twitch")


def streamers(country):
    folder = FOLDER / country
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


def test_other_countries_raise_an_alarm_and_the_same_country_does_not():
    if not FOLDER.is_dir():
        pytest.skip(f"{FOLDER} is missing")
    german = streamers("DE")
    order = np.random.default_rng(0).permutation(german.num_rows)
    training, held_out = german.take(pa.array(order[:3000])), german.take(pa.array(order[3000:]))
    links = pyarrow.csv.read_csv(FOLDER / "DE" / "edges.csv")
    ends = [np.isin(links[name], training["node"]) for name in ("from", "to")]
    model = linkdist.train(
        training, links.filter(pa.array(ends[0] & ends[1])), id="node", label="mature",
        method="colinkdist", epochs=1, device="cpu",
    )  # fmt: skip
    random = np.random.default_rng(1)
    for table in (training, held_out):
        assert model.drift(table).alarms == []
        for size in (200, 1000):
            rows = random.choice(table.num_rows, size, replace=False)
            assert model.drift(table.take(pa.array(rows))).alarms == []
    for country in ("ENGB", "ES", "PTBR"):
        assert "games" in model.drift(streamers(country)).alarms
    some = held_out.slice(0, 1000)
    for k, name in enumerate(("days", "views", "partner", "games"), start=1):
        moved = some[name].take(pa.array(random.permutation(1000)))
        assert model.drift(some.set_column(k, name, moved)).alarms == [name]
