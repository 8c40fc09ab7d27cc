"""The settings of a service; its workers read them from an environment variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from linkdist.errors import OptionError

VARIABLE = "LINKDIST_SERVE"

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of prometheus_client that names the folder in which several workers count."""

MIN_LENGTH = 16
"""The smallest length of a token: shorter ones can be guessed."""

ANY_HOST = "*"


@dataclass(frozen=True)
class Settings:
    """The settings of a service. All limits hold for each of its processes.

    Attributes
    ----------
    model : str
        The model directory.
    token_file : str
        A file with the token that requests must send; empty if there is no token.
    hosts : tuple of str
        Names under which the service may be addressed; '*' stands for all.
    parent : int
        The process that started several of these; they end with it. 0 if there is only one.
    access_log : bool
        Whether each request is logged on standard error.
    rows : int
        Largest number of rows and neighbours of a request.
    values : int
        Largest number of probabilities in the answer to a request: rows × classes.
    body_bytes, file_bytes : int
        Largest size of a JSON request and of a table.
    seconds : float
        Time limit for receiving a body, and for computing an answer.
    waiting : int
        Largest number of rows that wait to be computed.
    tables : int
        Largest number of tables that are predicted at once.
    table_rows : int
        Largest number of rows of a table.
    table_seconds : float
        Time limit for predicting a table.
    memory_bytes : int
        Memory that a table or a large request may use while it is computed.
    spool_bytes : int
        Largest total size of the temporary files of requests and answers.
    connections : int
        Largest number of open connections.
    header_seconds : float
        Time limit for receiving the headers of a request.
    drift_rows : int
        Rows of a window that are compared with the training; 0 if none are.

    Examples
    --------
    >>> settings = Settings("papers-model", rows=10)
    >>> settings.publish()
    >>> Settings.published() == settings
    True
    """

    model: str
    token_file: str = ""
    hosts: tuple[str, ...] = (ANY_HOST,)
    parent: int = 0
    access_log: bool = False
    rows: int = 10_000
    values: int = 1_000_000
    body_bytes: int = 8 << 20
    file_bytes: int = 256 << 20
    seconds: float = 30.0
    waiting: int = 100_000
    tables: int = 2
    table_rows: int = 5_000_000
    table_seconds: float = 300.0
    memory_bytes: int = 512 << 20
    spool_bytes: int = 1 << 30
    connections: int = 512
    header_seconds: float = 10.0
    drift_rows: int = 1000

    def publish(self) -> None:
        """Store the settings for the workers that this process starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def published(cls) -> Self:
        """Return the settings that were published by this process or its parent."""
        values = json.loads(os.environ[VARIABLE])
        return cls(**{**values, "hosts": tuple(values["hosts"])})

    def read_token(self) -> str:
        """Read the token from its file; empty if there is no token.

        Examples
        --------
        >>> Settings("papers-model").read_token()
        ''
        """
        path = self.token_file
        if not path:
            return ""
        try:
            token = Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"the token file {path} cannot be read: {error}.") from error
        if len(token) < MIN_LENGTH or not token.isascii():
            raise OptionError(
                f"the token in {path} must be {MIN_LENGTH} ASCII characters or more; found "
                f"{len(token)}. Make one: openssl rand -hex 24 > {path}"
            )
        return token
