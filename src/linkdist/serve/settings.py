"""The settings of a service; its workers read them from an environment variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from linkdist.errors import OptionError

VARIABLE = "LINKDIST_SERVE"

MIN_LENGTH = 16
"""The smallest length of a token: shorter ones can be guessed."""


@dataclass(frozen=True)
class Settings:
    """The settings of a service.

    Attributes
    ----------
    model : str
        The model directory.
    token_file : str
        A file with the token that requests must send; empty if there is no token.
    access_log : bool
        Whether each request is logged on standard error.
    rows : int
        Largest number of rows and neighbours of a request.
    body_bytes, file_bytes : int
        Largest size of a JSON request and of a table.
    seconds : float
        Time limit for receiving a body, and for computing an answer.
    waiting : int
        Largest number of rows that wait to be computed.
    tables : int
        Largest number of tables that are predicted at once.

    Examples
    --------
    >>> settings = Settings("papers-model", rows=10)
    >>> settings.publish()
    >>> Settings.published() == settings
    True
    """

    model: str
    token_file: str = ""
    access_log: bool = False
    rows: int = 10_000
    body_bytes: int = 8 << 20
    file_bytes: int = 256 << 20
    seconds: float = 30.0
    waiting: int = 100_000
    tables: int = 2

    def publish(self) -> None:
        """Store the settings for the workers that this process starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def published(cls) -> Self:
        """Return the settings that were published by this process or its parent."""
        return cls(**json.loads(os.environ[VARIABLE]))

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
            token = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"the token file {path} cannot be read: {error}.") from error
        if len(token) < MIN_LENGTH or not token.isascii():
            raise OptionError(
                f"the token in {path} must be {MIN_LENGTH} ASCII characters or more; found "
                f"{len(token)}. Make one: openssl rand -hex 24 > {path}"
            )
        return token
