"""Values: cells and columns of an input in the types that the schema declares."""
