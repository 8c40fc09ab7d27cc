"""How long a task takes, roughly: for the order of tasks and for the time that is left.

The seconds are for ten seeds, on one H200 or on one core. `SIZES` has the nodes, the non-zero
features of a node, the links and the classes of each graph, so that a plan needs no data.
"""

SIZES = {
    "cora": (2.7, 18, 5.3, 7),
    "citeseer": (3.3, 32, 4.7, 6),
    "pubmed": (19.7, 50, 44, 3),
    "amazon-photo": (7.7, 259, 119, 8),
    "amazon-computers": (13.8, 267, 246, 10),
    "coauthor-cs": (18.3, 60, 82, 15),
    "coauthor-physics": (34.5, 33, 248, 5),
    "actor": (7.6, 5, 27, 5),
    "blogcatalog": (5.2, 71, 172, 6),
    "tolokers": (11.8, 10, 519, 1),
    "minesweeper": (10.0, 7, 39, 1),
    "twitch-DE": (9.5, 20, 153, 1),
    "twitch-ENGB": (7.1, 21, 35, 1),
    "twitch-ES": (4.6, 19, 59, 1),
    "twitch-PTBR": (1.9, 20, 31, 1),
    "counties": (3.1, 7, 9, 1),
}
"""Thousands of nodes, non-zeros of a row, thousands of links, sets of trees."""
SHARES = {"5": 0.005, "20": 0.02, "1%": 0.01, "10%": 0.1, "60%": 0.6}


def seconds_of(task):
    """Estimated seconds of a task."""
    nodes, width, links, classes = SIZES[task.name]
    labelled = nodes * SHARES[task.labels]  # thousands
    trees = 3 * classes * labelled * (width / 350 + 0.2)
    of_ten = {
        "selflinkdist": 3 + 0.4 * nodes + 0.01 * links,
        "colinkdist": 2 + 0.05 * links,
        "networks": 10 + 0.8 * nodes + 0.05 * links,
        "linear": 1 + classes * (nodes / 2 + labelled) * width / 150,
        "trees": 0.5 + trees,
        "averages": 2 + nodes / 2 + 1.5 * trees,
        "spreading": 2 + trees + classes * (2 + width / 50),
        "propagation": 0.5 + 0.02 * links,
    }
    return of_ten[task.group] * len(task.seeds) / 10
