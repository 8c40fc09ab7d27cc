"""The page without a service, opened from disk in a browser that has no network."""

import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import OptionError
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.prediction import predict
from linkdist.static_page import page as static_page
from linkdist.static_page import runtime
from linkdist.tables.csv_text import escape_formulas
from linkdist.tables.feature_encoder import make_feature_encoder
from linkdist.tables.parsing import as_numbers, as_seconds
from tests.browser import chromium
from tests.cli.common import refused, start
from tests.serve.models import bare

NUMBERS = [
    "1", "-2.5", "+3", ".5", "1e3", "1_000", "true", "False", "$1,200.50", "1.200,50 €", "7 %",
    "EUR 12", "1 234.5", "12'345", "many", "1,2,3", "--1", "-$5", "$-5", "-$-5", "1.2.3", "0x10",
]  # fmt: skip
DATES = [
    "2004-05-31", "2004-02-30", "2004-05-31 12:30", "2004-05-31T12:30:15.5+02:00", "2004",
    "31.05.2004", "31/05/2004", "05/31/2004", "2004/05/31", "31.05.2004 23:10", "31 May 2004",
    "May 31, 2004", "31 February 2004", "30 February 2004", "1 January 0999", "29.2.1900", "5.6.04",
]  # fmt: skip
FORMATS = ["ISO", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d %B %Y", "%b %d, %Y",
           "%d.%m.%Y %H:%M"]  # fmt: skip

IDS = ["=1+2", "-5", "\t@x", "P1"]


