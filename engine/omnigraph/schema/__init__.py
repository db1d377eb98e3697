"""The ``.pg`` schema language: text, catalog, canonical form. Pure: no storage, no clock, no randomness of its own."""
