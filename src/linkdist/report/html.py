"""What our web pages share: one document that stands alone, its style, tiles, boxes that scroll.

Nothing is fetched: style and drawings lie inside the page, and no script is needed. A page follows
the reader's choice of light or dark, and can be printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def document(title: str, style: str, main: str, foot: str) -> str:
    r"""A whole page.

    Parameters
    ----------
    title : str
        Plain text.
    style : str
        CSS beside that of all pages.
    main, foot : str
        HTML.

    Examples
    --------
    >>> document("A & B", "", "<h1>A</h1>", "")[-55:]
    '<main><h1>A</h1></main><footer></footer></body></html>\n'
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}{style}</style>"
        f"</head><body><main>{main}</main><footer>{foot}</footer></body></html>\n"
    )


def tiles(items: Iterable[tuple[str, str, str]]) -> str:
    """Numbers to see first: a name, a value and some words each, as HTML.

    Examples
    --------
    >>> tiles([("Accuracy", "91 %", "of 20 nodes")])[:41]
    '<dl class="tiles"><div><dt>Accuracy</dt><'
    """
    inner = "".join(
        f"<div><dt>{name}</dt><dd><b>{value}</b> <span>{words}</span></dd></div>"
        for name, value, words in items
    )
    return f'<dl class="tiles">{inner}</dl>'


def scrolling(name: str, inner: str) -> str:
    """A box in which what is too wide for the page scrolls, reached by keyboard too.

    Examples
    --------
    >>> scrolling("Table: scores", "")
    '<div class="scroll" role="region" tabindex="0" aria-label="Table: scores"></div>'
    """
    label = escape(name, quote=True)
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{inner}</div>'


CSS = """
:root { color-scheme: light dark; --page: #fcfbf8; --card: #ffffff; --ink: #20242a;
  --muted: #626871; --line: #e3e0d8; --above: #1f6f94; --below: #b4530a }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --card: #1d2024; --ink: #e7e5e0;
  --muted: #a0a4ab; --line: #33373d; --above: #6bb8e0; --below: #f09a56 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif }
main, footer { max-width: 82rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 3rem) }
header { padding-top: clamp(2rem, 6vw, 4.5rem) }
h1, h2 { font-family: "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif;
  font-weight: 600; line-height: 1.15; text-wrap: balance }
h1 { font-size: clamp(2rem, 5vw, 3rem); margin: .2rem 0 .6rem; letter-spacing: -.01em }
h2 { font-size: clamp(1.4rem, 3vw, 1.8rem); margin: 0 0 .5rem }
h3 { font-size: 1rem; margin: 2rem 0 0 }
p { max-width: 46rem; margin: 0 0 .6rem; text-wrap: pretty }
section { margin-top: 4rem }
.over { margin: 0; color: var(--muted); font-size: .85rem; letter-spacing: .08em;
  text-transform: uppercase }
dl, dd { margin: 0 }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1px;
  margin-top: 2rem; border: 1px solid var(--line); border-radius: 10px; overflow: hidden;
  background: var(--card) }
.tiles div { padding: 1rem 1.2rem 1.1rem; box-shadow: 0 0 0 1px var(--line) }
dt { color: var(--muted); font-size: .85rem }
.tiles b { display: block; font-size: 1.75rem; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums }
.tiles span { color: var(--muted); font-size: .85rem; line-height: 1.4; display: block }
.scroll { overflow-x: auto; margin-top: 1.2rem; border: 1px solid var(--line);
  border-radius: 10px; background: var(--card) }
.scroll:focus-visible { outline: 2px solid var(--above); outline-offset: 2px }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
caption { text-align: left; padding: .8rem 1rem; color: var(--muted); font-size: .85rem }
caption span { display: inline-block; position: sticky; left: 1rem;
  max-width: min(52rem, 100vw - 5rem) }
th, td { padding: .5rem .7rem; text-align: right; white-space: nowrap; vertical-align: top }
thead th { border-block: 1px solid var(--line); font-size: .85rem; font-weight: 600;
  vertical-align: bottom; white-space: normal }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card);
  padding-left: 1rem; font-weight: 500 }
tbody tr + tr { border-top: 1px solid var(--line) }
svg { display: block; width: 100%; height: auto; font-family: inherit }
svg text { fill: var(--muted); font-size: 10.5px }
svg .name { fill: var(--ink); font-size: 11px; text-anchor: end }
svg .tick { text-anchor: middle; font-variant-numeric: tabular-nums }
svg .grid { stroke: var(--line); stroke-width: 1 }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; padding: 0; margin: .5rem 0 0;
  list-style: none; color: var(--muted); font-size: .85rem }
.legend li { display: flex; align-items: center; gap: .45rem }
footer { margin-top: 4rem; padding-block: 2rem 3rem; color: var(--muted); font-size: .85rem }
@media (max-width: 40rem) { th, td { padding-inline: .55rem } }
@media print { :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000;
  --muted: #444; --line: #ccc; --above: #1f6f94; --below: #b4530a }
  body { print-color-adjust: exact } main, footer { padding-inline: 0; max-width: none }
  .scroll { overflow: visible } th:first-child { position: static }
  footer { margin-top: 1rem; padding: 0 } table, .legend { break-inside: avoid }
  h2, h3, .legend { break-after: avoid } }
"""
