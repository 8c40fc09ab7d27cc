"""How a service is run; a worker reads it from its environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Self

VARIABLE = "LINKDIST_SERVE"


@dataclass(frozen=True)
class Settings:
    """How a service is run.

    Attributes
    ----------
    model : str
        The model directory.
    token_file : str
        Holds what a request must carry; empty where it need not.
    rows : int
        Rows and neighbours of a request, at most.
    body_bytes, file_bytes : int
        Of a request, and of a table.
    seconds : float
        For a body to arrive, and for an answer.
    waiting : int
        Rows that may wait to be computed.
    tables : int
        How many are predicted at once.

    Examples
    --------
    >>> settings = Settings("papers-model", rows=10)
    >>> settings.publish()
    >>> Settings.published() == settings
    True
    """

    model: str
    token_file: str = ""
    rows: int = 10_000
    body_bytes: int = 8 << 20
    file_bytes: int = 256 << 20
    seconds: float = 30.0
    waiting: int = 100_000
    tables: int = 2

    def publish(self) -> None:
        """Put it where the workers that this process starts find it."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def published(cls) -> Self:
        """What the process that started this one published."""
        return cls(**json.loads(os.environ[VARIABLE]))
