"""What hand-made SVG drawings share: an element that tells what it shows, lines, round steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import NamedTuple


def drawing(width: float, height: float, uid: str, title: str, told: str, marks: str) -> str:
    """An SVG element to be set into a page, with a title and a description for those who hear it.

    Parameters
    ----------
    width, height : float
        In its own units; the page's style finds the width as --w and may stretch it.
    uid : str
        A name that no other drawing of the page has.
    title, told : str
        What it shows, as plain text.
    marks : str
        What is drawn, as SVG.

    Examples
    --------
    >>> drawing(10, 5, "a", "Dots", "None & none.", "")[:58]
    '<svg viewBox="0 0 10 5" style="--w: 10px" role="img" aria-'
    """
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="--w: {width:g}px" role="img" '
        f'aria-labelledby="{uid}-t {uid}-d">'
        f'<title id="{uid}-t">{escape(title)}</title><desc id="{uid}-d">{escape(told)}</desc>'
        f"{marks}</svg>"
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A line of a class of the page's style.

    Examples
    --------
    >>> line("grid", 0, 1, 2, 1)
    '<line class="grid" x1="0" y1="1" x2="2" y2="1"/>'
    """
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def plain(value: object) -> str:
    r"""A name of any making on one line, without signs that are not seen or turn the text around.

    Examples
    --------
    >>> plain("a\tb "), plain(chr(0x202E) + "c")
    ('a b', '�c')
    """
    words = " ".join(str(value).split())
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in words)


def short(name: str, most: int) -> str:
    """A name of at most so many signs.

    Examples
    --------
    >>> short("economics", 6), short("maths", 6)
    ('econo…', 'maths')
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def percent(share: float, digits: int = 1) -> str:
    r"""A share of 1 as people read it.

    Examples
    --------
    >>> percent(0.875), percent(0.5, digits=0)
    ('87.5\xa0%', '50\xa0%')
    """
    return f"{100 * share:.{digits}f}\xa0%"


def round_step(span: float, most: float, least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... times `least` of which a span has at most so many.

    Examples
    --------
    >>> round_step(0.13, most=4.5, least=0.01), round_step(200, most=7, least=1)
    (0.05, 50)
    """
    while span / least > most:
        for factor in (2, 5):
            if span / (factor * least) <= most:
                return factor * least
        least *= 10
    return least


def round_ends(low: float, high: float) -> tuple[int, int]:
    """The whole numbers around an interval, at least 1 apart; one more below rather than above.

    Examples
    --------
    >>> round_ends(2.3, 4.0), round_ends(100.0, 100.0), round_ends(0.0, 0.0)
    ((2, 4), (99, 100), (0, 1))
    """
    first, last = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    if first < last:
        return first, last
    # Accuracies of 100 % shall not have room above them.
    return (first - 1, first) if first > 0 else (first, first + 1)


class Axis(NamedTuple):
    """From values to places on a drawing.

    Examples
    --------
    >>> upwards = Axis.around([0.52, 0.93], 200, 0, most=5, least=0.01)
    >>> upwards.low, upwards.high, upwards(0.75), upwards.ticks()
    (0.5, 1.0, 100.0, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    """

    low: float
    high: float
    start: float
    end: float
    step: float

    @classmethod
    def around(
        cls, values: Iterable[float], start: float, end: float, most: float, least: float
    ) -> Axis:
        """The axis whose ends are the next round values; at least a step long."""
        known = list(values)
        low, high = min(known), max(known)
        step = round_step(high - low, most, least)
        first, last = round_ends(low / step, high / step)
        return cls(first * step, last * step, start, end, step)

    def __call__(self, value: float) -> float:
        """Where a value lies, to a tenth of a unit."""
        share = (value - self.low) / (self.high - self.low)
        return round(float(self.start + share * (self.end - self.start)), 1)

    def ticks(self) -> list[float]:
        """The round values from end to end."""
        steps = range(round((self.high - self.low) / self.step) + 1)
        return [round(self.low + i * self.step, 9) for i in steps]
