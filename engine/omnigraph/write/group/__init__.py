"""Requests of one handle that share a swap: who waits for whom, who leads, and how their rows are judged together.

The protocol below is handed one plan that answers several requests; it knows nothing of how they came together.
"""
