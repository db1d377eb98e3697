"""Sources: files, streams, records and tables, read as pieces of typed rows."""
