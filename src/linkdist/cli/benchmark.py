"""`linkdist benchmark`: a method's accuracy on a named data set."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from linkdist.cli.console import Bars, note, print_table, spread
from linkdist.cli.options import (
    DataDir,
    Device,
    Epochs,
    JsonFile,
    Replicas,
    Seed,
    check_json,
    write_json,
)
from linkdist.errors import check_seeds


def benchmark(
    name: Annotated[
        str, Argument(help="The name of the data set. 'linkdist datasets' lists the names.")
    ],
    method: Annotated[
        str,
        Option(
            help="The training method: selflinkdist, which trains one network with a panel of "
            "teachers, or one of the paper's methods, linkdist and colinkdist."
        ),
    ] = "selflinkdist",
    protocol: Annotated[
        str,
        Option(
            help="The evaluation protocol. 'paper' uses the splits of the LinkDist paper. 'glnn' "
            "uses those of GLNN: the largest component, 30 validation nodes per class, and the "
            "remaining nodes for testing."
        ),
    ] = "paper",
    setting: Annotated[
        str,
        Option(
            help="The part of the graph that training sees. 'transductive': all nodes and links. "
            "'inductive': no validation and test nodes. 'full-supervised': all, with 60 % of the "
            "labels. 'production', of the protocol glnn: all but a fifth of the test nodes."
        ),
    ] = "transductive",
    seed: Seed = 0,
    replicas: Replicas = 1,
    epochs: Epochs = None,
    device: Device = "auto",
    data: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Measure a method on a named data set; no model is saved.

    linkdist benchmark digits
    """
    from linkdist.paper.protocol import measure

    check_seeds(seed, replicas, "--replicas")
    check_json(json_file)
    with Bars() as bars:
        record = measure(
            name, method=method, protocol=protocol, setting=setting,
            seeds=range(seed, seed + replicas), epochs=epochs, device=device, data=data,
            callback=bars,
        )  # fmt: skip
    rows = [
        {
            "": mode,
            "validation": spread(scores["validation"]),
            "test": spread(scores["test"]),
            "best evaluation": ", ".join(map(str, scores["best_epochs"])),
        }
        for mode, scores in record["scores"].items()
    ]
    print_table(f"{name}, {setting}, {replicas} replica(s): accuracy in percent", rows)
    note(
        f"{record['epochs']} epochs of {method} with {record['evaluations']} evaluation(s) "
        f"in {record['seconds']:.1f} s on {record['device']}"
    )
    write_json(json_file, record)
