"""A proxy in front of a store that speaks S3: it counts, delays, caps, breaks, loses, holds back and kills.

Both clients of the engine (boto3 and Lance's own) go through it without knowing; nothing is wrapped.

    with FaultProxy(emulator.endpoint) as proxy:
        held = proxy.rule(Rule(hold(), Match(classes=("manifest",), methods=("PUT",)), at=2))
        ...                                   # work against proxy.endpoint in another thread or process
        held.wait_fired()
        held.release()
        proxy.counts()                        # {"data": 1, "versions": 3, ..., "total": 11}
"""

from omnigraph.testing.faults.classify import CLASSES, Target, classify_key, parse_target
from omnigraph.testing.faults.control import Control, FaultProxy, FaultProxyProcess, SetRule
from omnigraph.testing.faults.exchange import Exchange, counts, hops, operations, serial_service_s, service_s
from omnigraph.testing.faults.rules import (
    ANY,
    CATALOGUE,
    MUTATING,
    Action,
    Kind,
    Match,
    Rule,
    cut_upload,
    delay,
    drop,
    duplicate,
    empty,
    fail,
    flip,
    hold,
    ignore_condition,
    kill,
    short_list,
    swallow,
    truncate,
)

__all__ = [
    "FaultProxy", "FaultProxyProcess", "Control", "SetRule",
    "Rule", "Match", "ANY", "MUTATING", "Action", "Kind", "CATALOGUE",
    "fail", "drop", "swallow", "delay", "hold", "kill", "cut_upload", "ignore_condition",
    "duplicate", "truncate", "flip", "empty", "short_list",
    "Exchange", "counts", "operations", "hops", "service_s", "serial_service_s",
    "CLASSES", "Target", "classify_key", "parse_target",
]  # fmt: skip
