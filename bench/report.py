"""The page of figures, written from the JSON that the benches left. Owns its text; measures nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import results

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"

HEAD = """\
# Performance

<!-- Written by `./run bench report` from bench/results/*.json. Change those, or bench/report.py, not this page. -->

What a write asks of an object store, how that depends on history, and how fast rows go in and out. `./run bench all`
measures everything on this page again (some twenty minutes on two cores, half of them for upkeep); `./run bench all --quick` shows in three that it
runs. Counts are those of a proxy between the engine and an emulated store, so they hold on any store; seconds are of one machine
and compare only with the other seconds of their table. A real object store takes 10 to 100 ms a request: there the time of
a small write is its hops times that.
"""

INTRODUCTIONS = {
    "wire": """\
## Cost at the wire

Every request belongs to one class: `data` (rows and deletions), `index`, `versions` (a table's own log), `manifest` (what the
graph is), `intent` (what recovery needs), `boundary` (what cleanup may have taken), `schema` and `other`. The classes add up to
the total. The receipt of each write, `receipt.storage`, says the same as the proxy; a test holds that, and another compares
the counts of every operation with `tests/golden/requests.json`.

In order, a warm single edge is: does the next version of the manifest exist; the data file, beside the intent; listing,
transaction and version of the table, beside the manifest's data file; transaction and version of the manifest; the
boundary, beside the end of the intent. Eleven requests in eight steps; each further table of the same commit adds its own data file,
listing, transaction and version beside those that are there.
""",
    "cap": """\
## Time under a cap
""",
    "mutate": """\
## Mutations
""",
    "upkeep": """\
## Upkeep

On a local disk. A rewrite is Lance's own; what is added is finding the work, a turn among writers, one swap of the manifest, and
the indexes. Cleanup deletes in calls of a thousand versions, so its memory does not grow with what it deletes.
""",
    "startup": """\
## Starting, and the languages

Half of the start of a command is the import of Lance, Arrow and numpy. `./run bench cold --baseline PATH` compares a load of one
row with that of another working tree, and lists what is left by package; a test holds what a load and a status may not import.
All sides keep their bytecode: to compile every module again costs more than all that is compared.
""",
    "solo": """\
### One writer

Measured by `./run bench solo --baseline PATH`, which `all` leaves out and which compares with another working tree.
""",
    "before": """\
### Before groups, syncs and checksums

Measured by `./run bench before --baseline PATH`, PATH being a working tree of commit 7f6823d: an engine without groups of commits, without syncs
and without checksums.

Four bars are missed. 64 threads on a disk make 5 times the commits of before, not 15 (relaxed) or 8 (with the same syncs): they make the thousand a second that was
hoped for, at one to one and a half milliseconds of a core each, and the older engine makes 160 to 200 here, three times what it made where the bars were
set. One thread makes four fifths of the commits of before. A commit has been given checksums of new files, digests of the rows of
`__manifest`, and a look at each new file before it counts; how the difference divides among them was not measured. A merge of 10,000 rows is at 0.93, not 0.95. And 12 processes on one table make no
more through a slow store than before, because each waits its turn; `commit={"offers": True}` is for them.
""",
    "cold": """\
### A command from nothing

Measured by `./run bench cold --baseline PATH`.
""",
    "throughput": """\
## Throughput and memory

Tables in memory, from a million rows, are appended while they are checked, if no row may be left out; a refusal deletes what was
written. Records (NDJSON) are read by columns in blocks of half a megabyte. A block in which Arrow's reader and the reader of records
might differ (a member of one type that is null among others, `-0`, anything refused) is read value by value, as it always was.
A merge reads the rows that it may replace once, by their addresses.
""",
    "durability": """\
## Commits that survive a power cut, and checksums

What is synced is on the page about [reliability](reliability.md#power-cuts-on-a-local-disk). Plain Lance and Delta sync nothing; SQLite is a
database of one machine.
""",
    "recoveries": """\
## Writes that were left behind

`open` ends what dead processes have left, and begins with no further one after 30 seconds; the rest is ended by `recover`, or by a writer that
finds it in its way. Measured by `./run bench recoveries`, which `all` leaves out.
""",
    "schema": """\
## Changes of a schema
""",
    "branches": """\
## Branches, merge and undo

Of a table whose rows the source wrote once, and that the target has not touched, a merge reads what the source wrote and nothing else, so its
requests do not depend on the size of the table. Else it reads each of these rows as it was, too: spread over a million rows that is a range for
each column of each on a local disk; an object store is asked for ranges less than 256 KiB apart at once. The time misses its bar: Lance's commit of an
update goes through the row ids of the whole table, some 15 ms for a million of them, where the rest of a merge takes 20 ms.

Three of the figures below need a word. The write on main is the first one of its handle to that table, which it has to open: that is 2 of its
15 requests, and the next write sends 13 on a local disk and 11 to an object store. The hundred rows of a large table lie far apart: some four requests
for each find its id in the index of ids (389 of the 612), and two read the columns that the patch leaves as they are (206); a table that is too small
for that index is patched with 23. An undo opens the states before and after the commit, which costs the same for any number of tables; each further
table adds 5 requests (`tests/golden/branches.json`), and that is what the bar of 10 a table is about.
""",
    "feed": """\
## The change feed
""",
    "contention": """\
## Many processes on the same tables

What the checks of these runs are, and what they are evidence for, is on the page about [reliability](reliability.md).
""",
    "combining": """\
## Processes with swaps of their own, and with shared ones

What [shared swaps and offers](../howto/many-small-writes.md#many-processes) gain and cost: with both off, with shared swaps, and with both, as is the default. Measured by `./run bench combining`,
which `all` leaves out.
""",
    "peers": """\
## Beside its neighbours

Measured by `./run bench peers`, which `all` leaves out and which installs deltalake and Kuzu beside the project. Each does the work as
its own manual says; what each checks and promises is in the table below, and so is where this engine loses.

The run below has small writes on a new graph, bulk and reads; the part after 5,000 commits takes another half hour and is not in it.
Its rows of several processes were made while processes neither shared swaps nor carried each other's writes out, as they do by default now.
""",
    "spark": """\
## With Spark

Measured by `./run bench spark`, which `all` leaves out. The peer is Spark itself, with Parquet files that nobody checks.
""",
    "dagster": """\
## In Dagster

Measured by `./run bench dagster dagster-live`, which `all` leaves out. On an instance on disk the larger part of what a batch costs
over the engine is Dagster's own event log.
""",
    "dagster-live": """\
### With the web server and the daemon
""",
    "debian": """\
### Debian's package index

`./run bench debian` takes the package lists of a Debian machine (after `apt-get update`; elsewhere it says *not run*) through web server,
daemon and a Connect server of its own, and holds the graph against the lists. It shows that all of it arrives once, not how fast.
""",
}


def write(folder: Path = results.FOLDER, page: Path = PAGE) -> Path:
    parts = [HEAD]
    for name, introduction in INTRODUCTIONS.items():
        found = results.read(name, folder)
        parts.append(introduction)
        if found is None:
            parts.append(f"Not run: there is no result of `./run bench {name}` to print.\n")
            continue
        parts.append(_stamp(found))
        parts += [results.as_markdown(one) + "\n" for one in found["tables"]]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(parts))
    return page


def _stamp(found: dict[str, Any]) -> str:
    machine = found["machine"]
    return (
        f"`{found['command']}` on {found['date']}: {machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}, pylance {machine['pylance']}, pyarrow {machine['pyarrow']}; "
        f"load average at the end {found['facts'].get('load_average', '?')}.\n"
    )
