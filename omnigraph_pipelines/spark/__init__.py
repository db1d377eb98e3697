"""Batches that outgrow one machine: executors stage, the driver's engine checks and publishes once.

Owns the public names of this part. Nothing here loads pyspark or lance before it is used.
"""

from __future__ import annotations
