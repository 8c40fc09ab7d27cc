"""When a worker of several ends: with the process that started it."""

from __future__ import annotations

import asyncio
import os
import signal

INTERVAL = 1.0
"""Seconds between two checks of the parent."""


async def end_with(parent: int) -> None:
    """End this process after its open requests if its parent was killed.

    The parent also decides what SIGHUP means; a closed terminal sends it to all processes.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while os.getppid() == parent:
        await asyncio.sleep(INTERVAL)
    signal.raise_signal(signal.SIGTERM)
