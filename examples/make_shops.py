"""Make the example tables with relations, weights and several graphs: shops in four cities.

The revenue of a shop depends on its size and its staff, and on how busy its street is, which no
column says. Shops of one street are linked, with the number of customers that they share as the
weight. Shops with the same wholesaler are linked too, which says nothing. Of half of the shops it
is known what they earn, what they sell and whether they won an award, which few did.
Usage: python examples/make_shops.py [FOLDER]
"""

import csv
import random
import sys
from pathlib import Path

CITIES = ("Aachen", "Bergen", "Coimbra", "Delft")
SHOPS, STREETS, STREET_LINKS, WHOLESALER_LINKS = 120, 8, 3, 2
GOODS = ("bread", "books", "coffee", "flowers")
KINDS = ("bakery", "cafe", "kiosk", "bookshop", "florist")
TYPICAL = {
    "bakery": ("bread", "coffee"), "cafe": ("coffee", "bread"), "kiosk": ("books", "coffee"),
    "bookshop": ("books",), "florist": ("flowers",),
}  # fmt: skip


def shop(rng, number, city, streets):
    """A row of the node table with all that is true of it, and its street."""
    street = rng.randrange(STREETS)
    kind = rng.choice(KINDS)
    area, staff = rng.randint(20, 140), rng.randint(1, 9)
    sells = {goods for goods in TYPICAL[kind] if rng.random() < 0.85}
    sells |= {streets[street]["goods"]} if rng.random() < 0.7 else set()
    revenue = 90 + 0.9 * area + 9 * staff + 70 * streets[street]["busy"] + rng.gauss(0, 12)
    award = rng.random() < (0.3 if streets[street]["busy"] > 0.8 and staff > 5 else 0.01)
    return {
        "shop": f"S{number:03}", "city": city, "kind": kind, "area": area, "staff": staff,
        "opened": rng.randint(1960, 2024), "sells": ";".join(sorted(sells)),
        "revenue": round(revenue, 1), "award": "yes" if award else "no",
    }, street  # fmt: skip


def links(rng, rows):
    """Links within a city: to shops of the same street, and to shops with the same wholesaler."""
    for row, street in rows:
        near = [other for other, place in rows if place == street and other is not row]
        for other in rng.sample(near, min(STREET_LINKS, len(near))):
            yield link(row, other, "street", rng.randint(5, 40))
        for other, _ in rng.sample(rows, WHOLESALER_LINKS):
            if other is not row:
                yield link(row, other, "wholesaler", rng.randint(1, 4))


def link(one, other, relation, customers):
    """A row of the link table."""
    return {
        "shop": one["shop"], "other": other["shop"], "relation": relation, "customers": customers,
    }  # fmt: skip


def write(path, rows):
    """A CSV file of rows that share their keys."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(folder):
    """Write nodes.csv, links.csv and truth.csv."""
    rng = random.Random(3)
    nodes, joined = [], []
    for c, city in enumerate(CITIES):
        streets = [{"busy": rng.random() * 2, "goods": rng.choice(GOODS)} for _ in range(STREETS)]
        rows = [shop(rng, c * SHOPS + i, city, streets) for i in range(SHOPS)]
        nodes += [row for row, _ in rows]
        joined += links(rng, rows)
    known = [i % 2 == 0 for i in range(len(nodes))]
    targets = ("sells", "revenue", "award")
    shown = [
        row if there else row | dict.fromkeys(targets, "")
        for row, there in zip(nodes, known, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "nodes.csv", shown)
    write(folder / "links.csv", joined)
    write(folder / "truth.csv", [{name: row[name] for name in ("shop", *targets)} for row in nodes])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "shops"))
