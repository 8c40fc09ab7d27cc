"""Ray, started on this machine or joined where it runs already."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from linkdist.errors import DeviceError, OptionError

STORE = 256 << 20
"""Bytes that processes of one machine share: a model and names of files, no data."""


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
        # Ray reports its use to its makers, unless told otherwise.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        here = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": STORE}
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            ray.init(address or "local", **({} if address else here), **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            found = str(error).strip().splitlines()[0].rstrip(".")
            advice = "Start one with 'ray start --head', or leave out --address."
            where = f"at {address!r}" if address else "here"
            raise OptionError(f"there is no Ray {where}: {found}. {advice}") from error
    try:
        yield ray
    except ray.exceptions.RayError as error:
        found = str(error).strip().splitlines()[-1].rstrip(".")
        advice = "What is done is kept: run the same command again."
        raise DeviceError(f"Ray gave up: {found}. {advice}") from error
    finally:
        if mine:
            ray.shutdown()
