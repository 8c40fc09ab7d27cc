"""Why a request is refused: a status, a sentence, and the columns that are wrong."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

RULES = {
    400: "The body is not JSON, or the request is not HTTP.",
    401: "The token is missing or wrong.",
    404: "There is nothing at this address.",
    405: "The address does not accept this method.",
    408: "The body arrived too slowly.",
    413: "There are more bytes, rows or values than the service accepts.",
    415: "The body does not have the content type that is listed here.",
    422: "The JSON or the table is well-formed, but it does not fit the model.",
    421: "The service is not known under this host name.",
    503: "The service is busy, or it took too long.",
    507: "The disk of the service is full.",
}
"""Every status that is not a success, for the OpenAPI document."""


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    columns: dict[str, str] = Field(description="The problems of single columns.")


class RefusedError(Exception):
    """A request that is refused.

    Parameters
    ----------
    status : int
        One of `RULES`.
    error : str
        What was found, what the rule is, what to do.
    columns : mapping of str to str, optional
        The problems of single columns.

    Examples
    --------
    >>> RefusedError(422, "'rows' must not be empty.").body()
    {'error': "'rows' must not be empty.", 'columns': {}}
    """

    def __init__(self, status: int, error: str, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.columns = status, error, dict(columns or {})

    def body(self) -> dict[str, Any]:
        """The `Problem` that is sent."""
        return {"error": self.error, "columns": self.columns}

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """The `Problem` as a response; a busy service says when to try again."""
        retry = {"Retry-After": "1"} if self.status == 503 else None
        return JSONResponse(self.body(), self.status, headers=headers or retry)


def no_space(error: OSError) -> RefusedError:
    """Return why a temporary file could not be written.

    Examples
    --------
    >>> no_space(OSError(errno.ENOSPC, "No space left on device")).status
    507
    """
    found = f"the service cannot write a temporary file: {error.strerror}"
    if error.errno == errno.EFBIG:
        return RefusedError(413, f"{found}. The answer is too large; send fewer rows.")
    return RefusedError(507, f"{found}. Try again later; the service needs space in TMPDIR.")


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document the statuses of an operation that are not a success.

    Examples
    --------
    >>> sorted(refusals(404))
    [401, 404, 421, 503]
    """
    return {
        status: {"model": Problem, "description": RULES[status]}
        for status in sorted({401, 421, 503, *statuses})
    }
