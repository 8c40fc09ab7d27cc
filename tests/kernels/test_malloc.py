"""Training leaves the C library's memory allocator as it is."""

import ctypes
import subprocess
import sys

import pytest

TRAIN_THEN_ALLOCATE = """
import ctypes, sys
import numpy as np
from linkdist import Graph, Split, fit

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def mapped():
    # glibc raises the size from which it maps memory after a mapped block is freed.
    libc.free(libc.malloc(8 << 20))
    before = libc.mallinfo2().hblks
    block = libc.malloc(4 << 20)
    grown = libc.mallinfo2().hblks - before
    libc.free(block)
    return grown

before = mapped()
graph = Graph.build(np.eye(20), [(i, i + 1) for i in range(19)], np.arange(20) % 2)
none = np.array([], dtype=int)
fit(graph, Split(np.arange(20), none, none), method="linkdist", epochs=1, device="cpu")
print(before, mapped())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc"
)
def test_training_does_not_change_how_memory_is_allocated():
    """A training once fixed the threshold from which the C library maps memory."""
    done = subprocess.run(
        [sys.executable, "-c", TRAIN_THEN_ALLOCATE], capture_output=True, text=True, check=True
    )
    before, after = done.stdout.split()
    assert before == after
