"""Jinja2 templates for self-contained web pages: style and charts are inside the page.

The pages have no scripts, load nothing from the network, follow the reader's choice of a light or a
dark theme, and can be printed.
"""

from __future__ import annotations

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from linkdist.report.svg import percent, short


def render(template: str, package: str = "linkdist.report", **data: object) -> str:
    """Render a template of a package; it may extend and include those of `linkdist.report`.

    Parameters
    ----------
    template : str
        File name in the package's folder `templates`.
    package : str
        The package.
    **data : object
        The variables of the template. Text is escaped unless it is `markupsafe.Markup`.

    Examples
    --------
    >>> render("base.html").startswith("<!doctype html>")
    True
    """
    return _environment(package).get_template(template).render(**data) + "\n"


@cache
def _environment(package: str) -> Environment:
    names = dict.fromkeys((package, "linkdist.report"))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in names]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["count"] = count
    environment.filters |= {
        "duration": duration,
        "percent": percent,
        "short": short,
        "sentence": lambda text: text[:1].upper() + text[1:],
    }
    return environment


def count(n: int, noun: str, plural: str = "") -> str:
    """Return a number with a noun.

    Examples
    --------
    >>> count(1, "node"), count(1200, "node"), count(2, "class", "classes")
    ('1 node', '1,200 nodes', '2 classes')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration as text.

    Examples
    --------
    >>> duration(0.512), duration(75.2), duration(3725)
    ('0.512 s', '1 min 15 s', '1 h 02 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.3g} s"
