"""Upkeep: optimize, compaction, cleanup and reconcile as assets, with the sensors and schedules that run them unasked."""
