"""Trials of recipes that go past the paper, judged on validation nodes alone.

A recipe is a line of `recipes.jsonl`: a teacher, which is CoLinkDist with options, what its targets
are, and the students that learn them one after the other, each the next one's teacher. Every trial
adds its lines to results/trials.csv, the failed ones too. No test node is looked at here.
Usage: python benchmarks/trials.py [--sets ...] [--settings ...] [--seeds 0-9] RECIPE ...
"""

import argparse
import csv
import functools
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from measure import commit
from torch.nn import functional

from linkdist.data import datasets
from linkdist.data.splits import named_split, observe
from linkdist.kernels.objective import Objective
from linkdist.model import logits, message_passing
from linkdist.nn.aggregation import Neighbours, RandomNeighbours
from linkdist.nn.averaging import Average
from linkdist.nn.inputs import make_inputs
from linkdist.nn.losses import soft_cross_entropy
from linkdist.nn.network import ForkedMLP, Noise
from linkdist.paper.protocol import make_task, run_task
from linkdist.training.coefficients import coefficients
from linkdist.training.loop import BATCH, Loop, epochs_for, find_device, manners, padded
from linkdist.training.stages import BETA
from linkdist.training.targets import with_known

HERE = Path(__file__).parent
TABLE = HERE.parent / "results" / "trials.csv"
COLUMNS = ("recipe", "set", "setting", "stage", "mode", "crossed", "std", "highest", "at",
           "seconds",
           "seeds", "commit", "machine")  # fmt: skip


def make_loop(network, loss, lengths, seeds, o, epochs=None):
    """A loop with a recipe's rate, and the network that is looked at: its average, or itself."""
    average = Average(network, o["decay"]) if o.get("decay") else None
    rate = o.get("rate", 0.01)
    loop = Loop(network, loss, lengths, seeds, rate=rate, batch=o.get("batch", BATCH),
                average=average, epochs=epochs)  # fmt: skip
    if o.get("shrink"):
        shrink_with(loop.adam, network.first.weight, rate * o["shrink"])
    return loop, average.network if average else network


def shrink_with(adam, weight, by):
    """Take a share off the first layer's weights after every step: AdamW's decay."""
    step = adam.step

    @torch.no_grad()
    def stepped(active):
        step(active)
        weight.mul_(1 - by)

    adam.step = stepped


class Trial:
    """A graph in a setting, R runs, and what is shared by all recipes on it."""

    def __init__(self, name, setting, seeds, device, reads_around=False):
        self.reads_around = reads_around
        self.name, self.setting, self.seeds, self.device = name, setting, seeds, device
        self.graph = graph = datasets.load_dataset(name)
        self.splits = [named_split(graph, setting, seed) for seed in seeds]
        self.views = [observe(graph, split, setting) for split in self.splits]
        self.inputs = make_inputs(graph.features, device)
        self.everyone = Neighbours([graph.edges], graph.n, device)
        seen = [view.edges for view in self.views]
        same = setting != "inductive" or name in datasets.PUBLIC_SPLITS
        self.seen = Neighbours(seen[:1] if same else seen, graph.n, device)
        self.by = coefficients(self.views, BETA[setting], device)
        self.labels = torch.from_numpy(np.stack([view.labels for view in self.views])).to(device)
        self.nodes = padded([view.nodes for view in self.views], device)
        self.counts = torch.tensor([[len(view.nodes)] for view in self.views], device=device)
        self.known = padded([view.train for view in self.views], device)
        self.known_counts = torch.tensor([[len(view.train)] for view in self.views], device=device)
        self.around = RandomNeighbours(seen, graph.n, device)
        self.found = {}

    @functools.cached_property
    def dense(self):
        """The features, to drop some in each row."""
        x = self.graph.features
        return torch.from_numpy(x if isinstance(x, np.ndarray) else x.toarray()).to(self.device)


