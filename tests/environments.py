"""Virtual environments with distributions that were built from this checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SMALL = ROOT / "packages" / "linkdist-serve"


def pip(*asked):
    """Run pip with the versions of constraints.txt; it must succeed."""
    pinned = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    pinned.pop("PYTHONPATH", None)  # what is found there counts as installed
    command = [sys.executable, "-m", "pip", *map(str, asked)]
    done = subprocess.run(command, env=pinned, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def copy_source(folder):
    """Copy what distributions are built from, because building leaves files behind."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    shutil.copytree(SMALL, folder / "packages" / SMALL.name, symlinks=True)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)


def new_environment(folder, requirement):
    """Create a virtual environment with a requirement and what it depends on."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip("--python", folder / "bin" / "python", "install", requirement)
    return folder
