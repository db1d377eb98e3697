"""The ``.gq`` query language: text, tree, checks, bound statements. Pure: no storage, no clock, no randomness.

The way through: ``parse_queries`` → ``select_query`` → ``bind_mutation``. ``lint`` tells everything about a file at once.
"""

from omnigraph.gq.bound import (
    BoundMutation,
    BoundStatement,
    Comparison,
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    UpdateNode,
)
from omnigraph.gq.check import check_query, lint, parse_query, select_query
from omnigraph.gq.diagnostics import CODES, Diagnostic
from omnigraph.gq.lower import bind_mutation
from omnigraph.gq.parameters import BoundParams, bind_params, parse_params
from omnigraph.gq.parser import parse_queries
from omnigraph.gq.printer import format_queries, format_query
from omnigraph.gq.values import BlobUri

__all__ = [
    "BlobUri",
    "BoundMutation",
    "BoundParams",
    "BoundStatement",
    "CODES",
    "Comparison",
    "DeleteEdge",
    "DeleteNode",
    "Diagnostic",
    "InsertEdge",
    "InsertNode",
    "UpdateNode",
    "bind_mutation",
    "bind_params",
    "check_query",
    "format_queries",
    "format_query",
    "lint",
    "parse_params",
    "parse_queries",
    "parse_query",
    "select_query",
]