OPTIONS = {
    *("rate", "decay", "looks", "hide", "hidden", "drawn", "share", "several", "choose"),  # both
    *("drop", "shrink", "batch"),
    *("visits", "mix", "sure", "sides", "neighbour", "anneal", "targets"),  # on nodes
    *("lam", "on", "links", "beside"),  # on links, beside CoLinkDist's loss
    *("from", "alpha", "fixed", "hops", "by", "sharpen"),  # of targets
}
"""What a recipe may say; some of the first trials said more, and their commit knows it."""


def check(recipe):
    """Refuse what is not an option any more, rather than pass over it."""
    parts = [recipe.get("teacher", {}), *recipe.get("students", [])]
    parts += [part["targets"] for part in parts if "targets" in part]
    unknown = {key for part in parts for key in part} - OPTIONS
    if unknown or any(part.get("from") == "votes" for part in parts):
        raise SystemExit(f"{recipe['name']}: {unknown or 'votes'} is no option any more.")
    return recipe


def reads_around(recipe):
    """Whether some targets come from neighbours' mean features."""
    kinds = [s.get("targets", {}).get("from", "") for s in recipe.get("students", [])]
    return any(kind.startswith("around") for kind in kinds)


def alpha_of(trial, value):
    """The given α for each run, or the view's own."""
    return trial.by.alpha if value is None else torch.full_like(trial.by.alpha, value)


def around(network, trial, neighbours, hops):
    """Logits from the mean of a node's and its neighbours' features, some hops wide."""
    x = trial.inputs.project(network.first.weight)
    for _ in range(hops):
        x = neighbours.smooth(x)
    h = network.trunk(x.unsqueeze(1))
    return [head(h).squeeze(1) for head in (network.own, network.neighbour)]


class Judge:
    """Validation accuracies of both modes at every look, and the logits at the best one.

    The highest of many looks flatters. So beside it stands an accuracy that no choice has seen:
    half of the validation nodes choose the look, the other half judge it, and the other way round.
    """

    def __init__(self, trial, choose):
        self.trial, self.choose = trial, choose
        held = np.stack([split.validation for split in trial.splits])
        self.nodes = torch.from_numpy(held).to(trial.device)
        self.truth = torch.from_numpy(trial.graph.labels[held]).to(trial.device)
        self.hits, self.highest = {}, {}
        shape = (len(trial.seeds), trial.graph.n, trial.graph.C)
        self.kept = [torch.zeros(shape, device=trial.device) for _ in range(2)]

    @torch.no_grad()
    def look(self, network):
        """Score both modes on the validation nodes, and keep the logits that are the best."""
        t = self.trial
        z, s = logits(network, t.inputs)
        own = message_passing(z, s, t.everyone, t.by.alpha)
        p = own.softmax(-1)
        better = {
            "features": self.record("features", z),
            "mp": self.record("mp", own),
            "mp2": self.record("mp2", message_passing(z, s, t.everyone, alpha_of(t, 2.0))),
            "hop": self.record("hop", 0.5 * p + 0.5 * t.everyone.mean(p)),
        }
        live = [z, s]
        if t.reads_around:
            for hops in (1, 2):
                zs = around(network, t, t.everyone, hops)
                self.record(f"around{hops}", zs[0])
                self.record(f"mp-around{hops}", message_passing(*zs, t.everyone, t.by.alpha))
                live += around(network, t, t.seen, hops)
        chosen = better[self.choose].view(-1, 1, 1)
        while len(self.kept) < len(live):
            self.kept.append(torch.zeros_like(z))
        for kept, new in zip(self.kept, live, strict=True):
            torch.where(chosen, new, kept, out=kept)

    def record(self, mode, scores):
        """Take in the logits of a look; says whose is the best so far."""
        hits = scores.argmax(-1).gather(1, self.nodes) == self.truth
        self.hits.setdefault(mode, []).append(hits)
        share = hits.float().mean(1)
        highest = self.highest.get(mode, torch.full_like(share, -1))
        self.highest[mode] = highest.maximum(share)
        return share > highest

    def rows(self, recipe, stage, seconds):
        """Lines of the table, one a mode."""
        t = self.trial
        for mode, all_ in self.hits.items():
            hits = torch.stack(all_).float().cpu().numpy()  # (looks, R, nodes)
            found = summary(hits)
            yield dict(zip(COLUMNS, (
                recipe, t.name, t.setting, stage, mode, *found, round(seconds, 2),
                f"{t.seeds[0]}-{t.seeds[-1]}", commit(), t.device.type), strict=True))  # fmt: skip


