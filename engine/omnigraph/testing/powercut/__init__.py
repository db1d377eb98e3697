"""What a power cut leaves of a graph on a local disk: recorded system calls, replayed as far as they were synced, judged.

    record    runs an operation under strace and reads its calls on the files of one folder
    disk      a disk that knows for each name and each byte whether it was synced, and what a cut may leave
    workload  the operation itself, as a program that marks what it has acknowledged
    judge     opens what is left, recovers, and compares it with what was acknowledged
    cells     runs all of it for one operation; ``python -m omnigraph.testing.powercut`` and ``./run powercut`` for many

The model is ext4 read conservatively. A sync of a file makes its bytes last and not its name; a sync of a folder makes the
names in it last and neither the bytes nor the names below; ``syncfs`` makes all of it last. What was not synced may be
there or not: names of one folder come back in the order in which they were changed, folders independently of each other,
and a name that came back may belong to an empty file, to half of one, or to a whole one. Sectors that are lost or swapped
although a sync succeeded are not modelled.
"""
