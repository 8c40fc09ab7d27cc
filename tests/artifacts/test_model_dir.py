"""Oracles: the tensors that were saved; the files themselves; what a message must name."""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.artifacts.model_dir import Saved, check_target, load_model, save_model
from linkdist.errors import ModelError, OptionError
from linkdist.model import Model, from_features, with_links
from linkdist.nn.network import ForkedMLP
from linkdist.tables.feature_encoder import make_feature_encoder

BATCH = pa.record_batch(
    {"age": [30.0, None, 50.0], "place": [[0.0, 1.0], [2.0, 2.0], None], "town": ["a", "b", "a"]}
)


def some_model(d=5, C=3, R=2, seed=0):
    network = ForkedMLP(d, C, range(seed, seed + R), hidden=8)
    random = torch.manual_seed(seed)
    with torch.no_grad():
        for part in network.state_dict().values():
            part.add_(torch.rand(part.shape, generator=random))
    return Model(network, torch.rand(R, generator=random), tuple("abcdefgh"[:C]))


def some_encoders():
    encoders = make_feature_encoder({"age": "numeric", "place": "vector", "town": "categorical"})
    encoders.partial_fit(BATCH)
    return encoders


@pytest.fixture
def saved():
    about = {
        "id": "node",
        "label": "field",
        "curve": [[0.5, 0.75]],
        "scores": {"features": float("nan")},
    }
    replay = {"links": torch.tensor([[0, 1]]), "features": torch.rand(2, 5)}
    return Saved(some_model(), some_encoders(), about, replay)


@pytest.fixture
def directory(tmp_path, saved):
    save_model(tmp_path / "model", saved)
    return tmp_path / "model"


def change_header(directory, **changes):
    path = directory / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(directory, change):
    """Another weight file, of the right digest."""
    path = directory / "weights.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    digests = json.loads((directory / "model.json").read_text())["digests"]
    digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    change_header(directory, digests=digests)


def test_what_was_saved_is_loaded(saved, directory):
    loaded = load_model(directory)
    expected = saved.model.network.state_dict()
    found = loaded.model.network.state_dict()
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    assert torch.equal(loaded.model.alpha, saved.model.alpha)
    assert loaded.model.classes == ("a", "b", "c")
    assert loaded.about == {**saved.about, "scores": {"features": None}}
    assert {name: tensor.tolist() for name, tensor in loaded.replay.items()} == {
        name: tensor.tolist() for name, tensor in saved.replay.items()
    }
    x = saved.encoders.transform(BATCH)
    assert np.array_equal(loaded.encoders.transform(BATCH).toarray(), x.toarray())
    links = np.array([[0, 2]])
    assert np.array_equal(from_features(loaded.model, x), from_features(saved.model, x))
    assert np.array_equal(with_links(loaded.model, x, links), with_links(saved.model, x, links))


def test_a_loaded_model_can_be_trained_on(directory):
    network = load_model(directory).model.network
    assert all(part.requires_grad for part in network.parameters())
    assert network.hidden == 8


def test_the_files_are_plain(directory):
    assert sorted(path.name for path in directory.iterdir()) == [
        *("README.md", "curve.svg", "model.json", "replay.safetensors", "weights.safetensors")
    ]
    header = json.loads((directory / "model.json").read_text(), parse_constant=pytest.fail)
    assert header["format"] == 4
    assert header["shape"] == {"replicas": 2, "features": 5, "hidden": 8, "classes": 3}
    for name in ("weights.safetensors", "replay.safetensors"):
        digest = hashlib.sha256((directory / name).read_bytes()).hexdigest()
        assert header["digests"][name] == digest


def test_the_readme_tells_how_to_predict(directory, saved, monkeypatch):
    text = (directory / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(directory.parent)
    pq.write_table(pa.Table.from_batches([BATCH]), "nodes.parquet")
    names = {}
    exec(code, names)
    p = from_features(saved.model, saved.encoders.transform(BATCH))
    assert names["labels"].tolist() == [saved.model.classes[best] for best in p.argmax(axis=1)]


def test_a_model_of_features_alone(tmp_path):
    save_model(tmp_path / "model", Saved(some_model(R=1)))
    loaded = load_model(tmp_path / "model")
    assert loaded.encoders is None
    assert loaded.replay is None
    assert loaded.about == {}
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        *("README.md", "model.json", "weights.safetensors")
    ]


def test_a_model_is_replaced_whole(directory):
    other = some_model(d=2, C=4, R=1, seed=9)
    save_model(str(directory) + "/", Saved(other))
    assert load_model(directory).model.classes == ("a", "b", "c", "d")
    assert not (directory / "replay.safetensors").exists()
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