def summary(hits):
    """Mean and deviation of the crossed accuracy, the highest one, and its look."""
    replica = np.arange(hits.shape[1])
    halves = [hits[:, :, part::2].mean(2) for part in range(2)]
    crossed = [b[a.argmax(0), replica] for a, b in (halves, halves[::-1])]
    v = 100 * np.mean(crossed, axis=0)
    whole = hits.mean(2)
    return (round(v.mean(), 3), round(v.std(ddof=1), 3), round(100 * whole.max(0).mean(), 3),
            round(whole.argmax(0).mean() + 1, 1))  # fmt: skip


def drive(loop, looked_at, steps, looks, judge):
    """Take steps, with evenly spaced looks."""
    at = set(np.unique(np.ceil(np.linspace(0, steps, looks + 1)[1:]).astype(int)).tolist())
    done, epoch = 0, 0
    with manners(loop.device):
        while done < steps:
            for _ in loop.epoch(epoch):
                done += 1
                if done in at:
                    judge.look(looked_at)
                if done >= steps:
                    break
            epoch += 1


def teach_several(trial, o):
    """One or more teachers of different seeds; gives the first one's judge."""
    judges = [teach(trial, o, shift=500 * m) for m in range(o.get("several", 1))]
    judges[0].several = judges
    return judges[0]


def teach(trial, o, p=None, shift=0):
    """CoLinkDist with options, and the targets p of a teacher in its loss; gives its judge."""
    t = trial
    seeds = [seed + 1000 * (p is not None) + shift for seed in t.seeds]
    network = ForkedMLP(t.graph.d, t.graph.C, seeds, hidden=o.get("hidden", 256)).to(t.device)
    if p is not None:
        p = p.contiguous()
    edges = padded([view.edges for view in t.views], t.device)
    replica = torch.arange(len(t.seeds), device=t.device).view(-1, 1)
    objective = Objective(t.by, 3)
    drawn = o.get("drawn", 0.0)

    def loss(index, draws, pace):
        R, B = index.shape
        bits, numbers = draws.take((R, 3, B), network.hidden, network.blocks, B)
        rows = edges[replica, index].transpose(1, 2)
        k = t.nodes.gather(1, numbers.remainder(t.counts))
        if drawn:
            known = t.known.gather(1, numbers.remainder(t.known_counts))
            k = torch.where(torch.rand(k.shape, device=k.device) < drawn, known, k)
        rows = torch.cat([rows, k.unsqueeze(1)], dim=1)
        x = project(t, network, o, rows)
        z, s = heads(network, x, Noise(bits, pace))
        y = t.labels.gather(1, rows.flatten(1)).view(rows.shape)
        total = objective(z, s, y) if o.get("links", 1.0) else 0
        if p is None:
            return total
        aims = p[replica.unsqueeze(1), rows]  # (R, 3, B, C)
        own = soft_cross_entropy(z, aims)  # (R, 3)
        beside = soft_cross_entropy(s[:, :2], aims[:, :2].flip(1))  # (R, 2)
        own = own[:, 2] if o.get("on") == "k" else own.mean(1)
        return total + o["lam"] * own + o.get("beside", o["lam"]) * beside.mean(1)

    lengths = [len(view.edges) for view in t.views]
    loop, looked_at = make_loop(network, loss, lengths, seeds, o)
    epochs = epochs_for(t.graph.degree)
    judge = Judge(t, o.get("choose", "mp"))
    steps = max(1, int(epochs * o.get("share", 1.0) * loop.steps))
    looks = epochs if not o.get("looks") else o["looks"]
    drive(loop, looked_at, steps, looks, judge)
    return judge


