"""The registry of named data sets: their sizes, their raw files and where to get these."""

from __future__ import annotations

from dataclasses import dataclass

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_NPZ = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"

PICKLES = ("x", "y", "tx", "ty", "allx", "ally", "graph")
"""The parts of a planetoid data set that are stored as pickles."""


@dataclass(frozen=True)
class DatasetInfo:
    """The size of a named data set and the source of its raw files.

    Attributes
    ----------
    name : str
        The name that `load_dataset` takes.
    n, d, C, e : int
        Number of nodes, features, classes and entries of the directed edge list.
    family, folder : str
        PyTorch Geometric stores the raw files in family/folder/raw.
    files : tuple of str
        Names of the raw files; empty if the data set comes with a library.
    source : str
        URL of the folder that contains the files.
    digest : str or None
        SHA-256 digest of the arrays. With None, only the sizes are checked.
    """

    name: str
    n: int
    d: int
    C: int
    e: int
    family: str = ""
    folder: str = ""
    files: tuple[str, ...] = ()
    source: str = ""
    digest: str | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        """Public URLs of the raw files."""
        return tuple(f"{self.source}/{file}" for file in self.files)

    @property
    def manual_download(self) -> str:
        """Instructions for a download by hand, as part of error messages."""
        return (
            f"The files of {self.name} are public: download {', '.join(self.files)} from "
            f"{self.source} into one folder and pass that folder with --data DIR or LINKDIST_DATA."
        )


def _planetoid(
    name: str, folder: str, sizes: tuple[int, int, int, int], digest: str
) -> DatasetInfo:
    files = tuple(f"ind.{name}.{part}" for part in (*PICKLES, "test.index"))
    return DatasetInfo(name, *sizes, "planetoid", folder, files, _PLANETOID, digest)


def _npz(
    name: str, where: str, file: str, sizes: tuple[int, int, int, int], digest: str | None
) -> DatasetInfo:
    family, folder = where.split("/")
    return DatasetInfo(name, *sizes, family, folder, (file,), _NPZ, digest)


DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo(
            "digits",
            1797,
            64,
            10,
            19858,
            digest="00c2bf142434370c19139a3787792b6fe558378ff0189dfb3f42f3a7ffc05b11",
        ),
        _planetoid(
            "cora",
            "Cora",
            (2708, 1433, 7, 10556),
            "5f3e728d5fccc60e8411d19fc3b3e937d60e2aa43d1ca4468de9125a35cb7278",
        ),
        _planetoid(
            "citeseer",
            "CiteSeer",
            (3327, 3703, 6, 9228),
            "3b226cf8a1a1e00ef827ce91a18ac43903104fe247d5f16db02a61f6267a5b96",
        ),
        _planetoid(
            "pubmed",
            "PubMed",
            (19717, 500, 3, 88651),
            "4e8df22057a5be8703c039b5b733d0b77b2459da0008407fe1182d91ea40a4a9",
        ),
        _npz(
            "cora-full",
            "citation_full/Cora",
            "cora_full.npz",
            (19793, 8710, 70, 126842),
            None,
        ),
        _npz(
            "amazon-photo",
            "amazon/Photo",
            "amazon_electronics_photo.npz",
            (7650, 745, 8, 238163),
            "e359dc3b18b403854b1fe19dbd331049443c441177c5bb1aed78155a6c6422a7",
        ),
        _npz(
            "amazon-computers",
            "amazon/Computers",
            "amazon_electronics_computers.npz",
            (13752, 767, 10, 491722),
            "9b83a6901ff525a906f2ffcaf93781c67d7ee2e043c05b6fecee6206a0335ba6",
        ),
        _npz(
            "coauthor-cs",
            "coauthor/CS",
            "ms_academic_cs.npz",
            (18333, 6805, 15, 163788),
            "08320df7721cbc6b49074fb4a9ae60d40ce6ca01251711f18fcbcc3287fb279d",
        ),
        _npz(
            "coauthor-physics",
            "coauthor/Physics",
            "ms_academic_phy.npz",
            (34493, 8415, 5, 495924),
            "670372f4d7d5f6697df206a3a37a96ecdeb72a5d2288e4a987baa0b0e2e79d60",
        ),
    )
}
"""All named data sets, in display order."""

PAPER_DATASETS: tuple[str, ...] = tuple(name for name in DATASETS if name != "digits")
"""The eight data sets of the paper."""

PUBLIC_SPLITS: tuple[str, ...] = tuple(
    name for name, info in DATASETS.items() if info.family == "planetoid"
)
"""The data sets that are published with a split."""
