"""Find ONNX Runtime for browsers: the npm package onnxruntime-web.

The package is not part of LinkDist, because few users need its 14 MB. It is fetched once with npm,
compared with the digests below, and kept in the cache folder. No script of the package is run.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from linkdist._files import replace_bytes
from linkdist.artifacts.manifest import digest_of
from linkdist.data.datasets import cache_folder
from linkdist.errors import OptionError

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
SCRIPT, GLUE, WASM = FILES = (
    "ort.wasm.min.js",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
)
DIGESTS = {
    SCRIPT: "faece07e84faa9001f5104bbe4e5c70861d06cb2376a0dea1fa0ad33a67adc81",
    GLUE: "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    WASM: "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""SHA-256 digests of the files of this version."""

SECONDS = 300
"""Time limit of the download."""


def find_runtime(folder: Path | None = None) -> dict[str, bytes]:
    """The files of onnxruntime-web by name.

    Parameters
    ----------
    folder : Path, optional
        The unpacked package, or its folder `dist`; by default the cache folder, or npm.

    Raises
    ------
    OptionError
        If the files are missing, are of another version, or npm cannot fetch them.
    """
    if folder is not None:
        inside = folder / "dist" if (folder / "dist").is_dir() else folder
        return _read(inside, f"Name the unpacked npm package {PACKAGE} {VERSION}.")
    cache = _cache()
    if not all((cache / name).is_file() for name in FILES):
        _fetch(cache)
    return _read(cache, f"Remove {cache}, and try again.")


def _cache() -> Path:
    return cache_folder() / f"{PACKAGE}-{VERSION}"


def _read(folder: Path, advice: str) -> dict[str, bytes]:
    try:
        found = {name: (folder / name).read_bytes() for name in FILES}
    except OSError as error:
        raise OptionError(f"{error.filename} cannot be read: {error.strerror}. {advice}") from error
    wrong = [name for name in FILES if digest_of(found[name]) != DIGESTS[name]]
    if wrong:
        raise OptionError(f"not a file of {PACKAGE} {VERSION}: {', '.join(wrong)}. {advice}")
    return found


def _fetch(cache: Path) -> None:
    npm = shutil.which("npm")
    needed = f"the page needs the npm package {PACKAGE} {VERSION}"
    by_hand = "unpack the package yourself and name its folder with --runtime"
    if npm is None:
        raise OptionError(f"{needed}, and npm is not installed. Install Node.js, or {by_hand}.")
    with TemporaryDirectory() as folder:
        # 'npm pack' downloads the archive; it installs nothing and runs no script of it.
        command = [npm, "pack", "--ignore-scripts", "--silent", f"{PACKAGE}@{VERSION}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            reason = f"{needed}, and npm could not fetch it: {error}"
            raise OptionError(f"{reason}. Try again, or {by_hand}.") from error
        with tarfile.open(Path(folder, f"{PACKAGE}-{VERSION}.tgz")) as archive:
            cache.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                content = archive.extractfile(f"package/dist/{name}")
                assert content is not None
                replace_bytes(cache / name, content.read())
