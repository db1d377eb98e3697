"""Reading: snapshots, commits, scans, export, and the ways into Arrow, pandas, polars and DuckDB.

Reads through pins only. Writes nothing to a graph and never looks at the newest version of a table.
"""
