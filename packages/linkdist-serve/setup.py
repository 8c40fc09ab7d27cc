"""Build the wheel of linkdist-serve: what the program imports, directly or not, and nothing else.

The source is that of linkdist. Imports inside functions count; those for type checkers do not.
"""

import sys
from pathlib import Path

import grimp
from setuptools import setup
from setuptools.command.build_py import build_py

PROGRAM = ("linkdist.cli.serve_main", "linkdist.serve.app")
"""The second one is imported by uvicorn, which gets its name."""

SOURCE = "src"


def needed_modules():
    """The names of all modules that the program imports, and of the packages that contain them."""
    sys.path.insert(0, str(Path(__file__).parent / SOURCE))
    graph = grimp.build_graph("linkdist", exclude_type_checking_imports=True, cache_dir=None)
    found = set(PROGRAM).union(*map(graph.find_upstream_modules, PROGRAM))
    parents = {name.rsplit(".", k)[0] for name in found for k in range(1, name.count(".") + 1)}
    return found | parents


NEEDED = needed_modules()


class Build(build_py):
    """Builds only what is needed."""

    def find_package_modules(self, package, package_dir):
        """The needed modules of a package."""
        modules = super().find_package_modules(package, package_dir)
        return [found for found in modules if _name(*found[:2]) in NEEDED]


def _name(package, module):
    return package if module == "__init__" else f"{package}.{module}"


def is_package(name):
    """Whether a module is a folder."""
    return Path(SOURCE, *name.split(".")).is_dir()


setup(
    packages=sorted(filter(is_package, NEEDED)),
    package_dir={"": SOURCE},
    cmdclass={"build_py": Build},
)
