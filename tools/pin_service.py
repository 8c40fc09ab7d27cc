"""Write what the container installs, with the digest of every file: deploy/*requirements.txt.

The versions are those of constraints.txt. Run it after the dependencies of packages/linkdist-serve
or constraints.txt have changed. It downloads what it pins.
Usage: python tools/pin_service.py
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHON = "3.12"
"""The version of Python in deploy/Containerfile."""
MACHINES = ("x86_64", "aarch64")
SYSTEMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")


def resolve(requirements, machine):
    """What pip would install on a machine: distributions and the digests of their files."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        asked = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--target", folder]
        asked += ["--report", report, "--python-version", PYTHON, "--implementation", "cp"]
        asked += [part for one in SYSTEMS for part in ("--platform", f"{one}_{machine}")]
        asked += ["-c", ROOT / "constraints.txt", *requirements]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *asked], check=True)
        for one in json.loads(report.read_text())["install"]:
            about, digests = one["metadata"], one["download_info"]["archive_info"]["hashes"]
            yield (
                f"{about['name'].lower().replace('_', '-')}=={about['version']}",
                digests["sha256"],
            )


def pin(requirements, path, title):
    """Write a file of requirements for all machines."""
    digests = {}
    for machine in MACHINES:
        for name, digest in resolve(requirements, machine):
            digests.setdefault(name, {})[digest] = None
    lines = [f"# {title} Written by tools/pin_service.py."]
    for name in sorted(digests):
        lines += [" \\\n    ".join([name, *(f"--hash=sha256:{one}" for one in digests[name])])]
    path.write_text("\n".join(lines) + "\n")


def main():
    project = ROOT / "packages" / "linkdist-serve" / "pyproject.toml"
    content = tomllib.loads(project.read_text())
    needs, builds = content["project"]["dependencies"], content["build-system"]["requires"]
    deploy = ROOT / "deploy"
    machines = f"Python {PYTHON}, Linux on {' and '.join(MACHINES)}."
    pin(needs, deploy / "requirements.txt", f"What linkdist-serve depends on. {machines}")
    pin(builds, deploy / "build-requirements.txt", f"What builds linkdist-serve. {machines}")


if __name__ == "__main__":
    main()
