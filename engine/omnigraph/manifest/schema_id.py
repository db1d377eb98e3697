"""The two names of a stored schema, from its canonical text.

The id tells schemas apart, identities included: a property that was dropped and added again is another one. The hash is of
the shape alone.
"""

from __future__ import annotations

from omnigraph.schema.canonical import schema_id as schema_id
from omnigraph.schema.canonical import shape_hash as shape_hash
