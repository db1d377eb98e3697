"""Batches that many tasks stage: tasks write files, one process checks the whole and commits it."""
