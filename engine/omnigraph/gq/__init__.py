"""The ``.gq`` query language: text, tree, checks, bound statements. Pure: no storage, no clock, no randomness."""
