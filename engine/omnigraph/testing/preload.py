"""What the fork server imports before it forks. Must start no thread and open no connection: a fork keeps neither."""

from __future__ import annotations

import importlib
import warnings

# Lance warns at every fork. Here nothing of it runs yet, which is the use that it recommends.
warnings.filterwarnings("ignore", message="lance is not fork-safe")

for _name in (
    "lance",
    "boto3",
    "pyarrow.compute",
    "omnigraph",
    "omnigraph.store.s3",
    "omnigraph.graph",
    "omnigraph.commit.protocol.run",
    "omnigraph.testing.all_operations",
):
    importlib.import_module(_name)
