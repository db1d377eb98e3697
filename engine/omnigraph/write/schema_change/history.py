"""What the history of a branch tells about changes of its schema."""

from __future__ import annotations

from omnigraph.commit.txn import Txn
from omnigraph.manifest.rows import CommitRow


def filled_since(txn: Txn, schema_id: str) -> frozenset[str]:
    """Ids of the properties that were added with a fill since the branch had this schema. Of a schema that it never had:
    of all."""
    found = set()
    for row in txn.engine.history.rows(txn.held, txn.meter):
        if not isinstance(row, CommitRow) or row.schema is None:
            continue
        for step in row.schema["steps"]:
            if step["step"] == "add_property" and step["fill"] is not None:
                found.add(step["property"])
        if row.schema["from"] == schema_id:
            break
    return frozenset(found)
