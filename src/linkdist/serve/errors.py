"""What a request is refused with: a status, a sentence, and the columns that are to blame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RULES = {
    400: "What was sent is no JSON, or no HTTP.",
    401: "A token is needed, and the one sent is missing or another.",
    404: "There is no such thing.",
    405: "Another method is needed.",
    408: "The body came too slowly.",
    413: "There are more bytes or rows than the service takes.",
    415: "The body is of another type than the one named here.",
    422: "The JSON or the table is well-formed, but what it says does not fit the model.",
    503: "The service is busy, or took too long.",
}
"""Every status that is not a success, as the documentation tells it."""


class RefusedError(Exception):
    """A request that is not answered.

    Parameters
    ----------
    status : int
        One of `RULES`.
    error : str
        What was found, what the rule is, what to do.
    columns : mapping of str to str, optional
        The same about single columns.

    Examples
    --------
    >>> RefusedError(422, "rows must not be empty.").body()
    {'error': 'rows must not be empty.', 'columns': {}}
    """

    def __init__(self, status: int, error: str, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.columns = status, error, dict(columns or {})

    def body(self) -> dict[str, Any]:
        """As it is sent."""
        return {"error": self.error, "columns": self.columns}
