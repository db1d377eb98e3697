"""How an asset or sensor gets at a resource: by a key of the code location, or bound to a resource of its own.

A code location of ours shares ``graph`` and ``spark`` by key. A component in a user's project brings its own, so
that two of them with different graphs can live side by side and nothing has to be declared in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dagster as dg


@dataclass(frozen=True)
class Bound:
    """One resource. Exactly one of ``key`` and ``resource`` is set."""

    key: str | None = None
    resource: dg.ConfigurableResource[Any] | None = None

    @property
    def required_keys(self) -> set[str]:
        """For ``required_resource_keys`` of assets, ops and sensors."""
        return set() if self.key is None else {self.key}

    @contextmanager
    def opened(self, resources: Any) -> Iterator[Any]:
        """The resource ready for use; ``resources``: those of the context."""
        if self.key is not None:
            yield getattr(resources, self.key)
        elif self.resource is not None:
            with self.resource.process_config_and_initialize_cm() as ready:
                yield ready


@dataclass(frozen=True)
class Held(Bound):
    """A resource that is open already, for work that is done many times while it is."""

    ready: Any = None

    @contextmanager
    def opened(self, resources: Any) -> Iterator[Any]:
        yield self.ready


@dataclass(frozen=True)
class Connections:
    """What the definitions of one graph work with."""

    graph: Bound
    spark: Bound

    @contextmanager
    def held(self, resources: Any) -> Iterator[Connections]:
        """The same, open until this ends."""
        with self.graph.opened(resources) as graph, self.spark.opened(resources) as spark:
            yield Connections(Held(ready=graph), Held(ready=spark))

    @staticmethod
    def by_key(graph: str = "graph", spark: str = "spark") -> Connections:
        return Connections(Bound(key=graph), Bound(key=spark))
