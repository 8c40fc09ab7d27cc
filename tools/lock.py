"""Write what contributors install, with the digests of all files: requirements-dev.txt.

The versions are those of constraints.txt. Run it after constraints.txt or the dependencies in
pyproject.toml have changed. The digests come from the index that pip uses and are for all systems
and versions of Python. PyTorch is left out: its builds for CPUs and GPUs have different digests.
Usage: python tools/lock.py
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pip._internal.models.index import PyPI

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-dev.txt"
TITLE = "# What contributors install, without PyTorch. Written by tools/lock.py."
WITHOUT = ("linkdist", "torch")


def resolve():
    """What pip would install for contributors: versions by name, and pip itself."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        asked = ["--dry-run", "--ignore-installed", "--report", report, "-c", "constraints.txt"]
        asked += ["pip", ".[serve]", "--group", "dev"]
        command = [sys.executable, "-m", "pip", "install", "-q", *asked]
        subprocess.run(command, cwd=ROOT, check=True)
        found = [one["metadata"] for one in json.loads(report.read_text())["install"]]
    versions = {canonicalize_name(about["name"]): about["version"] for about in found}
    return {name: versions[name] for name in sorted(versions) if name not in WITHOUT}


def markers():
    """The conditions of direct dependencies, such as a system."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    read = map(Requirement, direct)
    return {canonicalize_name(one.name): f" ; {one.marker}" for one in read if one.marker}


def digests(name, version):
    """The digests of all files of a version."""
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url)
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as page:
        links = re.findall(r"/([^/\"]+)#sha256=([0-9a-f]{64})", page.read().decode())
    file = re.compile(
        rf"{re.sub('-', '[-_.]+', name)}-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip)"
    )
    found = {digest for path, digest in links if file.fullmatch(path.lower())}
    assert found, f"{index} has no file of {name} {version}"
    return sorted(found)


def main():
    versions, conditions = resolve(), markers()
    with ThreadPoolExecutor(8) as threads:
        hashes = threads.map(digests, versions, versions.values())
    lines = [TITLE]
    for (name, version), some in zip(versions.items(), hashes, strict=True):
        pin = f"{name}=={version}{conditions.get(name, '')}"
        lines += [" \\\n    ".join([pin, *(f"--hash=sha256:{one}" for one in some)])]
    LOCK.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
