"""The text for the page of a registry: the README, whose links must name the repository there."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

SOURCE = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]


def absolute_links(text):
    """A page in which links to files and images of the repository are complete addresses."""
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{SOURCE}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{SOURCE}/blob/main/", text)


setup(
    long_description=absolute_links(Path("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
