"""Ingest and upkeep for anybody's Dagster project, in YAML alone."""

from __future__ import annotations

from omnigraph_pipelines.components.ingest import OmniGraphIngestComponent
from omnigraph_pipelines.components.upkeep import OmniGraphUpkeepComponent

__all__ = ["OmniGraphIngestComponent", "OmniGraphUpkeepComponent"]
