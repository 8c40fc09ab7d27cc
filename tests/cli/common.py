"""Helpers for the tests of the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
RECORD = {
    **{"dataset": "digits", "setting": "inductive", "method": "MLP", "scores": [90.0]},
    **{"mean": 90.0, "std": 0.0, "seconds": 1.0, "device": "cpu"},
}


def words(text):
    return " ".join(ESCAPE.sub("", text).split())


def start(*args):
    return subprocess.run(
        [sys.executable, "-c", "from linkdist.cli.main import main; main()", *map(str, args)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(result, message):
    code, _, err = result
    assert code == 2
    assert re.search(message, err)
    assert err.startswith("linkdist: ")
    assert len(err.splitlines()) <= 2
    assert "Traceback" not in err
    assert "\x1b" not in err
