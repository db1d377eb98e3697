"""Bytes under keys: local disk and S3 behind one small interface, and the layout of paths below a root.

Imports ``core`` only. Nothing above this package imports boto3 or touches a control object in any other way. Knows
nothing of graphs: what the bytes mean is the business of those who write them.
"""

from omnigraph.store.interface import DeleteFailure, Entry, KeyExists, Store
from omnigraph.store.opening import open_store

__all__ = ["DeleteFailure", "Entry", "KeyExists", "Store", "open_store"]
