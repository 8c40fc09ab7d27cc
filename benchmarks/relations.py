"""Relations, directions and weights of links, given and ignored, on graphs with a known answer.

The graphs are those of `linkdist.data.made`. For each of relations, directions and weights,
SelfLinkDist is trained on the graph as it is, on the graph without that knowledge, and on the
helpful links alone. Accuracy on the nodes without a label, from features and with links.
Usage: python benchmarks/relations.py --out FILE.json [--seeds 1000-1009] [--table]
"""

from dataclasses import replace

from cells import ahead, run, scores_of, spread

from linkdist.data import made
from linkdist.data.graph import with_links

MAKERS = {
    "relations": made.graph_of_relations,
    "directions": made.graph_of_directions,
    "weights": made.graph_of_weights,
}
GIVEN, IGNORED, ALONE = "given", "ignored", "helpful links alone"


def jobs(seeds):
    return [
        {"graph": name, "links": links, "method": "SelfLinkDist", "seed": seed}
        for seed in seeds
        for name in MAKERS
        for links in (GIVEN, IGNORED, ALONE)
    ]


def variant(found, links):
    """A made graph with its links as given, without their knowledge, or only the helpful ones.

    The helpful links alone have no relation; they keep their weights. Directed links help one of
    their nodes only, so there it is the helpful direction.
    """
    graph, whole = found.graph, found.graph.all_links
    if links == GIVEN:
        return graph
    if links == ALONE and graph.directed:
        return made.outgoing_alone(graph)
    if links == ALONE:
        whole = whole.take(found.helpful)
    plain = replace(whole, relation=None, relations=("links",), directed=False)
    if links == IGNORED:
        plain = replace(plain, weights=None)
    return with_links(graph, plain.merged(graph.n))


def compute(job, setting):
    """Accuracy in percent on the nodes without a label, and the weight of each head."""
    from linkdist.training.fit import fit

    found = MAKERS[job["graph"]](job["seed"])
    graph, test = variant(found, job["links"]), found.split.test
    given = {"seeds": [job["seed"]], "device": setting.device, "epochs": setting.epochs}
    model = fit(graph, found.split, **given).model
    scores = {
        mode: 100 * float((p.argmax(axis=1) == graph.labels)[test].mean())
        for mode, p in (
            ("features", model.predict_proba(graph.features)),
            ("with links", model.predict_proba(graph.features, graph.all_links)),
        )
    }
    alpha = {f"α of {head}": float(a) for head, a in zip(graph.heads, model.alpha[0], strict=True)}
    return scores | alpha


def table(cells):
    """A row for each graph; below, what ignoring costs and what is lost to the helpful links."""
    rows, notes = [], [""]
    for name in MAKERS:
        for mode in ("features", "with links"):
            found = {
                links: scores_of(cells, mode, graph=name, links=links)
                for links in (GIVEN, IGNORED, ALONE)
            }
            if not all(found.values()):
                continue
            row = {"graph": name, "mode": mode, "seeds": len(found[GIVEN])}
            rows.append(row | {links: spread(scores) for links, scores in found.items()})
            gain, _, _ = ahead(found[GIVEN], found[IGNORED])
            rest, _, _ = ahead(found[GIVEN], found[ALONE])
            notes.append(
                f"- {name}, {mode}: {gain:+.2f} points beside ignoring them, {rest:+.2f} beside "
                "the helpful links alone"
            )
        heads = {key for cell in cells if cell["graph"] == name for key in cell if key[0] == "α"}
        weights = {head: scores_of(cells, head, graph=name, links=GIVEN) for head in sorted(heads)}
        shown = [f"{head} {spread(found)}" for head, found in weights.items() if found]
        if len(shown) > 1:
            notes.append(f"- {name}, given: {', '.join(shown)}")
    about = ["", "Accuracy in percent on the nodes without a label, mean ± standard deviation."]
    return rows, [*about, *notes]


if __name__ == "__main__":
    run("relations", jobs, compute, table, __doc__)
