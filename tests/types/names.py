"""A program of a user: every expression has the type that the comment says. Read by type checkers, never run."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
import omnigraph_pipelines as pipelines

graph = og.open("g.omni")
snapshot = graph.snapshot()
receipt = graph.load([], mode="append")
report = graph.check([], mode="append")
status = graph.status()
txn = graph.begin()

reveal_type(og.__version__)  # str
reveal_type(og.STORAGE_VERSION)  # int
reveal_type(og.open("g.omni"))  # Graph
reveal_type(og.init("g.omni", Path("s.pg")))  # Graph
reveal_type(og.parse_schema("node A { a: String @key }"))  # Catalog
reveal_type(og.Batch(nodes={}, edges={}))  # Batch
reveal_type(og.TableFile(("a.csv",), csv=og.CsvOptions(delimiter=";")))  # TableFile
reveal_type(og.errors.NotFound("x"))  # NotFound
reveal_type(og.errors.NotFound("x").hint)  # str
reveal_type(graph.uri)  # str
reveal_type(graph.storage_version)  # int
reveal_type(graph.catalog)  # Catalog
reveal_type(graph.close())  # None
reveal_type(graph.snapshot())  # Snapshot
reveal_type(graph.commits())  # Commits
reveal_type(graph.commits()[0])  # Commit
reveal_type(graph.commits()[0].id)  # str
reveal_type(graph.commits()[0].actor)  # str | None
reveal_type(graph.commits()[0].created_at)  # datetime
reveal_type(graph.commits()[0].merge)  # Mapping[str, Any] | None
reveal_type(graph.commits()[0].reverts)  # tuple[str, ...] | None
reveal_type(graph.commits()[0].recovered_by)  # str | None
reveal_type(graph.commit("01M7QBWRZF1TGD3HZ9J8VKY7RZ"))  # Commit
reveal_type(graph.outcome("01M7QBWRZF1TGD3HZ9J8VKY7RZ"))  # Outcome
reveal_type(graph.outcome("01M7QBWRZF1TGD3HZ9J8VKY7RZ").landed)  # bool
reveal_type(graph.load([], mode="append"))  # Receipt
reveal_type(graph.mutate("query q() { delete A where a = 1 }"))  # Receipt
reveal_type(graph.branches.merge("b"))  # MergeReceipt
reveal_type(graph.branches.merge("b", dry_run=True))  # MergePlan
reveal_type(graph.revert("01M7QBWRZF1TGD3HZ9J8VKY7RZ"))  # Receipt
reveal_type(graph.revert("01M7QBWRZF1TGD3HZ9J8VKY7RZ", dry_run=True))  # UndoPlan
reveal_type(graph.restore("01M7QBWRZF1TGD3HZ9J8VKY7RZ"))  # Receipt
reveal_type(graph.check([], mode="append"))  # CheckReport
reveal_type(graph.begin())  # StagingTxn
reveal_type(graph.status())  # StatusReport
reveal_type(graph.verify())  # VerifyReport
reveal_type(graph.intents())  # PendingIntents
reveal_type(graph.recover())  # RecoveryReport
reveal_type(graph.recoveries())  # RecoveryHistory
reveal_type(graph.repair())  # RepairReport
reveal_type(graph.optimize())  # OptimizeReport
reveal_type(graph.ensure_indices())  # OptimizeReport
reveal_type(graph.compact_manifest())  # ManifestReport
reveal_type(graph.plan_compaction())  # CompactionPlan
reveal_type(graph.plan_compaction().tasks[0])  # CompactionTask
reveal_type(og.CompactionTask.from_json("{}"))  # CompactionTask
reveal_type(og.CompactionTask.from_json("{}").run())  # CompactionResult
reveal_type(graph.branches)  # Branches
reveal_type(graph.branches.create("a"))  # BranchInfo
reveal_type(graph.branches.list())  # BranchList
reveal_type(graph.branches.delete("a"))  # BranchInfo
reveal_type(graph.checkpoints)  # Checkpoints
reveal_type(graph.checkpoints.list())  # CheckpointList
reveal_type(graph.notes)  # Notes
reveal_type(snapshot.commit_id)  # str
reveal_type(snapshot.branch)  # str
reveal_type(snapshot.tables["node:A"])  # TableEntry
reveal_type(snapshot.tables["node:A"].rows)  # int
reveal_type(snapshot.get("A", "a"))  # dict[str, Any] | None
reveal_type(snapshot.head("A"))  # Rows
reveal_type(snapshot.count("A"))  # int
reveal_type(snapshot.to_arrow("A"))  # Table
reveal_type(snapshot.to_batches("A"))  # RecordBatchReader
reveal_type(snapshot.to_pandas("A"))  # DataFrame
reveal_type(snapshot.to_polars("A"))  # DataFrame
reveal_type(snapshot.duckdb())  # DuckDBPyConnection
reveal_type(snapshot.export())  # str
reveal_type(snapshot.export("out.jsonl"))  # ExportReport
reveal_type(snapshot.export("out", format="parquet"))  # ExportReport
reveal_type(receipt.commit_id)  # str | None
reveal_type(receipt.tables["node:A"])  # TableChange
reveal_type(receipt.tables["node:A"].inserted)  # int | None
reveal_type(receipt.affected_nodes)  # int
reveal_type(receipt.rejected)  # RejectedRows
reveal_type(receipt.rejected.total)  # int
reveal_type(receipt.storage.requests)  # int
reveal_type(receipt.warnings)  # tuple[str, ...]
reveal_type(report.ok)  # bool
reveal_type(status.pending_total)  # int
reveal_type(txn.table("A"))  # StagingTable
reveal_type(pipelines.load_graph_file(Path("graph.yaml")))  # GraphFile
