"""Files of records: one for each graph, number of labels, group of methods and some seeds.

The first line has the commit, the machine and the seeds; each further line has one method: its
scores by seed, the settings that were chosen and the seconds of training. A file is written aside
and renamed, so it is complete if it is there.
"""

import json
import os
from dataclasses import dataclass


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
    lines = [{"set": task.name, "labels": task.labels, "seeds": task.seeds, **about}]
    for method, record in records.items():
        named = {"set": task.name, "labels": task.labels, "method": method}
        lines.append({**named, **_compact(record)})
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
    for path in sorted(folder.glob("*.jsonl")):
        first, *others = (json.loads(line) for line in path.read_text().splitlines())
        about.append(first)
        for part in others:
            named = {key: part[key] for key in ("set", "labels", "method")}
            start = {**named, "measure": first["measure"], "by_seed": {}, "seconds": []}
            record = records.setdefault(tuple(named.values()), start)
            record["by_seed"] |= dict(zip(first["seeds"], part["scores"], strict=True))
            record["seconds"] += part["seconds"]
    return about, list(records.values())
