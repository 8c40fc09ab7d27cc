"""Files of records: one for each graph, number of labels, group of methods and some seeds.

The first line has the commit, the machine and the seeds; each further line has one method: its
scores by seed, the settings that were chosen and the seconds of training. A file is written aside
and renamed, so it is complete if it is there. `join_files` joins the files of a graph, for the
repository; a run then continues as before.
Usage: python benchmarks/rivals/records.py FOLDER, to join the files of a folder
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """A graph, a number of labels, a group of methods and the seeds that are measured."""

    name: str
    labels: str
    group: str
    seeds: tuple

    def path(self, folder):
        """The file of the task's records."""
        labels = self.labels.replace("%", "pc")
        seeds = f"{self.seeds[0]}-{self.seeds[-1]}"
        return folder / f"{self.name}.{labels}.{self.group}.{seeds}.jsonl"


def write_records(task, folder, about, records):
    """Write the records of a task: a mapping of methods to scores, settings and seconds."""
    cell = {"set": task.name, "labels": task.labels}
    lines = [{**cell, "group": task.group, "seeds": task.seeds, **about}]
    for method, record in records.items():
        lines.append({**cell, "method": method, **_compact(record)})
    path = task.path(folder)
    new = path.with_suffix(f".{os.getpid()}.new")
    new.write_text("".join(json.dumps(line) + "\n" for line in lines))
    new.replace(path)


def _compact(record):
    """A record with the different settings once, and for each seed the place of its own."""
    different = []
    for setting in record["settings"]:
        if setting not in different:
            different.append(setting)
    chosen = [different.index(setting) for setting in record["settings"]]
    return {**record, "settings": different, "chosen": chosen}


def read_records(folder):
    """The first lines of the files of a folder, and one record for each method in a cell.

    A record has the scores of all seeds in `by_seed`.
    """
    about, records = [], {}
    for line in _lines(folder):
        if "method" not in line:
            about.append(line)
            continue
        named = {key: line[key] for key in ("set", "labels", "method")}
        start = {**named, "measure": about[-1]["measure"], "by_seed": {}, "seconds": []}
        record = records.setdefault(tuple(named.values()), start)
        record["by_seed"] |= dict(zip(about[-1]["seeds"], line["scores"], strict=True))
        record["seconds"] += line["seconds"]
    return about, list(records.values())


def tasks_in(folder):
    """The tasks whose records a folder has."""
    return {
        Task(line["set"], line["labels"], line["group"], tuple(line["seeds"]))
        for line in _lines(folder)
        if "method" not in line
    }


def join_files(folder):
    """Join the files of each graph into one."""
    for name in {line["set"] for line in _lines(folder)}:
        paths = sorted(folder.glob(f"{name}.*jsonl"))
        text = "".join(path.read_text() for path in paths)
        new = folder / f"{name}.new"
        new.write_text(text)
        new.replace(folder / f"{name}.jsonl")
        for path in paths:
            if path.name != f"{name}.jsonl":
                path.unlink()


def _lines(folder):
    """All lines of the files of a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from map(json.loads, path.read_text().splitlines())


if __name__ == "__main__":
    join_files(Path(sys.argv[1]))
