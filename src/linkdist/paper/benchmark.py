"""One method, measured on a named data set beside a plain MLP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from linkdist.data.datasets import load_dataset
from linkdist.data.splits import PROTOCOLS
from linkdist.errors import check_names
from linkdist.nn.inputs import make_inputs
from linkdist.paper.protocol import Entry, graph_of, make_task, train_plain_mlp
from linkdist.progress import Callback
from linkdist.training.fit import METHODS, fit
from linkdist.training.history import Best
from linkdist.training.loop import find_device


def measure(
    name: str,
    *,
    method: str = "selflinkdist",
    protocol: str = "paper",
    setting: str = "transductive",
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    device: str = "auto",
    data: Path | None = None,
    callback: Callback | None = None,
) -> Entry:
    """Train a plain MLP and a method on a named data set, and return their accuracies.

    Parameters
    ----------
    name : str
        A key of `linkdist.data.datasets.DATASETS`.
    method : {'selflinkdist', 'linkdist', 'colinkdist'}
        The training method.
    protocol, setting : str
        A key of `linkdist.data.splits.PROTOCOLS`, and one of its settings.
    seeds : sequence of int, length R
        One replica is trained for each seed.
    epochs : int, optional
        Number of epochs, by default the method's own.
    device : {'auto', 'cpu', 'cuda'}
        Where to compute.
    data : Path, optional
        The folder that contains the raw files.
    callback : Callback, optional
        Receives the progress.

    Returns
    -------
    dict
        A record that can be written as JSON. `scores` maps each model to its accuracies in percent
        and its best epochs, R values each.

    Examples
    --------
    >>> record = measure("digits", method="linkdist", epochs=1)  # doctest: +SKIP
    >>> list(record["scores"])  # doctest: +SKIP
    ['plain MLP', 'linkdist, from features', 'linkdist, with links']
    """
    check_names("method", [method], METHODS)
    check_names("protocol", [protocol], tuple(PROTOCOLS))
    check_names("setting", [setting], PROTOCOLS[protocol])
    callback = callback or Callback()
    where = find_device(device)
    graph = graph_of(load_dataset(name, data), protocol)
    inputs = make_inputs(graph.features, where)
    task = make_task(graph, setting, seeds, inputs, data, callback.progress, protocol)
    callback.stage("a plain MLP")
    plain = train_plain_mlp(task)
    callback.stage(method)
    result = fit(
        graph,
        task.splits,
        setting,
        method=method,
        seeds=seeds,
        epochs=epochs,
        device=where.type,
        inputs=inputs,
        progress=callback.progress,
    )
    best = {
        "plain MLP": plain,
        f"{method}, from features": result.history.best("features"),
        f"{method}, with links": result.history.best("mean"),
    }
    return {
        "dataset": name,
        "protocol": protocol,
        "setting": setting,
        "method": method,
        "seeds": list(seeds),
        "epochs": result.epochs,
        "evaluations": len(result.history.curve("features")),
        "seconds": round(result.seconds, 3),
        "device": where.type,
        "precision": result.precision,
        "scores": {model: _percent(found) for model, found in best.items()},
    }


def _percent(best: Best) -> dict[str, list[float]]:
    return {
        "validation": (best.validation * 100).round(4).tolist(),
        "test": (best.test * 100).round(4).tolist(),
        "best_epochs": best.epochs.tolist(),
    }