def test_a_link_to_a_model_stays_a_link(directory, tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(directory, target_is_directory=True)
    save_model(link, Saved(some_model(C=4)))
    assert link.is_symlink()
    assert (
        load_model(link).model.classes
        == load_model(directory).model.classes
        == ("a", "b", "c", "d")
    )


def test_the_directory_one_is_in_can_be_replaced(directory, monkeypatch):
    monkeypatch.chdir(directory)
    save_model(".", Saved(some_model(C=4)))
    assert len(load_model(directory).model.classes) == 4


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["notes.txt"], "holds notes.txt; only an empty directory or a model is replaced"),
        (["model.json", "notes.txt"], "holds notes.txt"),
        (["README.md"], "has files but no model.json"),
        ([f"{i}" for i in range(9)], "holds 0, 1, 2, 3, 4, and 4 more"),
    ],
)
def test_what_is_no_model_is_not_replaced(tmp_path, there, found):
    target = tmp_path / "model"
    target.mkdir()
    for name in there:
        (target / name).write_text("precious")
    with pytest.raises(OptionError, match=f"{found}.*Name another directory"):
        save_model(target, Saved(some_model()))
    assert sorted(path.name for path in target.iterdir()) == there
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_file_is_not_replaced_and_an_empty_directory_is(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="file is a file; a model is a directory"):
        check_target(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    save_model(tmp_path / "empty", Saved(some_model()))
    load_model(tmp_path / "empty")
    check_target(tmp_path / "empty")


def test_what_is_no_model_is_not_loaded(tmp_path):
    with pytest.raises(ModelError, match=r"there is no directory .*at all\. Name one"):
        load_model(tmp_path / "nowhere" / "at all")
    with pytest.raises(
        ModelError, match=r"has no model\.json, so it is not a model directory. Name one"
    ):
        load_model(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="there is no directory"):
        load_model(tmp_path / "file")


def test_a_newer_format_names_its_program_and_the_way(directory):
    change_header(directory, format=5, program="9.1.0")
    with pytest.raises(
        ModelError, match=r"format 5, written by linkdist 9\.1\.0.*reads formats 3 and 4"
    ) as e:
        load_model(directory)
    assert "pip install --upgrade linkdist" in str(e.value)


@pytest.mark.parametrize("name", ["weights.safetensors", "replay.safetensors"])
def test_every_changed_byte_is_found(directory, name):
    path = directory / name
    whole = path.read_bytes()
    for place in (0, 9, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ModelError, match=rf"{name} is not the file that was saved.*Copy"):
            load_model(directory)
    path.write_bytes(whole[:-1])
    with pytest.raises(ModelError, match="is not the file that was saved"):
        load_model(directory)
    path.unlink()
    with pytest.raises(ModelError, match=f"{name} is missing.*Copy the directory again"):
        load_model(directory)


def test_both_files_problems_are_told_at_once(directory):
    (directory / "weights.safetensors").write_bytes(b"")
    (directory / "replay.safetensors").unlink()
    with pytest.raises(ModelError, match=r"replay\S+ is missing; weights\S+ is not the file"):
        load_model(directory)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda t: t.pop("own.linear.bias"),
            r"own\.linear\.bias is missing, not float32",
        ),
        (lambda t: t.update(spy=torch.ones(1)), r"spy is float32 \(1,\), not known"),
        (
            lambda t: t.update({"first.weight": torch.ones(2, 6, 8)}),
            r"first\.weight is float32 \(2, 6, 8\), not float32 \(2, 5, 8\)",
        ),
        (
            lambda t: t.update({"first.weight": torch.ones(2, 5, 8).double()}),
            r"first\.weight is float64 \(2, 5, 8\), not float32",
        ),
        (lambda t: t.clear(), "and 19 more"),
    ],
)
def test_weights_of_another_network_are_refused(directory, change, words):
    change_tensors(directory, change)
    with pytest.raises(ModelError, match=f"is not of this network: .*{words}"):
        load_model(directory)


