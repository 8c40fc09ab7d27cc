"""Read a whole store into memory, as the `Graph` that reading the same tables gives.

The nodes are numbered by part, then by row. Every array is allocated once and filled part by part
and bucket by bucket, so that besides the graph only one part, and one number for each link, are in
memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data.graph import FeatureMatrix, FloatArray, Graph, IntArray, Labels
from linkdist.data.links import Links
from linkdist.progress import Callback
from linkdist.store.format import HEADER, buckets, feature_files, label_shape
from linkdist.store.reader import Bucket, Store


def read_whole(store: Store, callback: Callback | None = None) -> tuple[Graph, IntArray]:
    """Read a whole store into memory.

    Parameters
    ----------
    store : Store
        A store that fits into memory.
    callback : Callback, optional
        Receives the progress.

    Returns
    -------
    graph : Graph
        Its nodes are in the order of the parts.
    first : (P,) int64 array
        The number of the first node of each part.

    Raises
    ------
    StoreError
        If a file is damaged.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(1000, 5000), parts=3)
    ...     graph, first = read_whole(store)
    >>> graph.n, len(graph.links) == store.m, first.tolist()
    (1000, True, [0, 333, 666])
    """
    callback = callback or Callback()
    sizes = store.sizes
    first = np.cumsum(sizes) - sizes
    callback.stage("reading nodes")
    features, labels = _features(store, first, callback), _labels(store, first)
    callback.stage("reading links")
    links = _links(store, first, callback)
    graph = Graph(
        features, links.pairs, labels, store.classes, store.directory.name, None, store.task,
        links.relation, links.weights, links.relations, links.directed,
    )  # fmt: skip
    return graph, first


def _features(store: Store, first: IntArray, callback: Callback) -> FeatureMatrix:
    if store.kind == "csr":
        return _sparse_features(store, first, callback)
    x: FloatArray = np.empty((store.n, store.d), dtype=np.float32)
    for part, start in enumerate(first.tolist()):
        rows = x[start : start + store.manifest.sizes[part]]
        if store.kind == "float32":
            store.features(part, out=rows)
        else:
            rows[:] = store.features(part)
        callback.progress(part + 1, store.P)
    return x


def _sparse_features(store: Store, first: IntArray, callback: Callback) -> sparse.csr_matrix:
    sizes = [store.manifest.files[feature_files(p, "csr")[0]].size for p in range(store.P)]
    entries = sum((size - HEADER) // 4 for size in sizes)
    index = np.int32 if entries < 1 << 31 else np.int64  # SciPy wants one type for all indices
    data, indices = np.empty(entries, np.float32), np.empty(entries, index)
    indptr: npt.NDArray[Any] = np.zeros(store.n + 1, index)
    filled = 0
    for part, start in enumerate(first.tolist()):
        x: Any = store.features(part)
        end = filled + len(x.data)
        data[filled:end], indices[filled:end] = x.data, x.indices
        np.add(x.indptr[1:], filled, out=indptr[start + 1 : start + 1 + x.shape[0]])
        filled = end
        callback.progress(part + 1, store.P)
    return sparse.csr_matrix((data, indices, indptr), shape=(store.n, store.d))


def _labels(store: Store, first: IntArray) -> Labels:
    kind = np.float64 if store.task == "regression" else np.int64
    y = np.empty(label_shape(store.n, store.task, store.C), dtype=kind)
    for part, start in enumerate(first.tolist()):
        y[start : start + store.manifest.sizes[part]] = store.labels(part)
    return y


def _links(store: Store, first: IntArray, callback: Callback) -> Links:
    """All links, in the order that `Links.merged` gives them."""
    keys, filled = np.empty(store.m, dtype=np.int64), 0
    weights = np.empty(store.m, dtype=np.float32) if store.weighted else None
    for done, (a, b) in enumerate(order := list(buckets(store.P)), start=1):
        bucket = store.bucket(a, b)
        end = filled + len(bucket.pairs)
        keys[filled:end] = _keys(store, bucket, int(first[a]), int(first[b]))
        if weights is not None and bucket.weights is not None:
            weights[filled:end] = bucket.weights
        filled = end
        callback.progress(done, len(order))
    if weights is None:
        keys.sort()
    else:
        place = np.argsort(keys)
        keys, weights = keys[place], weights[place]
    n, relation = store.n, None
    if len(store.relations) > 1:
        relation = keys // (n * n)
        keys -= relation * (n * n)
    pairs = np.empty((store.m, 2), dtype=np.int64)
    np.divmod(keys, max(n, 1), out=(pairs[:, 0], pairs[:, 1]))
    return Links(pairs, relation, weights, store.relations, store.directed)


def _keys(store: Store, bucket: Bucket, first: int, second: int) -> IntArray:
    """One number for each link of a bucket, as `Links.keys` numbers them."""
    n, (i, j) = store.n, bucket.pairs.astype(np.int64).T
    i, j = i + first, j + second
    if bucket.heads is None:
        keys: IntArray = i * n + j
        return keys
    relation: IntArray = bucket.heads.astype(np.int64)
    if store.directed:  # an odd head leads from j to i
        i, j = np.where(relation & 1, j, i), np.where(relation & 1, i, j)
        relation >>= 1
    keys = (relation * n + i) * n + j
    return keys
