"""Labels that `suggest` chooses against labels at random: a learning curve from 20 to 200 labels.

Test nodes are drawn as in `few_labels.py` (the half of a graph for choices, or with --final the
other half); they are in the graph without labels, and no strategy may choose them. Every strategy
starts with the same 20 random labels and adds to them in rounds. One record is appended for each
graph, seed, strategy and number of labels. `--report FILE...` prints the table, `--draw FILE SVG`
draws the curves of two strategies.
Usage: python benchmarks/suggest.py --out FILE [--sets ...] [--seeds 0-2] [--final]
       [--strategies random,suggest,cover,margin]
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from graphs import draw, load
from measure import commit, machine

from linkdist.data.graph import UNKNOWN, Graph
from linkdist.data.splits import Split
from linkdist.training.fit import fit
from linkdist.training.suggestion import suggest_nodes, uncertainty

COUNTS = (20, 50, 100, 200)
SETS = ("cora", "citeseer", "pubmed", "amazon-photo", "counties")


def choose(strategy, p, graph, candidates, count, seed):
    """The next nodes to label."""
    rows = np.flatnonzero(candidates)
    if strategy == "random":
        return np.random.default_rng([11, seed, count]).permutation(rows)[:count]
    if strategy == "margin":
        return rows[np.argsort(-uncertainty(p)[rows], kind="stable")[:count]]
    flat = np.full_like(p, 1 / p.shape[1]) if strategy == "cover" else p
    return suggest_nodes(flat, graph.features, graph.links, candidates, count, seed)


def curve(graph, strategy, seed, final, device):
    """Accuracy on the test nodes after each round."""
    split = draw(graph, "20", seed, final)
    test = split.test
    pool = np.setdiff1d(np.arange(graph.n), test)
    labelled = np.random.default_rng([10, seed]).permutation(pool)[: COUNTS[0]]
    none = np.array([], dtype=np.int64)
    for following in (*COUNTS[1:], None):
        started = time.perf_counter()
        known = np.full(graph.n, UNKNOWN)
        known[labelled] = graph.labels[labelled]
        seen = Graph.build(graph.features, graph.links, known, graph.classes)
        model = fit(seen, Split(np.sort(labelled), none, none), seeds=[seed], device=device).model
        p = model.predict_proba(graph.features, graph.links)
        hits = {
            "features": model.predict_proba(graph.features).argmax(1) == graph.labels,
            "links": p.argmax(1) == graph.labels,
        }
        yield {
            "labels": len(labelled),
            **{mode: round(100 * float(hit[test].mean()), 3) for mode, hit in hits.items()},
            "seconds": round(time.perf_counter() - started, 1),
        }
        if following is not None:
            candidates = known == UNKNOWN
            candidates[test] = False
            new = choose(strategy, p, graph, candidates, following - len(labelled), seed)
            labelled = np.concatenate([labelled, new])


def collected(paths):
    """Accuracies of all seeds by graph, mode, strategy and number of labels."""
    found = defaultdict(list)
    for path in paths:
        for line in Path(path).read_text().splitlines():
            record = json.loads(line)
            for mode in ("features", "links"):
                key = (record["graph"], mode, record["strategy"], record["labels"])
                found[key].append(record[mode])
    return found


def draw_curves(path, out):
    """Draw accuracy from features by number of labels, a panel for each graph, from 50 labels."""
    found, counts = collected([path]), COUNTS[1:]
    colours = {"random": "#888", "suggest": "#0a7d6f"}
    marks = ['<text x="220" y="182">accuracy in percent by number of labels</text>']
    for place, (strategy, colour) in enumerate(colours.items()):
        marks.append(f'<text x="{40 + 80 * place}" y="182" fill="{colour}">{strategy}</text>')
    for panel, graph in enumerate(SETS):
        left = 40 + 150 * panel
        means = {
            strategy: [statistics.fmean(found[graph, "features", strategy, n]) for n in counts]
            for strategy in colours
        }
        low, high = (end(map(end, means.values())) for end in (min, max))
        marks.append(f'<text x="{left}" y="16" font-weight="bold">{graph}</text>')
        for y, value in ((144, low), (34, high)):
            marks.append(f'<text x="{left - 5}" y="{y}" text-anchor="end">{value:.0f}</text>')
        for place, count in enumerate(counts):
            marks.append(f'<text x="{left + 50 * place}" y="160">{count}</text>')
        for strategy, values in means.items():
            heights = [140 - 110 * (value - low) / (high - low) for value in values]
            points = " ".join(f"{left + 50 * i},{y:.1f}" for i, y in enumerate(heights))
            line = f'stroke="{colours[strategy]}" stroke-width="2" fill="none"'
            marks.append(f'<polyline points="{points}" {line}/>')
    size = f'viewBox="0 0 {150 * len(SETS) + 10} 190" font-family="sans-serif" font-size="11"'
    page = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *marks, "</svg>"]
    Path(out).write_text("\n".join(page) + "\n")


def report(paths):
    """Print mean accuracy by graph, strategy and number of labels."""
    found = collected(paths)
    graphs = list(dict.fromkeys(key[0] for key in found))
    strategies = list(dict.fromkeys(key[2] for key in found))
    print(f"| graph, mode | strategy | {' | '.join(f'{count} labels' for count in COUNTS)} |")
    print(f"|---|---|{'---|' * len(COUNTS)}")
    for graph in graphs:
        for mode in ("features", "links"):
            for strategy in strategies:
                cells = [found.get((graph, mode, strategy, count), []) for count in COUNTS]
                shown = [f"{statistics.fmean(cell):.1f}" if cell else "" for cell in cells]
                print(f"| {graph}, {mode} | {strategy} | {' | '.join(shown)} |")


def main():
    """Measure, or print the table."""
    if sys.argv[1:2] == ["--report"]:
        return report(sys.argv[2:])
    if sys.argv[1:2] == ["--draw"]:
        return draw_curves(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--strategies", default="random,suggest")
    parser.add_argument("--final", action="store_true")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    about = {"command": " ".join(sys.argv), "commit": commit(), "machine": machine()}
    for seed in range(first, last + 1):
        for name in options.sets.split(","):
            graph = load(name)
            for strategy in options.strategies.split(","):
                for record in curve(graph, strategy, seed, options.final, options.device):
                    record = {"graph": name, "seed": seed, "strategy": strategy, **record, **about}
                    with options.out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
    return None


if __name__ == "__main__":
    main()