def test_a_file_of_another_kind_is_refused(directory):
    content = b"no tensors at all"
    (directory / "weights.safetensors").write_bytes(content)
    digests = {"weights.safetensors": hashlib.sha256(content).hexdigest()}
    change_header(directory, digests=digests)
    with pytest.raises(ModelError, match="is no safetensors file"):
        load_model(directory)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": [1.0]}, r"alpha has shape \(1,\), not \(2, 1\)"),
        ({"alpha": [[1.0], [float("nan")]]}, "alpha is"),
        ({"own": [1.0]}, r"own has shape \(1,\), not \(2,\)"),
        ({"task": "ranking"}, "the task is 'ranking', not one of classification"),
        ({"task": "regression"}, "a regression predicts 3 numbers, not 1"),
        ({"relations": []}, r"alpha has shape \(2, 1\), not \(2, 0\).*the relations are"),
        ({"relations": ["a", "a"]}, "the relations are a, a"),
        ({"relations": 7}, r"model\.json was changed or cut off"),
        ({"directed": True}, r"alpha has shape \(2, 1\), not \(2, 2\)"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"dropout": 10**400}, r"model\.json was changed or cut off"),
        ({"dropout": "half"}, r"model\.json was changed or cut off"),
        ({"alpha": "much"}, r"model\.json was changed or cut off"),
        ({"classes": ["a"]}, "1 names for 3 classes"),
        ({"classes": None}, r"model\.json was changed or cut off"),
        ({"shape": {"replicas": 2}}, r"model\.json was changed or cut off"),
        ({"columns": [{"kind": "numeric"}]}, r"model\.json was changed or cut off.*columns"),
        ({"columns": []}, "the columns make 0 features, not 5"),
        ({"digests": {}}, "weights.safetensors is not the file that was saved"),
        ({"format": "1"}, "format '1'"),
        (
            {"shape": {"replicas": 2, "features": -1, "hidden": 1.5, "classes": 3}},
            "features is -1, not a number of 1 or more; hidden is 1.5",
        ),
        (
            {"shape": {"replicas": 2, "features": 2**30, "hidden": 2**30, "classes": 3}},
            "the columns make 5 features",
        ),
        (
            {
                "shape": {"replicas": 2, "features": 2**20, "hidden": 2**20, "classes": 3},
                "columns": None,
            },
            "is not of this network",
        ),
        (
            {
                "shape": {"replicas": 2, "features": 2**31 - 1, "hidden": 2**31 - 1, "classes": 3},
                "columns": None,
            },
            "is too large",
        ),
    ],
)
def test_a_changed_header_is_refused(directory, changes, words):
    change_header(directory, **changes)
    with pytest.raises(ModelError, match=words):
        load_model(directory)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"format"', "[" * 100000, "\udcff"])
def test_what_is_no_header_is_refused(directory, text):
    (directory / "model.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelError, match="is not a valid model header, or it is truncated"):
        load_model(directory)


KEYS = (
    *("format", "program", "shape", "classes", "alpha", "own", "dropout", "columns", "about"),
    *("digests", "task", "relations", "directed"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kept") / "model"
    save_model(directory, Saved(some_model(), some_encoders()))
    return directory, (directory / "model.json").read_text()


@settings(max_examples=200, deadline=None)
@given(key=st.sampled_from(KEYS), value=JSON)
def test_no_header_ends_in_a_traceback(kept, key, value):
    directory, text = kept
    (directory / "model.json").write_text(json.dumps({**json.loads(text), key: value}))
    with suppress(ModelError):
        load_model(directory)


WRITER = """
import os, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from linkdist import _files
from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP

if sys.argv[2] == "two renames":
    rename = Path.rename
    _files._exchange = lambda one, other: False
    # The step between them takes as long as all others, so that kills hit it.
    Path.rename = lambda path, target: (rename(path, target), time.sleep(0.01))
models = [
    Saved(Model(ForkedMLP(50, C, [0], hidden=64), torch.ones(1), tuple("abc"[:C])))
    for C in (2, 3)
]
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        while True:
            for saved in models:
                save_model(sys.argv[1], saved)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""
"""For each line it reads, a child that saves two models by turns until it is killed."""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_a_kill_at_any_time_leaves_one_of_two_models(tmp_path, way):
    target = tmp_path / "model"
    models = (("a", "b"), ("a", "b", "c"))
    save_model(target, Saved(some_model(C=2)))
    chance = random.Random(0)
    asked = [sys.executable, "-c", WRITER, str(target), way]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(asked, **pipes, start_new_session=True) as writer:
        try:
            for _ in range(15):
                writer.stdin.write("go\n")
                child = int(writer.stdout.readline())
                assert load_model(target).model.classes in models
                until = time.perf_counter() + chance.uniform(0, 0.1)
                while time.perf_counter() < until:
                    pass
                os.kill(child, signal.SIGKILL)
                assert writer.stdout.readline() == "dead\n"
                assert load_model(target).model.classes in models
        finally:
            os.killpg(writer.pid, signal.SIGKILL)
    save_model(target, Saved(some_model()))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
