"""Results to read: one web page and its Markdown twin, ours beside the published numbers.

results.json, run.json  ->  records  ->  tables  ->  report.html, tables.md
"""

from __future__ import annotations

from pathlib import Path

from linkdist._files import replace_text
from linkdist.paper.html import render_html
from linkdist.paper.records import read_records, read_run
from linkdist.paper.tables import render_markdown


def write_report(directory: Path) -> tuple[Path, Path]:
    """Write `report.html` and `tables.md` beside a run's results.

    Parameters
    ----------
    directory : Path
        Where `results.json` lies, and perhaps `run.json`, which says how it was made.

    Returns
    -------
    tuple of Path
        The page and the tables.

    Raises
    ------
    DataError
        If either file is not what it must be.
    OptionError
        If the folder takes no files.

    Examples
    --------
    >>> import json
    >>> from tempfile import TemporaryDirectory
    >>> record = {"dataset": "digits", "setting": "inductive", "method": "MLP", "scores": [90.0],
    ...           "mean": 90.0, "std": 0.0, "seconds": 1.0, "device": "cpu"}
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "results.json").write_text(json.dumps([record]))
    ...     [path.name for path in write_report(Path(folder))]
    ['report.html', 'tables.md']
    """
    records = read_records(directory / "results.json")
    run = read_run(directory / "run.json")
    page, text = directory / "report.html", directory / "tables.md"
    replace_text(page, render_html(records, run))
    replace_text(text, render_markdown(records, run))
    return page, text
