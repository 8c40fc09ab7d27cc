"""Build a store with DuckDB, and compare with `linkdist.store.build`: time, memory, bytes, lines.

`build` below replaces `linkdist.store.partition` and `linkdist.store.resolve_links` by SQL on a
DuckDB file in the working folder: nodes and links are inserted batch by batch, rows are numbered by
a window function, and ids are resolved by a join. The oracle tests run on it by
`PYTHONPATH=src:benchmarks pytest -p duckdb_store tests/store/test_build.py`; the test of two ids
with the same hash fails, for DuckDB joins the ids themselves.
Usage: pip install duckdb; python benchmarks/duckdb_store.py FOLDER [--nodes N] [--links M]
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from linkdist.progress import Callback
from linkdist.store import build as ours
from linkdist.store.format import (
    HEADER,
    bucket_file,
    buckets,
    expected_files,
    feature_files,
    part_file,
)
from linkdist.store.journal import WORK, open_journal
from linkdist.store.keys import hash64, part_of
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.store.reader import Store
from linkdist.tables.io import open_table
from linkdist.tables.links import LinkReport, check_links, link_batches
from linkdist.tables.node_table import add_duplicates
from linkdist.tables.source import Tables
from linkdist.tables.validation import SHOWN, Problems

# --- the prototype: what partition.py and resolve_links.py would become ---


def build(tables, out, *, parts=None, memory=None, dtype="float16", overwrite=False, callback=None):
    """As `linkdist.store.build.build`."""
    ours.check_names("type of features", [dtype], ours.DENSE)
    memory = parse_memory(MEMORY) if memory is None else memory
    if parts is not None:
        ours.check_parts(parts, links=1 << 62)
    planned = {"parts": parts, "memory": memory if parts is None else None, "dtype": dtype}
    request, files = ours._describe(tables) | planned, ours.open_links(tables)
    if files[0].name or files[0].others or tables.directed:
        raise ours.OptionError("the prototype takes plain links only.")
    budget = max(ours.MIN_BUFFER, min(ours.MAX_BUFFER, memory // 16))
    with open_journal(out, request, overwrite) as journal:
        work = ours._Build(tables, files, journal, callback or Callback(), budget)
        survey, layout = work.plan(parts, memory, dtype)
        work.callback.columns(survey.guesses)
        fields = journal.state.get("finishing")
        if fields is None:
            with duckdb.connect(journal.folder / WORK / "graph.duckdb") as db:
                db.execute(f"SET memory_limit = '{max(memory // 2, 100_000_000) // 1000}KB'")
                db.execute("SET preserve_insertion_order = false")
                fields = _write(db, work, survey, layout)
        names = expected_files(layout.P, layout.kind, synthetic=False)
        journal.finish(names, fields, work.callback)
    return Store.open(out)


def _write(db, work, survey, layout):
    tables, journal, stage = work.tables, work.journal, work.callback.stage
    stage("writing nodes")
    _insert_nodes(db, work, survey, layout)
    stage("sorting ids")
    _check_ids(db, tables)
    _once(
        db,
        "rows",
        "SELECT id, part, (part::UBIGINT << 32)"
        " + (row_number() OVER (PARTITION BY part ORDER BY origin) - 1) AS place FROM nodes",
    )
    for part in range(layout.P):
        if not journal.has(part_file(part, "ids.arrow")):
            _write_part(db, journal, part, layout)
    sizes = [_one(db, f"SELECT count(*) FROM rows WHERE part = {p}") for p in range(layout.P)]
    stage("reading links")
    _insert_links(db, work)
    stage("resolving links")
    report, isolated = _resolve(db, work)
    counts = []
    for a, b in buckets(layout.P):
        pairs = db.execute(f"SELECT i, j FROM links WHERE a = {a} AND b = {b} ORDER BY i, j")
        links = np.stack(list(pairs.fetchnumpy().values()), axis=1).astype(np.uint32)
        journal.save(bucket_file(a, b), links)
        counts.append(len(links))
    work.callback.links(report)
    return {
        "kind": layout.kind, "d": layout.d, "task": "classification", "classes": survey.classes,
        "sizes": sizes, "hashed": layout.P, "label_format": {}, "directed": False,
        "weighted": False, "labelled": ours.count_known(journal.folder, layout.P, survey.classes),
        "counts": counts, "loops": report.loops + isolated, "synthetic": False,
        "columns": {
            "id": tables.id, "label": tables.label, "encoders": survey.encoders.state(),
        },
        "source": {
            "nodes": Path(tables.nodes).name, "edges": Path(tables.edges).name,
            "links": str(report), "isolated": isolated,
        },
    }  # fmt: skip


def _one(db, query):
    return db.execute(query).fetchall()[0][0]


def _once(db, name, query):
    """Make a table unless a killed build has made it."""
    db.execute(f"CREATE TABLE IF NOT EXISTS {name} AS {query}")


def _blobs(array, lengths):
    """Rows of an array as Arrow binary values."""
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * array.dtype.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(array))]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _insert_nodes(db, work, survey, layout):
    db.execute(
        "CREATE TABLE IF NOT EXISTS nodes"
        "(key UBIGINT, part USMALLINT, origin BIGINT, id VARCHAR, y INTEGER, x BLOB, indices BLOB)"
    )
    row = _one(db, "SELECT count(*) FROM nodes")
    for ids, y, x in work._batches(survey, layout, row):
        n, keys = len(ids), hash64(ids)
        if layout.kind == "csr":
            lengths = np.diff(x.indptr)
            blobs = [_blobs(x.data, lengths), _blobs(x.indices.astype(np.int32), lengths)]
        else:
            blobs = [_blobs(x, np.full(n, layout.d)), pa.nulls(n, pa.large_binary())]
        origin = np.arange(row + 1, row + n + 1)
        columns = [keys, part_of(keys, layout.P), origin, ids, y.astype(np.int32), *blobs]
        names = ["key", "part", "origin", "id", "y", "x", "indices"]
        batch = pa.table([*map(pa.array, columns)], names)  # noqa: F841
        db.execute("INSERT INTO nodes SELECT * FROM batch")
        row += n
        work.callback.progress(row, survey.rows)
    if row != survey.rows:
        raise ours.TableError(f"{work.tables.nodes} changed while it was read. Start again.")


def _check_ids(db, tables):
    again = "SELECT min(origin) OVER (PARTITION BY id) AS first, origin, id FROM nodes"
    where = f"FROM ({again}) WHERE origin > first"
    found = _one(db, f"SELECT count(*) {where}")
    if found:
        query = f"SELECT origin, id, first {where} ORDER BY origin LIMIT {SHOWN}"
        problems = Problems()
        add_duplicates(problems, tables.id, db.execute(query).fetchall(), found)
        problems.check(str(tables.nodes))


def _write_part(db, journal, part, layout):
    """Write features, labels and ids; the ids last, for they say that a part is complete."""
    n = _one(db, f"SELECT count(*) FROM nodes WHERE part = {part}")
    query = f"SELECT id, y, x, indices FROM nodes WHERE part = {part} ORDER BY origin"
    names = [*feature_files(part, layout.kind), part_file(part, "labels.npy")]
    files = [(journal.folder / name).open("wb") for name in names]
    for file in files:
        file.write(bytes(HEADER))
    ids, lengths = [], [np.zeros(1, np.int64)]
    for batch in db.sql(query).to_arrow_reader(1 << 14):
        ids.append(batch.column("id").cast(pa.large_string()))
        files[-1].write(batch.column("y").to_numpy().tobytes())
        for name, file in zip(
            ("x", "indices") if layout.kind == "csr" else ("x",), files, strict=False
        ):
            file.write(b"".join(batch.column(name).to_pylist()))
        sizes = pa.compute.binary_length(batch.column("x")).to_numpy()
        lengths.append(sizes.astype(np.int64) // 4)
    for file in files:
        file.close()
    journal.write_header(names[-1], (n,), np.int32)
    if layout.kind == "csr":
        indptr = np.cumsum(np.concatenate(lengths))
        journal.write_header(names[0], (int(indptr[-1]),), np.float32)
        journal.write_header(names[1], (int(indptr[-1]),), np.int32)
        journal.save(names[2], indptr)
    else:
        journal.write_header(names[0], (n, layout.d), layout.kind)
    column = pa.chunked_array(ids, pa.large_string()).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    batch = pa.record_batch([column], ["id"])
    with (
        journal.replace(part_file(part, "ids.arrow")) as file,
        pa.ipc.new_file(file, batch.schema) as writer,
    ):
        writer.write_batch(batch)


def _insert_links(db, work):
    db.execute("CREATE TABLE IF NOT EXISTS raw(row BIGINT, s VARCHAR, t VARCHAR)")
    done = _one(db, "SELECT count(*) FROM raw")
    for row, *ends in link_batches(open_table(work.tables.edges), work.files[0].ends, 1 << 17):
        if row > done:
            batch = pa.table([np.arange(row, row + len(ends[0])), *ends], ["row", "s", "t"])  # noqa: F841
            db.execute("INSERT INTO raw SELECT * FROM batch")
            work.callback.progress(row, work.links.total)


def _resolve(db, work):
    """Join the ids with rows, merge duplicates, add self-loops; links are (part << 32) + row."""
    tables, ends = work.tables, work.files[0].ends
    _once(
        db,
        "joined",
        "SELECT raw.row, least(s.place, t.place) AS lo, greatest(s.place, t.place) AS hi"
        " FROM raw JOIN rows s ON raw.s = s.id JOIN rows t ON raw.t = t.id",
    )
    _once(db, "distinct_links", "SELECT lo, hi, min(row) AS row FROM joined GROUP BY lo, hi")
    _once(
        db,
        "isolated",
        "SELECT place FROM rows ANTI JOIN (SELECT lo AS place FROM distinct_links"
        " UNION SELECT hi FROM distinct_links) USING (place)",
    )
    _once(
        db,
        "links",
        "SELECT lo >> 32 AS a, hi >> 32 AS b, lo & 4294967295 AS i, hi & 4294967295 AS j FROM"
        " (SELECT lo, hi FROM distinct_links UNION ALL SELECT place, place FROM isolated)"
        " ORDER BY a, b, i, j",
    )
    total, joined, kept, isolated = (
        _one(db, f"SELECT count(*) FROM {name}")
        for name in ("raw", "joined", "distinct_links", "isolated")
    )
    loops = _one(db, "SELECT count(*) FROM distinct_links WHERE lo = hi")
    lost, again, self_loops = (
        db.execute(
            "SELECT row, s, t, CASE WHEN s IS NULL OR NOT EXISTS (FROM rows WHERE id = s)"
            f" THEN s ELSE t END FROM raw WHERE row IN (SELECT row FROM {rows}"
            f" ORDER BY row LIMIT {SHOWN}) ORDER BY row"
        ).fetchall()
        for rows in (
            "raw ANTI JOIN joined USING (row)",
            "joined ANTI JOIN distinct_links USING (row)",
            "distinct_links WHERE lo = hi",
        )
    )
    examples = tuple((row, unknown) for row, _, _, unknown in lost)
    report = LinkReport(total, kept, total - joined, joined - kept, loops, examples)
    pairs = (
        ([row for row, *_ in found], [list(p[1:3]) for p in found]) for found in (again, self_loops)
    )
    check_links(tables.edges, ends, report, tables.strict, *pairs)
    return report, isolated


# --- the comparison ---

NOTE = """
Two Parquet tables of 1 million nodes (64 features) and 5 million links, as in `building.py`; one
run each, in a process of its own. Each build is also killed by SIGKILL at half of its time and
started again. Both ways write the same files, byte for byte. DuckDB has half of `--memory` as its
`memory_limit`. The seconds were measured while other programs used the two cores; compare the CPU
seconds.

