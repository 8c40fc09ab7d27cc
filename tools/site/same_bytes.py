"""The site's hook for builds that are the same, byte for byte, on any day.

MkDocs makes a map of the site for search engines and dates it. Without an address of the site the
map is empty, so it is taken away.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def on_post_build(config: MkDocsConfig) -> None:
    """Take away the map."""
    for name in ("sitemap.xml", "sitemap.xml.gz"):
        Path(config.site_dir, name).unlink(missing_ok=True)
