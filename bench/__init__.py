"""What the engine costs: requests and serial hops at the wire, rows a second against plain Lance, memory.

Run ``python -m bench NAME``. Nothing here is a gate; what must not change is in ``tests/golden``.
"""
