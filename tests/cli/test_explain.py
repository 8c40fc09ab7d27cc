"""`linkdist explain`."""

import json
import subprocess
import sys

import pyarrow.csv
import pyarrow.parquet
import pytest


def test_prints_the_strongest_parts(command, papers, papers_model):
    code, out, err = command("explain", papers_model, papers / "nodes.csv", "--id", "P0000")
    assert code == 0, err
    lines = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line] for line in lines]
    assert out.startswith("P0000: history, probability 0.")
    assert cells[0][:2] == ["base", "without any values"]
    assert {"title", "venue", "year"} == {cell[0] for cell in cells[1:]}
    numbers = [float(cell[2]) for cell in cells[1:]]
    assert [abs(x) for x in numbers] == sorted(map(abs, numbers), reverse=True)
    assert cells[1][3] in ("+" * 20, "-" * 20)
    assert all(bar[:1] in ("", "+" if float(x) > 0 else "-") for _, _, x, bar in cells)


def test_prints_three_rows_and_the_rest_of_many_parts(command, papers, papers_model):
    code, out, err = command(
        "explain", papers_model, papers / "nodes.csv", "--edges", papers / "links.csv",
        "--class", "physics",
    )  # fmt: skip
    assert code == 0, err
    titles = [line for line in out.splitlines() if ": physics, probability" in line]
    assert [line.split(":")[0] for line in titles] == ["P0000", "P0001", "P0002"]
    assert all(line.strip().endswith("with links") for line in titles)
    assert " more " in out


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_files_have_all_parts(command, papers, papers_model, tmp_path, suffix):
    out = tmp_path / f"why{suffix}"
    code, printed, _ = command(
        "explain", papers_model, papers / "nodes.csv", "--rows", 20, "--out", out
    )
    assert (code, printed) == (0, f"20 rows explained: {out}\n")
    if suffix == ".json":
        rows = json.loads(out.read_text())
        assert len(rows) == 20
        for row in rows:
            total = row["base"] + sum(part["contribution"] for part in row["parts"])
            assert total == pytest.approx(row["score"], abs=1e-9)
        return
    read = pyarrow.csv.read_csv if suffix == ".csv" else pyarrow.parquet.read_table
    table = read(out)
    assert len(table.group_by("id").aggregate([("contribution", "sum")])) == 20
    assert set(table["kind"].to_pylist()) == {"base", "column", "word", "together"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--id", "P9"], "there is no row with the id 'P9' in column 'paper'."),
        (["--class", "art"], "unknown class 'art'"),
        (["--out", "why.txt"], "the suffix must be one of"),
    ],
)
def test_mistakes_have_exit_code_2(command, papers, papers_model, options, message):
    code, _, err = command("explain", papers_model, papers / "nodes.csv", *options)
    assert code == 2
    assert message in err


def test_needs_neither_pytorch_nor_scipy(command, papers, papers_model):
    asked = ["explain", str(papers_model), str(papers / "nodes.csv")]
    code = (
        "import sys; sys.modules['scipy'] = None\n"  # importing it raises a ModuleNotFoundError
        "from linkdist.cli.serve_main import app\n"
        f"app({asked!r}, standalone_mode=False)\n"
        "print([name for name in ('torch', 'sklearn', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    _, printed, _ = command(*asked)
    assert done.stdout == f"{printed}[]\n"
