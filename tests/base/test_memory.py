import subprocess
import sys

import pytest

from g2netpl.base.memory import keep_freed_memory

STEP = """
import resource, sys
from g2netpl.base.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
for _ in range(20):
    block = libc.malloc(64 << 20)
    ctypes.memset(block, 1, 64 << 20)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="no mallopt here")
def test_freed_memory_is_used_again_without_new_page_faults():
    def faults(what):
        done = subprocess.run(
            [sys.executable, "-c", STEP, what], check=True, capture_output=True, text=True
        )
        return int(done.stdout)

    assert faults("keep") < faults("leave") / 4
