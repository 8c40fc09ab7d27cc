"""Make the example tables: invented papers and who cites whom.

Four fields with words of their own; a title shares most of its words with other fields, so that
titles alone tell a field badly, while papers mostly cite papers of their field. One paper in twelve
has a known field. Usage: python examples/make_papers.py [FOLDER]
"""

import csv
import random
import sys
from pathlib import Path

WORDS = {
    "physics": "photon lattice plasma quantum spin tensor boson cavity vacuum neutrino",
    "biology": "protein genome enzyme cell neuron larva habitat species membrane virus",
    "history": "empire archive treaty parish merchant revolt chronicle guild dynasty letter",
    "economics": "market tariff wage auction credit inflation demand labour price bank",
}
COMMON = "study theory model new evidence system change effects note large early late role field"
VENUES = ("letters", "annals", "proceedings", "review")
PAPERS, NEW, LINKS = 1200, 200, 4


def title(rng, field):
    """Seven words: one or two of the field, one of any field, the rest common."""
    any_field = rng.choice(list(WORDS.values())).split()
    own = rng.sample(WORDS[field].split(), rng.choice((0, 1, 1, 2)))
    words = own + rng.sample(any_field, 2) + rng.sample(COMMON.split(), 4)
    return " ".join(rng.sample(words, len(words)))


def paper(rng, number):
    """A row of the node table, with its true field."""
    field = rng.choice(list(WORDS))
    likely = list(WORDS).index(field)
    venue = VENUES[likely] if rng.random() < 0.4 else rng.choice(VENUES)
    year = "" if rng.random() < 0.05 else rng.randint(1960 + 5 * likely, 2020)
    return {
        "paper": f"P{number:04}", "title": title(rng, field), "venue": venue, "year": year,
        "field": field,
    }  # fmt: skip


def links(rng, papers, first):
    """Each paper from `first` on cites some earlier ones, four of five in its own field."""
    for i, row in enumerate(papers[first:], start=first):
        for _ in range(LINKS if i else 0):
            wanted = rng.random() < 0.8
            near = rng.choices(papers[:i], k=12)
            like = [other for other in near if (other["field"] == row["field"]) == wanted]
            yield {"from": row["paper"], "to": (like or near)[0]["paper"]}


def write(path, rows):
    """A CSV file of rows that share their keys."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(folder):
    """Write nodes.csv, links.csv, new_nodes.csv, new_links.csv and truth.csv."""
    rng = random.Random(7)
    papers = [paper(rng, number) for number in range(PAPERS + NEW)]
    old = list(links(rng, papers[:PAPERS], 0))
    new = list(links(rng, papers, PAPERS))
    truth = [{"paper": row["paper"], "field": row["field"]} for row in papers]
    cited = {link["to"] for link in new}
    shown = [dict(row, field=row["field"] if i % 12 == 0 else "") for i, row in enumerate(papers)]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "nodes.csv", shown[:PAPERS])
    write(folder / "links.csv", old)
    arrived = [row for row in shown[:PAPERS] if row["paper"] in cited] + shown[PAPERS:]
    write(folder / "new_nodes.csv", arrived)
    write(folder / "new_links.csv", new)
    write(folder / "truth.csv", truth)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "papers"))
