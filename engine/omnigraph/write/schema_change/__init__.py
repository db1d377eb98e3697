"""What a change of the schema does to tables: which columns move, where values come from, and which rules rows must keep."""
