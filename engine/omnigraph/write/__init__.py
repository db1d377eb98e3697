"""Writing: reading inputs into Arrow per type, checking them against the schema and the pins, lowering to a plan.

Below it lie ``commit`` and ``table``; it never touches storage by itself.
"""
