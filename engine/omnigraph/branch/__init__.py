"""Branches and whole commits: make, delete and merge branches, take a commit back, go back to an older state.

A branch's name is for people; its identity tells it from every other that had, or will have, its name."""
