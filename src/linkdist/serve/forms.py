"""Uploaded files: a plain body, or the files of a form (`curl -F file=@nodes.csv`).

A form has the field 'file' with a table of nodes. It may have the field 'links' with the links
between them; it is repeated if a model has relations and each has a table of its own. The files are
written to disk while they arrive, so a form needs no more memory than a plain body.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from linkdist.serve.errors import RefusedError
from linkdist.serve.guard import save_body
from linkdist.serve.link_schema import cut
from linkdist.serve.settings import Settings
from linkdist.serve.table_prediction import table_suffix

TABLE, LINKS = "file", "links"

FORM = "multipart/form-data"
MOST_HEADERS, MOST_HEADER_BYTES = 8, 2048
"""The limits of the headers of a part; curl and browsers send two or three short ones."""

BINARY = {"type": "string", "format": "binary"}
CONTENT = {
    "application/octet-stream": {"schema": BINARY},
    FORM: {
        "schema": {
            "type": "object",
            "required": [TABLE],
            "properties": {
                TABLE: {**BINARY, "description": "A table of nodes."},
                LINKS: {
                    "type": "array",
                    "items": BINARY,
                    "description": "A table of the links between these nodes: two columns of ids, "
                    "and the columns of relations and weights that the training had. If each "
                    "relation had a table, there is a file for each, with the relation's name.",
                },
            },
        },
        "encoding": {name: {"contentType": "application/octet-stream"} for name in (TABLE, LINKS)},
    },
}
"""The bodies of an upload, for the OpenAPI document."""


class Upload(NamedTuple):
    """A file of a request.

    Attributes
    ----------
    path : Path
        A temporary file.
    name : str
        The name that the user gave the file.
    """

    path: Path
    name: str


async def save_files(
    request: Request, name: str | None, settings: Settings, resources: ExitStack, most_links: int
) -> tuple[Upload, list[Upload]]:
    """Write the files of a request to temporary files.

    Parameters
    ----------
    request : Request
        The request, whose body was not read.
    name : str, optional
        The name of the table. A plain body needs it; the files of a form have names.
    settings : Settings
        Has the limits of the body.
    resources : ExitStack
        Removes the files when it is closed.
    most_links : int
        Largest number of link tables.

    Returns
    -------
    table : Upload
        The table of nodes.
    links : list of Upload
        The tables of links.

    Raises
    ------
    RefusedError
        If the body breaks a limit or is not such a form.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == FORM.encode():
        form = Form(options.get(b"boundary", b""), resources, most_links)
        sink: Any = form  # it is written like a file
        await save_body(sink, request, settings.file_bytes, settings.seconds)
        return form.uploads()
    if not name:
        advice = "Add ?name=nodes.csv to the address, or send a form: curl -F file=@nodes.csv."
        raise RefusedError(422, f"the name of the file is missing. {advice}")
    file = _new_file(name, resources)
    await save_body(file, request, settings.file_bytes, settings.seconds)
    return Upload(Path(file.name), name), []


class Form:
    r"""Writes the files of a form, given its bytes in parts of any size.

    Parameters
    ----------
    boundary : bytes
        What separates the parts of the body.
    resources : ExitStack
        Removes the files when it is closed.
    most_links : int
        Largest number of link tables.

    Examples
    --------
    >>> body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    >>> with ExitStack() as resources:
    ...     form = Form(b"x", resources, 1)
    ...     form.write(body + b"paper,year\n1,1999\n\r\n--x--\r\n")
    ...     form.flush()
    ...     table, links = form.uploads()
    ...     table.name, table.path.read_text(), links
    ('a.csv', 'paper,year\n1,1999\n', [])
    """

    def __init__(self, boundary: bytes, resources: ExitStack, most_links: int) -> None:
        self.resources, self.most_links = resources, most_links
        self._files: list[tuple[str, IO[bytes], str]] = []  # field, file, name
        self._field, self._value, self._disposition = b"", b"", b""
        self._has_ended = False
        callbacks: Any = {
            "on_header_field": self._add_to_field,
            "on_header_value": self._add_to_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._start_file,
            "on_part_data": self._write_file,
            "on_end": self._end,
        }
        limits = {"max_header_count": MOST_HEADERS, "max_header_size": MOST_HEADER_BYTES}
        if not boundary:
            raise _malformed("the content type has no boundary")
        self._parser = _checked(MultipartParser, boundary, callbacks, **limits)

    def write(self, data: bytes) -> None:
        """Read the next bytes of the body."""
        if not self._has_ended:  # what follows the last boundary has no meaning
            _checked(self._parser.write, data)

    def flush(self) -> None:
        """End the body, and write what files still hold in memory."""
        if not self._has_ended:
            raise _malformed("the last boundary is missing")
        for _, file, _ in self._files:
            file.flush()

    def uploads(self) -> tuple[Upload, list[Upload]]:
        """Return the table and the tables of links."""
        named = [(field, Upload(Path(file.name), name)) for field, file, name in self._files]
        tables = [upload for field, upload in named if field == TABLE]
        if not tables:
            advice = f"Send the table in the field {TABLE!r}: curl -F {TABLE}=@nodes.csv."
            raise RefusedError(422, f"the form has no field {TABLE!r}. {advice}")
        return tables[0], [upload for field, upload in named if field == LINKS]

    def _add_to_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field = self._value = b""

    def _start_file(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition = b""
        field = _text(options.get(b"name", b""))
        self._check_field(field)
        if b"filename" not in options:
            advice = f"Send a file: curl -F {field}=@{field}.csv."
            raise RefusedError(422, f"the field {field!r} must be a file. {advice}")
        name = _text(options[b"filename"])
        self._files.append((field, _new_file(name, self.resources), name))

    def _check_field(self, field: str) -> None:
        most = {TABLE: 1, LINKS: self.most_links}
        if field not in most:
            found = f"unknown field {cut(field)!r} in the form"
            raise RefusedError(422, f"{found}; choose from {', '.join(most)}.")
        if sum(other == field for other, _, _ in self._files) >= most[field]:
            rule = f"a form may have {most[field]} of the field {field!r} for this model"
            raise RefusedError(422, f"{rule}; found more. Leave the others out.")

    def _write_file(self, data: bytes, start: int, end: int) -> None:
        self._files[-1][1].write(data[start:end])

    def _end(self) -> None:
        self._has_ended = True


def _new_file(name: str, resources: ExitStack) -> IO[bytes]:
    """A temporary file for a table of this name; it is removed when the resources are closed."""
    suffix = table_suffix(name)
    return resources.enter_context(NamedTemporaryFile(suffix=suffix))


def _text(value: bytes) -> str:
    """A name in the form: UTF-8, as browsers and curl send it."""
    return value.decode("utf-8", "replace")


def _malformed(reason: object) -> RefusedError:
    return RefusedError(400, f"the body is not a form ({FORM}): {reason}. Send it again.")


def _checked(function: Callable[..., Any], *args: object, **options: object) -> Any:  # noqa: ANN401
    try:
        return function(*args, **options)
    except FormParserError as error:
        raise _malformed(str(error).rstrip(".")) from None
