"""What is under deploy/ can be used: systemd takes the unit, both start commands that exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "deploy" / "linkdist.service"
HARDENED = 20
"""The exposure that systemd may find, in tenths; 100 is the worst."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd to ask"
)


def unit():
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser


def instructions():
    """The container file's instructions, in order."""
    text = (ROOT / "deploy" / "Containerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line]


def serve(arguments):
    """What the command line makes of the arguments of 'serve'."""
    from typer.main import get_command

    from linkdist.cli.serve_main import app

    return get_command(app).commands["serve"].make_context("serve", list(arguments)).params


def test_the_unit_serves_on_this_machine_alone():
    service = unit()["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("linkdist-serve", "serve")
    asked = serve(arguments)
    assert (asked["host"], str(asked["model"])) == ("127.0.0.1", "/var/lib/linkdist/model")
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


@needs_systemd
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path):
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/linkdist/bin/linkdist-serve", sys.executable))
    for question in (["verify"], ["security", "--offline=true", f"--threshold={HARDENED}"]):
        asked = subprocess.run(
            ["systemd-analyze", "--no-pager", *question, copy], capture_output=True, text=True
        )
        assert asked.returncode == 0, asked.stdout + asked.stderr
        assert UNIT.name not in asked.stderr, asked.stderr


def test_the_container_runs_as_nobody_and_says_how_it_is():
    names = [name for name, _ in instructions()]
    last = dict(instructions())
    assert names.count("FROM") == 2
    assert last["USER"].split(":")[0] not in ("root", "0")
    assert names.index("USER") > names.index("COPY")
    check = json.loads(last["HEALTHCHECK"].split("CMD", 1)[1])
    compile(check[-1], "healthcheck", "exec")
    assert "/readyz" in check[-1]
    program, command = json.loads(last["ENTRYPOINT"])
    assert (Path(program).name, command) == ("linkdist-serve", "serve")
    asked = serve(json.loads(last["CMD"]))
    assert (asked["host"], str(asked["model"]), asked["port"]) == ("0.0.0.0", "/models/model", 8000)
    assert asked["token_file"] is not None  # other machines can reach it


def test_what_the_container_copies_is_there():
    of_here = [rest.split()[:-1] for name, rest in instructions() if name == "COPY"]
    wanted = [path for paths in of_here if "--from" not in paths[0] for path in paths]
    assert [path for path in wanted if not (ROOT / path).exists()] == []
    assert {"src", "packages"} <= set(wanted)


def pinned(name):
    """Versions by name in a file of requirements, each of which has digests."""
    lines = (ROOT / "deploy" / name).read_text().replace("\\\n", " ").splitlines()
    parts = [line.split() for line in lines if not line.startswith("#")]
    assert all(digests for _, *digests in parts)
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", x) for _, *some in parts for x in some)
    return dict(pin.split("==") for pin, *_ in parts)


def names(requirements):
    return {re.match(r"[\w-]+", one)[0].lower() for one in requirements}


def test_the_container_installs_what_is_pinned_and_no_other_file():
    small = tomllib.loads((ROOT / "packages/linkdist-serve/pyproject.toml").read_text())
    constraints = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    found = pinned("requirements.txt")
    advice = "run: python tools/pin_service.py"
    assert names(small["project"]["dependencies"]) <= found.keys(), advice
    assert {f"{name}=={version}" for name, version in found.items()} <= set(constraints), advice
    assert not {"torch", "scikit-learn", "numba", "scipy"} & found.keys()
    assert names(small["build-system"]["requires"]) <= pinned("build-requirements.txt").keys(), (
        advice
    )
    installs = [rest for name, rest in instructions() if name == "RUN" and " install " in rest]
    assert len(installs) == 3
    # The last one installs the wheel that was built here.
    assert ["--require-hashes" in rest for rest in installs] == [True, True, False]
    assert "--no-deps" in installs[2]
