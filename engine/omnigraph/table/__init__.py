"""One Lance dataset at a time: the only package that imports Lance.

Knows versions, fragments, transactions and predicates; knows nothing of graphs, types, branches of graphs or the
commit protocol.
"""