DuckDB is not used: its build takes more than three times the CPU time and twice the disk, and its
peak memory is above `--memory` although its limit is half of that. It would replace the 370 lines
of `partition.py` and `resolve_links.py` by about 150.
"""


def pytest_collection_modifyitems(items):
    """Run tests/store/test_build.py with this `build` in place of ours."""
    for item in items:
        if hasattr(item, "module") and hasattr(item.module, "build"):
            item.module.build = build
    sys.modules["tests.stores"].build = build


def measured(folder, way, memory):
    """Build once in this process; a row of the table."""
    tables = Tables(folder / "nodes.parquet", folder / "links.parquet", "id", "class")
    started = time.perf_counter()
    out = folder / f"store-{way}"
    (build if way == "DuckDB" else ours.build)(tables, out, memory=memory, overwrite=True)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return {"seconds": round(seconds, 1), "CPU s": round(cpu, 1), "peak MB": round(peak)}


def in_process(folder, way, memory, kill_after=None):
    """Build in a process of its own, which may be killed after some seconds."""
    command = [sys.executable, __file__, folder, "--only", way, "--memory", memory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        started, disk = time.monotonic(), 0
        while child.poll() is None:
            time.sleep(0.1)
            work = folder / f"store-{way}.building"
            disk = max(disk, _size(work))
            if kill_after is not None and time.monotonic() - started > kill_after:
                os.kill(child.pid, signal.SIGKILL)
                break
        out = child.stdout.read()
    return (json.loads(out.splitlines()[-1]) if out else {}) | {"peak disk MB": round(disk / 1e6)}


def _size(folder):
    """Bytes of all files of a folder that another process is writing to."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def tree(folder):
    """All files of a store but the manifest, with their digests."""
    return Store.open(folder).manifest.files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--only", choices=["ours", "DuckDB"])
    asked = parser.parse_args()
    if asked.only:
        print(json.dumps(measured(asked.folder, asked.only, parse_memory(asked.memory))))
        sys.exit()
    from building import make_tables
    from measure import RESULTS, write

    if not (asked.folder / "links.parquet").exists():
        make_tables(asked.folder, asked.nodes, asked.links)
    rows = []
    for way in ("ours", "DuckDB"):
        row = in_process(asked.folder, way, asked.memory)
        whole = tree(asked.folder / f"store-{way}")
        in_process(asked.folder, way, asked.memory, kill_after=1 + 0.5 * row["seconds"])
        killed = (asked.folder / f"store-{way}.building").exists()
        in_process(asked.folder, way, asked.memory)
        same = tree(asked.folder / f"store-{way}") == whole
        resumed = {"killed": killed, "same bytes after": same}
        rows.append({"way": way, "--memory": asked.memory, **row, **resumed})
        print(rows[-1], flush=True)
    ours_, theirs = (tree(asked.folder / f"store-{way}") for way in ("ours", "DuckDB"))
    names = sorted(name for name in ours_ if ours_[name] != theirs[name])
    print("files that differ:", names[:5], len(names))
    write("duckdb", "python benchmarks/duckdb_store.py FOLDER", rows)
    with (RESULTS / "duckdb.md").open("a") as file:
        file.write(NOTE)
