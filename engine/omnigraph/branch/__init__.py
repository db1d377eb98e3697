"""Whole branches and commits: merge one into another, take a commit back, go back to an older state."""
