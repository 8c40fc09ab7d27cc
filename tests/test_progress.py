import subprocess
import sys

import pytest

from linkdist.progress import Callback, TimeLeft, format_duration


def test_a_plain_callback_accepts_every_event_silently(capsys):
    callback = Callback()
    callback.start(3, 1)
    callback.stage("training")
    callback.progress(1, 0)
    callback.columns({})
    callback.links("2 links")
    callback.finished([])
    callback.skipped("cora", "no file")
    callback.note("text")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(0, 10)], None),  # nothing was measured yet
        ([(0, 10), (0, 10)], None),
        ([(0, 0), (5, 0)], None),  # the total is unknown
        ([(0, 10), (2, 10)], 4.0),
        ([(0, 10), (10, 10)], 0.0),
        ([(0, 10), (12, 10)], 0.0),
        ([(90, 100), (95, 100)], 1.0),  # an earlier run did the first 90
    ],
)
def test_the_time_left_follows_from_the_steps_of_this_run(steps, expected):
    times = iter(range(len(steps)))
    left = TimeLeft(clock=lambda: float(next(times)))
    assert [left.seconds(*step) for step in steps][-1] == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"), (3600 * 30, "30 h 0 min")],
)
def test_durations_are_short_texts(seconds, text):
    assert format_duration(seconds) == text


def test_the_module_imports_no_heavy_library():
    heavy = "{'torch', 'numpy', 'pyarrow', 'sklearn', 'scipy', 'rich'}"
    code = f"import linkdist.progress, sys; print({heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
