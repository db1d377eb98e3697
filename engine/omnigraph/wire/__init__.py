"""What the product tells its callers: receipts, reports and bodies of errors, each declared once.

What a class says in Python, in JSON and in the reference pages is made from its declaration. Frozen dataclasses of plain
values: importing them costs what a dataclass costs, and only ``jsonschema`` reads their types. Imports ``core`` only.
"""

from typing import Final

SCHEMA_VERSION: Final = 1  # of the documents; members may be added to a version, never taken away
