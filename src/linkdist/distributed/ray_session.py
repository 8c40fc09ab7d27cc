"""Start Ray on this machine, or connect to a cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from linkdist.errors import DeviceError, OptionError

OBJECT_STORE = 256 << 20
"""Bytes of memory that the processes of a machine share, for a model and file names."""

TIMEOUT = 10
"""Seconds to wait for a connection to a cluster."""


def need_ray() -> Any:  # noqa: ANN401
    """Import `ray`, or raise an error that names the extra to install."""
    try:
        import ray
        import ray.data
        import ray.train
    except ImportError as error:
        problem = f"several workers need {error.name}, which is not installed"
        raise OptionError(f"{problem}: pip install 'linkdist[ray]'.") from error
    return ray


@contextmanager
def joined(workers: int, address: str | None = None, gpus: int = 0) -> Iterator[Any]:
    """Provide Ray inside a `with` block; an existing connection is used.

    Parameters
    ----------
    workers : int
        Number of processes, with one core each, if Ray starts on this machine.
    address : str, optional
        Address of a cluster; 'auto' is the cluster of this machine. By default Ray starts on this
        machine and stops at the end of the block.
    gpus : int, optional
        Number of GPUs that the processes share, if Ray starts on this machine.

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
        _init(ray, workers, address, gpus)
    try:
        yield ray
    except ray.exceptions.RayError as error:
        found = str(error).strip().splitlines()[-1].rstrip(".")
        advice = "Finished work is kept: run the same command again."
        raise DeviceError(f"Ray gave up: {found}. {advice}") from error
    finally:
        if mine:
            ray.shutdown()


def _init(ray: Any, workers: int, address: str | None, gpus: int) -> None:  # noqa: ANN401
    # By default Ray sends usage statistics to its developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    here |= {"num_gpus": gpus} if gpus else {}
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        host, colon, port = (address or "").rpartition(":")
        if colon and port.isdigit() and int(port) < 1 << 16:  # Ray would try for minutes
            socket.create_connection((host, int(port)), TIMEOUT).close()
        ray.init(address or "local", **quiet, **({} if address else here))
    except (OSError, ValueError, RuntimeError) as error:
        found = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".")
        where = f"at {address!r}" if address else "on this machine"
        advice = "Start one with 'ray start --head', or leave out the address."
        raise OptionError(f"there is no Ray {where}: {found}. {advice}") from error
