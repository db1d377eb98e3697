"""Keeping a graph healthy: what to look at, and what to run. Each operation plans first, then runs the same plan."""
