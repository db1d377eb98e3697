"""Instruments that ship with the engine, so that anybody can test against it the way it tests itself.

May import every layer; nothing imports it. ``emulator`` is a store that speaks S3, in a process of its own; ``faults`` is
a proxy in front of one that counts, delays, breaks and kills.
"""