def project(trial, network, o, rows):
    """The first layer's output, with features hidden from the batch or dropped in each row."""
    flat = rows.flatten(1)
    if not o.get("drop"):
        x = trial.inputs.project(hidden_words(network, o.get("hide", 0.0)), flat)
    else:
        x = torch.bmm(functional.dropout(trial.dense[flat], o["drop"]), network.first.weight)
    return x.view(*rows.shape, -1)


def hidden_words(network, hide):
    """The first layer's weights, those of some features zero for a step."""
    w = network.first.weight
    if not hide:
        return w
    kept = (torch.rand(*w.shape[:2], 1, device=w.device) >= hide).to(w.dtype)
    return w * (kept / (1 - hide))


def heads(network, x, noise):
    """Logits z and s of a training pass over the first layer's output."""
    h = network.trunk(x, noise.bits[0], noise.pace)
    return network.own(h, noise.bits[1], noise.pace), network.neighbour(
        h, noise.bits[2], noise.pace
    )


def targets(trial, judge, o):
    """What a student learns (R, n, C): from a judge's kept logits, over links that are seen."""
    t = trial
    z, s = judge.kept[:2]
    kind = o.get("from", "mp")
    if kind.startswith("around"):
        z, s = judge.kept[2 * int(kind[-1]) :][:2]
    if kind.startswith("around-mp"):
        kind = "mp"
    p = z.softmax(-1)
    if o.get("several"):
        each = [targets(trial, one, {**o, "several": 0}) for one in judge.several]
        return torch.stack(each).mean(0)
    if kind == "mp":
        p = message_passing(z, s, t.seen, alpha_of(t, o.get("alpha"))).softmax(-1)
    if kind == "mean":
        around = t.seen.mean(s.softmax(-1))
        p = torch.where(around.sum(-1, keepdim=True) > 0, (p + around) / 2, p)
    fixed = o.get("fixed", True)
    base = with_known(p, t.views) if fixed else p
    p = base
    for _ in range(o.get("hops", 0)):
        around = t.seen.mean(p)
        lonely = around.sum(-1, keepdim=True) == 0
        p = torch.where(lonely, base, (1 - o["by"]) * base + o["by"] * around)
        p = with_known(p, t.views) if fixed else p
    if o.get("sharpen"):
        p = p ** o["sharpen"]
        p = p / p.sum(-1, keepdim=True)
    return p


def study(trial, o, p):
    """A student of targets p; gives its judge."""
    t = trial
    seeds = [seed + 1000 for seed in t.seeds]
    network = ForkedMLP(t.graph.d, t.graph.C, seeds, hidden=o.get("hidden", 256)).to(t.device)
    replica = torch.arange(len(t.seeds), device=t.device).view(-1, 1)
    mix, sure = o.get("mix", 0.0), o.get("sure", 0.0)
    sides = o.get("sides", 1)
    log = p.clamp(min=1e-9).log()
    weight = (1 + (p * log).sum(-1) / np.log(t.graph.C)).clamp(min=0) ** sure if sure else None

    def loss(index, draws, pace):
        R, B = index.shape
        bits, numbers = draws.take((R, sides, B), network.hidden, network.blocks, B)
        i = t.nodes.gather(1, index)
        j = t.around.pick(i, numbers)
        both = torch.stack([i, j], dim=1)  # (R, 2, B)
        rows = both if sides == 2 or mix else both[:, :1]
        x = project(t, network, o, rows)
        own, other = p[replica, i], p[replica, j]
        if mix:
            by = 1 - mix * torch.rand(R, 1, B, 1, device=x.device)
            x = by * x + (1 - by) * x.flip(1)
            by = by.squeeze(1)
            own, other = by * own + (1 - by) * other, by * other + (1 - by) * own
        aims = torch.stack([own, other], dim=1)
        if sides == 1:
            x = x[:, :1]
        z, s = heads(network, x, Noise(bits, pace))
        rest = aims.flip(1)
        total = 0
        for side in range(sides):
            each = -(aims[:, side] * z[:, side].log_softmax(-1)).sum(-1)
            if weight is not None:
                each = each * weight[replica, both[:, side]]
            beside = soft_cross_entropy(s[:, side], rest[:, side])
            total = total + each.mean(-1) + o.get("neighbour", 1.0) * beside
        return total

    lengths = [len(view.nodes) for view in t.views]
    visits = o.get("visits", 200)
    falls = visits if o.get("anneal") else None
    loop, looked_at = make_loop(network, loss, lengths, seeds, o, falls)
    judge = Judge(t, o.get("choose", "mp"))
    drive(loop, looked_at, visits * loop.steps, o.get("looks", 40), judge)
    return judge


