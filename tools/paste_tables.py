"""Paste the three result tables of results/paper/tables.md into README.md, between its marks."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- tables:begin -->\n", "<!-- tables:end -->\n"


def pasted(readme: str, tables: str) -> str:
    """README's text with the tables between its marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    three = tables.split("### Two forms")[0].rstrip()
    return f"{before}{BEGIN}\n{three}\n\n{END}{after}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(pasted(path.read_text(), (ROOT / "results/paper/tables.md").read_text()))
