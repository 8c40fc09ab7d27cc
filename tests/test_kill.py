"""Real processes, ended by SIGKILL: what they replace is old or new, never broken.

Oracle: the bytes of what was there before and of what an undisturbed run leaves. The processes are
forked from one that has imported LinkDist and runs nothing of it (see benchmarks/kill.py): this one
has threads that would not survive a fork.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def kill(calls):
    """Evaluate an expression in a process that has only imported benchmarks/kill.py."""
    there = f"import sys; sys.path.append({str(BENCHMARKS)!r})"
    program = f"{there}; import json, kill; print(json.dumps({calls}))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def quick():
    """A few kills of each command, and of a training that is resumed."""
    return kill('{"rows": kill.rows(3), "resumed": kill.resumed([1, 7, 11], 12)}')


def check(row, times):
    assert row["times"] == times
    assert row["neither"] == 0
    assert row["old found"] + row["new found"] == times
    assert row["works afterwards"] == "yes"
    if row["same weights by --resume"] != "":
        assert row["same weights by --resume"] == times
    assert row["left then"] == 0, "a later run takes away what a killed one left"


@pytest.mark.parametrize("number", range(6))
def test_a_kill_leaves_the_old_or_the_new(quick, number):
    check(quick["rows"][number], 3)


def test_a_killed_training_resumed_ends_with_the_same_weights(quick):
    """The state is kept after every five visits of the nodes."""
    assert quick["resumed"] == {
        "codes": [-9, -9, -9, 0],
        # None is done twice but what was not kept.
        "epochs": [1, *range(1, 8), *range(6, 12), *range(11, 13)],
        "same": True,
        "beside": [],
    }


@pytest.mark.slow
def test_hundreds_of_kills_leave_nothing_broken():
    rows = kill("kill.rows(50, seed=1)")
    for row in rows:
        check(row, 50)
    assert sum(row["before its end"] for row in rows) >= 100, "most kills must come in time"
    assert sum(row["half-written file aside"] for row in rows) >= 10, "some amid writing"