def rival(trial, recipe):
    """GCN and GCN2MLP, as the paper has them."""
    started = time.perf_counter()
    t = trial
    task = make_task(t.graph, t.setting, t.seeds, t.inputs)
    judge, whole, some = Judge(t, "mp"), task.history.record, task.history.record_nodes

    def record(mode, scores):
        judge.record(mode, scores)
        return whole(mode, scores)

    def record_nodes(mode, scores):
        hits = scores.argmax(-1)[:, : judge.truth.shape[1]] == judge.truth
        judge.hits.setdefault(mode, []).append(hits)
        return some(mode, scores)

    task.history.record, task.history.record_nodes = record, record_nodes
    run_task("GCN", ["GCN", "GCN2MLP"], task)
    yield from judge.rows(recipe["name"], 0, time.perf_counter() - started)


def run(trial, recipe):
    """All stages of a recipe, with their lines of the table."""
    started = time.perf_counter()
    if recipe.get("rival"):
        yield from rival(trial, recipe)
        return
    key = json.dumps(recipe["teacher"], sort_keys=True)
    if key not in trial.found:
        torch.manual_seed(trial.seeds[0])
        judge = teach_several(trial, recipe["teacher"])
        torch.cuda.synchronize() if trial.device.type == "cuda" else None
        trial.found[key] = judge
        name = recipe.get("teacher_name", "teacher " + key)
        yield from judge.rows(name, 0, time.perf_counter() - started)
    judge = trial.found[key]
    for stage, student in enumerate(recipe.get("students", []), 1):
        started = time.perf_counter()
        torch.manual_seed(trial.seeds[0] + stage)
        p = targets(trial, judge, student.get("targets", {}))
        judge = (teach if "lam" in student else study)(trial, student, p)
        torch.cuda.synchronize() if trial.device.type == "cuda" else None
        yield from judge.rows(recipe["name"], stage, time.perf_counter() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--sets", default="cora,citeseer,pubmed,amazon-photo,amazon-computers,"
                        "coauthor-cs,coauthor-physics")  # fmt: skip
    parser.add_argument("--settings", default="inductive")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--out", default=TABLE, type=Path)
    parser.add_argument("--file", default=HERE / "recipes.jsonl", type=Path)
    asked = parser.parse_args()
    lines = [line for line in asked.file.read_text().splitlines() if line.strip()]
    recipes = [json.loads(line) for line in lines]
    if asked.recipes:
        recipes = [r for r in recipes if r["name"] in asked.recipes]
    recipes = [check(recipe) for recipe in recipes]
    first, last = map(int, asked.seeds.split("-"))
    device = find_device("auto")
    for name in asked.sets.split(","):
        for setting in asked.settings.split(","):
            seeds = list(range(first, last + 1))
            trial = Trial(name, setting, seeds, device, any(map(reads_around, recipes)))
            for recipe in recipes:
                keep(asked.out, list(run(trial, recipe)))


def keep(path, rows):
    """Add lines to the table, and say them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        if row["mode"] in ("features", "mp"):
            print(*(row[c] for c in COLUMNS[:-3]), file=sys.stderr)


if __name__ == "__main__":
    main()
