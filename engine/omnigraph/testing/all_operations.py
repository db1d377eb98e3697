"""Every registered operation. Import ``OPERATIONS`` from here to run all of them: each module below registers its own drivers."""

from __future__ import annotations

from omnigraph.testing import branch_operations as branch_operations
from omnigraph.testing import cleaned_operations as cleaned_operations
from omnigraph.testing import combine_operations as combine_operations
from omnigraph.testing import effect_operations as effect_operations
from omnigraph.testing import group_operations as group_operations
from omnigraph.testing import load_operations as load_operations
from omnigraph.testing import merge_operations as merge_operations
from omnigraph.testing import mutation_operations as mutation_operations
from omnigraph.testing import offer_operations as offer_operations
from omnigraph.testing import schema_operations as schema_operations
from omnigraph.testing import undo_operations as undo_operations
from omnigraph.testing import upkeep_operations as upkeep_operations
from omnigraph.testing.operations import OPERATIONS as OPERATIONS
