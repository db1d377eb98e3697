"""Ask the C library to give freed memory back at once. Owns that one call; where the library has none, nothing happens.

glibc raises, while a process runs, the size from which a block is mapped and unmapped by itself. Buffers of some megabytes
that many threads take and free then stay with the process, several times over: four times what is in use was measured.
"""

from __future__ import annotations

import ctypes
import functools

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_THRESHOLD_BYTES = 128 * 1024  # what glibc begins with; setting it ends the raising


@functools.cache
def give_freed_memory_back() -> bool:
    """For the rest of the process. False: this C library cannot be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process itself
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return bool(mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES) and mallopt(_M_TRIM_THRESHOLD, _THRESHOLD_BYTES))
