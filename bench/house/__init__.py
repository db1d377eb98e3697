"""A table of the house: what the packages hold, how they import each other, and what a call enters. ``./run house``."""
