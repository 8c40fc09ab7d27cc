"""How large two builds of PyTorch for Linux are: the one for CPUs, and the default one.

The first is a wheel on disk. The default build is not downloaded: its wheel, and those of NVIDIA
and Triton that it needs, have a list of their files at their end, which is read alone.
    packages           wheels that pip installs; those that both builds need are left out
    download, MB       their size, in 10^6 bytes
    installed, MB      the size of the files in them
Usage: python benchmarks/torch_sizes.py torch-2.13.0+cpu-*.whl
"""

import io
import os
import re
import sys
import urllib.request
import zipfile
from pathlib import Path

from measure import write
from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from pip._internal.models.index import PyPI

TAGS = frozenset(sys_tags())
OF_GPUS = ("cuda", "nvidia", "triton")


class Remote(io.RawIOBase):
    """A file on a server, of which parts are read."""

    def __init__(self, url):
        self.url, self.place = url, 0
        asked = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            self.size = int(answer.headers["Content-Length"])

    def seekable(self):
        """Any place can be read."""
        return True

    def tell(self):
        """The place of the next read."""
        return self.place

    def seek(self, offset, whence=os.SEEK_SET):
        """Go to a place."""
        self.place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.place}.get(whence, self.size)
        return self.place

    def read(self, size=-1):
        """Fetch so many bytes, or the rest."""
        last = self.size if size < 0 else self.place + size
        if last == self.place:
            return b""
        header = {"Range": f"bytes={self.place}-{last - 1}"}
        asked = urllib.request.Request(self.url, headers=header)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 206, "the server gives whole files only"
            self.place = last
            return answer.read()


def newest(requirement):
    """The address of the newest wheel for this system that a requirement allows."""
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    with urllib.request.urlopen(f"{index}/{requirement.name}/", timeout=60) as page:
        links = re.findall(r'href="([^"#]+\.whl)', page.read().decode())
    found = {}
    for link in links:
        try:
            _, version, _, tags = parse_wheel_filename(link.rsplit("/", 1)[1])
        except InvalidWheelFilename:
            continue
        if version in requirement.specifier and tags & TAGS:
            found[version] = link
    return found[max(found)]


def sizes(requirement, found):
    """Sizes of a wheel and of what it needs on a GPU, by name."""
    file = Remote(newest(requirement))
    with zipfile.ZipFile(file) as archive:
        found[requirement.name] = file.size, installed(archive)
        (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = re.findall(r"^Requires-Dist: (.*)$", archive.read(about).decode(), re.M)
    for needed in map(Requirement, lines):
        extras = [{"extra": extra} for extra in requirement.extras or [""]]
        applies = not needed.marker or any(map(needed.marker.evaluate, extras))
        is_new = needed.name not in found or needed.extras
        if applies and is_new and needed.name.startswith(OF_GPUS):
            sizes(needed, found)
    return found


def installed(archive):
    return sum(one.file_size for one in archive.infolist())


def row(build, found):
    download, files = (sum(values) for values in zip(*found.values(), strict=True))
    return {
        "build": build, "packages": len(found),
        "download, MB": round(download / 1e6), "installed, MB": round(files / 1e6),
    }  # fmt: skip


def main():
    wheel = Path(sys.argv[1])
    version = str(parse_wheel_filename(wheel.name)[1]).partition("+")[0]
    with zipfile.ZipFile(wheel) as archive:
        for_cpus = {"torch": (wheel.stat().st_size, installed(archive))}
    default = sizes(Requirement(f"torch=={version}"), {})
    rows = [row("for CPUs", for_cpus), row("default", default)]
    write("torch_sizes", f"python benchmarks/torch_sizes.py {wheel.name}", rows)


if __name__ == "__main__":
    main()