def test_a_page_needs_columns_and_the_runtime(tmp_path, papers_model, monkeypatch):
    bare(tmp_path / "bare")
    with pytest.raises(OptionError, match=r"columns are inputs: the model knows no columns"):
        static_page.write_page(tmp_path / "bare", tmp_path / "page")
    with pytest.raises(OptionError, match=r"ort\.wasm\.min\.js cannot be read: No such file"):
        static_page.write_page(papers_model, tmp_path / "page", tmp_path)
    for name in runtime.FILES:
        (tmp_path / name).write_bytes(b"another")
    with pytest.raises(OptionError, match=r"not a file of onnxruntime-web [\d.]+: ort\.wasm"):
        runtime.find_runtime(tmp_path)
    monkeypatch.setattr(runtime, "_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)
    with pytest.raises(OptionError, match=r"npm is not installed\. Install Node\.js, or unpack"):
        runtime.find_runtime()
    assert not (tmp_path / "page").exists()


def test_an_export_needs_a_file_or_a_page(papers_model):
    done = start("export", papers_model)
    message = "name the ONNX file to write, a folder with --page, or both"
    refused((done.returncode, done.stdout, done.stderr), message)


def test_modules_are_joined_after_those_that_they_import():
    sources = {
        "page.js": 'import { twice } from "./sum.js";\nexport const four = twice(2);\n',
        "sum.js": "export function twice(x) { return 2 * x; }\n",
    }
    joined = static_page._join(sources, "page.js")
    assert joined.index('modules["sum.js"] =') < joined.index('modules["page.js"] =')
    assert not re.search(r"^(import|export)\b", joined, re.M)
    pages = static_page._join(static_page._sources(), "page.js")
    assert not re.search(r"^(import|export)\b", pages, re.M)
    assert "fetch(" not in pages
    assert "XMLHttpRequest" not in pages


@pytest.fixture(scope="module")
def opened(papers_model, tmp_path_factory):
    """Open the page of a model; its requests and errors are collected."""
    folder = tmp_path_factory.mktemp("static")
    with chromium() as browser:
        context = browser.new_context(offline=True)

        def open_page(model):
            target = folder / model.name
            static_page.write_page(model, target)
            page, wrong = context.new_page(), []
            page.set_default_timeout(60_000)
            page.on("console", lambda m: wrong.append(m.text) if m.type != "log" else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("request", lambda r: outside(r.url) and wrong.append(r.url))
            page.goto((target / "index.html").as_uri())
            page.wait_for_selector("#app:not([hidden]), #failed:not([hidden])")
            assert not page.is_visible("#failed"), page.inner_text("#failed")
            return page, wrong

        yield open_page


def outside(url):
    return not url.startswith(("file:", "blob:", "data:"))


def downloaded(page, table):
    page.set_input_files("#file", table)
    page.wait_for_selector("#done:not([hidden]), #file-error:not([hidden])")
    assert not page.is_visible("#file-error"), page.inner_text("#file-error")
    with page.expect_download() as download:
        page.click("#download")
    return pyarrow.csv.read_csv(download.value.path())


def check_same(found, expected):
    assert found.column_names == expected.column_names
    for name in found.column_names:
        if name.startswith("p_") or name in ("confidence", "predicted", "low", "high"):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-4, rtol=1e-4)
        else:
            assert found[name].to_pylist() == expected[name].to_pylist()


@pytest.mark.install
def test_the_page_predicts_as_the_command_does(opened, papers, papers_model, tmp_path):
    page, wrong = opened(papers_model)
    assert "No row leaves this machine" in page.inner_text("header")
    assert not page.is_visible("#neighbours-box")
    assert not page.is_visible("#links-drop")
    table = papers / "new_nodes.csv"
    predict(papers_model, table, tmp_path / "expected.csv")
    found = downloaded(page, table)
    check_same(found, pyarrow.csv.read_csv(tmp_path / "expected.csv"))
    first = pyarrow.csv.read_csv(table).slice(0, 1).to_pylist()[0]
    page.get_by_label("title").fill(first["title"])
    page.get_by_label("year").fill(str(first["year"]))
    page.get_by_label("venue").select_option(first["venue"])
    page.click("#classify")
    page.wait_for_selector("#result[data-state=shown]")
    assert page.inner_text("#verdict").startswith(found["label"][0].as_py())
    assert not page.is_visible("#why"), "only a service explains predictions"
    assert wrong == []


@pytest.mark.install
def test_the_page_reads_every_kind_of_column(opened, tmp_path):
    rows = {
        "day": ["31.05.2004", "01.06.2004", None, "15.07.2010"],
        "price": ["1.200,50 €", "3,5", "n/a", "-7"],
        "genre": ["drama|war", "", "war", "unseen|war"],
        "town": ["Köln", "Ulm", "", "Nowhere"],
        "words": ["Äpfel and Birnen", "birnen, BIRNEN!", "", "other things"],
    }
    kinds = {"day": "date", "price": "numeric", "genre": "tags", "town": "categorical",
             "words": "text"}  # fmt: skip
    batch = pa.table(rows)
    encoders = make_feature_encoder(kinds, batch)
    encoders.partial_fit(batch.to_batches()[0])
    network = Model(ForkedMLP(encoders.d, 3, [0]), torch.ones(1), ("=a", "+b", "@c"))
    model = tmp_path / "kinds"
    save_model(model, with_onnx(Saved(network, encoders, {"id": "node", "label": "kind"})))
    table = tmp_path / "table.csv"
    pyarrow.csv.write_csv(batch.append_column("node", pa.array(IDS)), table)
    predict(model, table, tmp_path / "expected.csv")
    page, wrong = opened(model)
    found = downloaded(page, table)
    check_same(found, pyarrow.csv.read_csv(tmp_path / "expected.csv"))
    assert found["node"].to_pylist() == ["'=1+2", "-5", "'\t@x", "P1"]
    said = page.locator("#table-notices li").all_inner_texts()
    rule = "look like formulas of a spreadsheet and have a leading apostrophe in the CSV file."
    assert said[-2:] == [f"Column node: 2 values {rule}", f"Column label: 4 values {rule}"]
    labels = page.locator("#counts li > :first-child").all_inner_texts()
    assert sorted(labels) == ["+b", "=a", "@c"]
    assert wrong == []


@pytest.mark.install
def test_the_page_escapes_formulas_as_tables_do(opened, papers_model):
    page, _ = opened(papers_model)
    texts = [
        *IDS,
        *NUMBERS,
        *DATES,
        "-",
        "-1.200,50",
        "\r=1",
        "\n",
        "",
        "'=1",
        "-5\n",
        "+1e5",
        "-.5",
    ]
    expected, _ = escape_formulas(pa.record_batch({"id": texts}))
    code = "texts => texts.map(modules['formulas.js'].escapeFormula)"
    assert page.evaluate(code, texts) == expected["id"].to_pylist()


@pytest.mark.install
def test_the_page_parses_numbers_and_dates_as_tables_do(opened, papers_model):
    page, _ = opened(papers_model)

    def parsed(function, texts, way):
        code = f"([texts, way]) => texts.map((t) => modules['values.js'].{function}(t, way))"
        return [math.nan if x is None else x for x in page.evaluate(code, [texts, way])]

    for decimal in (".", ","):
        expected = as_numbers(pa.array(NUMBERS), decimal)[0]
        np.testing.assert_array_equal(parsed("parseNumber", NUMBERS, decimal), expected)
    for form in FORMATS:
        seconds, wrong = as_seconds(pa.array(DATES), form)
        iso = as_seconds(pa.array(DATES))[0]
        expected = np.where(wrong, iso, seconds)
        np.testing.assert_array_equal(parsed("parseDate", DATES, form), expected, err_msg=form)
