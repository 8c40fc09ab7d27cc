"""Ray, started on this machine or joined where it runs already."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from linkdist.errors import DeviceError, OptionError

STORE = 256 << 20
"""Bytes that processes of one machine share: a model and names of files, no data."""

WAIT = 10
"""Seconds that a cluster has to answer."""


def need_ray() -> Any:  # noqa: ANN401
    """The module `ray`, or a sentence that names the extra."""
    try:
        import ray
        import ray.data
        import ray.train
    except ImportError as error:
        raise OptionError(
            f"several workers need {error.name}, which is not installed: "
            "pip install 'linkdist[ray]'."
        ) from error
    return ray


@contextmanager
def joined(workers: int, address: str | None = None) -> Iterator[Any]:
    """Ray for the time of a `with`; what this process uses already is used on.

    Parameters
    ----------
    workers : int
        Processes that will compute, one core each, where Ray is started here.
    address : str, optional
        Of a cluster; 'auto' is the one that runs on this machine. By default Ray starts here and
        ends with the `with`.

    Raises
    ------
    OptionError
        If Ray is not installed, or if there is no cluster at the address.
    DeviceError
        If workers or machines are lost and Ray gives up.
    """
    ray = need_ray()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    mine = not ray.is_initialized()
    if mine:
        _init(ray, workers, address)
    try:
        yield ray
    except ray.exceptions.RayError as error:
        found = str(error).strip().splitlines()[-1].rstrip(".")
        advice = "What is done is kept: run the same command again."
        raise DeviceError(f"Ray gave up: {found}. {advice}") from error
    finally:
        if mine:
            ray.shutdown()


def _init(ray: Any, workers: int, address: str | None) -> None:  # noqa: ANN401
    # Ray reports its use to its makers, unless told otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": STORE}
    try:
        if address is not None:
            _knock(address)
        ray.init(
            address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else here),
        )
    except (OSError, ValueError, RuntimeError) as error:
        found = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".")
        where = f"at {address!r}" if address else "to be had here"
        advice = "'ray start --head' starts one; without an address it starts by itself."
        raise OptionError(f"there is no Ray {where}: {found}. {advice}") from error


def _knock(address: str) -> None:
    """Let a wrong address fail at once: Ray tries for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and int(port) < 1 << 16:
        socket.create_connection((host, int(port)), WAIT).close()
