"""Fragments that another program has written and described, of which rows may leave.

Owns what sets such a load apart from one of staged parts: its rows were checked by no task, and its fragments stay as they were
cut. Which rows leave, and how, is decided as for any batch.
"""

from __future__ import annotations

from typing import Final

from omnigraph.commit.request import Prepared
from omnigraph.commit.txn import Txn
from omnigraph.distributed.load import PartLoad
from omnigraph.distributed.staging_record import Records

AS_WRITTEN: Final = 1
"""Rows of a fragment that is not packed with its neighbours: any."""


class SiftedLoad(PartLoad):
    """One commit of described fragments without the rows that leave."""

    def _prepare(self, txn: Txn) -> Prepared | None:
        # A cleanup deletes files of a record that an earlier one has deleted, after a mark: a plan that has this mark finds no record.
        Records(self.engine.store).read(self.record.id, txn.meter)
        return super()._prepare(txn)
