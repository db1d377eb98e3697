"""``graph.schema``: the accepted schema of a graph, what another text would change, and the change itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.gate import entering
from omnigraph.core.errors import InvalidInput, OmnigraphError
from omnigraph.core.kinds import methods_checked
from omnigraph.core.shown import html_or_text
from omnigraph.core.textfile import read_text

if TYPE_CHECKING:
    from omnigraph.read.place_names import At
    from omnigraph.schema.plan import SchemaPlan
    from omnigraph.schema.view import SchemaView
    from omnigraph.wire.optimize import TableReport
    from omnigraph.write.schema_apply import SchemaOptions, SchemaReceipt


@methods_checked
class GraphSchema:
    """The schema of one open graph."""

    def __init__(self, engine: Engine, actor: str | None) -> None:
        self._engine = engine
        self._actor = actor

    def __repr__(self) -> str:
        return f"<GraphSchema of {self._engine.uri}>"

    def _repr_html_(self) -> str:
        return html_or_text(self, lambda: self.show()._repr_html_())

    def show(self, branch: str = MAIN, at: At | None = None) -> SchemaView:
        """The accepted schema of a branch as it is now, or as it was at a place."""
        from omnigraph.read.places import snapshot_at
        from omnigraph.read.snapshot import snapshot_of_branch
        from omnigraph.schema.view import SchemaView

        with entering(self._engine, "schema.show"):
            if at is not None:
                return SchemaView(snapshot_at(self._engine, at, branch=branch).catalog)
            return SchemaView(snapshot_of_branch(self._engine, branch).catalog)

    def plan(
        self,
        new: str | Path,
        *,
        branch: str = MAIN,
        allow_data_loss: bool = False,
        fill: Mapping[str, object] | None = None,
    ) -> SchemaPlan:
        """What ``apply`` would do, step by step, with the cost of each. Writes nothing and reads no row."""
        from omnigraph.write.schema_apply import SchemaOptions, plan_schema

        with entering(self._engine, "schema.plan"):
            options = SchemaOptions(branch=branch, allow_data_loss=allow_data_loss, fill=fill)
            return plan_schema(self._engine, read_schema(new), options)

    def apply(
        self,
        new: str | Path | SchemaPlan,
        *,
        branch: str = MAIN,
        allow_data_loss: bool = False,
        fill: Mapping[str, object] | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        actor: str | None = None,
        deadline_s: float = 60,
    ) -> SchemaReceipt:
        """Make ``new`` the accepted schema: one call, one commit over all tables, one receipt.

        ``fill`` says where an added property gets its values: ``{"Person.score": 0.5}``, ``{"property": name}`` or
        ``{"sql": expression}``. The same text again changes nothing: ``commit_id`` is None. With ``allow_data_loss`` the data
        files that hold what was dropped are rewritten after the commit; a cleanup then takes the old ones. A plan in place of a
        text is carried out as it was made, with its fills: ``SchemaChanged`` if another schema has been accepted since.
        """
        from omnigraph.core.actor import resolve_actor
        from omnigraph.schema.plan import SchemaPlan
        from omnigraph.write.schema_apply import SchemaOptions, apply_schema

        with entering(self._engine, "schema.apply", writes=True) as doing:
            text, expected = read_schema(new), None
            if isinstance(new, SchemaPlan):
                if fill is not None or allow_data_loss:
                    raise InvalidInput("a plan has its fills and its drops", hint="give them to schema.plan(…)")
                fill, allow_data_loss, expected = new.fill, new.hard, new.old_id
            options = SchemaOptions(
                branch=branch,
                allow_data_loss=allow_data_loss,
                fill=fill,
                expect_schema=expected,
                actor=resolve_actor(actor if actor is not None else self._actor),
                idempotency_key=idempotency_key,
                expect_head=expect_head,
                deadline_s=deadline_s,
            )
            receipt = apply_schema(self._engine, text, options)
            if allow_data_loss and not receipt.replayed:
                receipt = self._rewrite_dropped(receipt, options)
            doing.facts |= {"commit_id": receipt.commit_id, "branch": branch, "replayed": receipt.replayed}
            return receipt

    def _rewrite_dropped(self, receipt: SchemaReceipt, options: SchemaOptions) -> SchemaReceipt:
        """Rewrite what still holds dropped columns. What could not be done is a warning: the change stands."""
        plan = receipt.plan
        if plan is None:
            return receipt
        again = "apply the same schema with allow_data_loss again"
        try:
            left = [(one.table_key, one.skipped) for one in self._rewritten(plan, options) if one.skipped is not None]
        except OmnigraphError as error:
            if receipt.commit_id is None:  # the rewrite was all that was left to do
                raise
            left = [("the graph", error.message)]
        warnings = [*receipt.warnings, *(f"{who} still holds what was dropped ({why}): {again}" for who, why in left)]
        if plan.drops:
            names = ", ".join(step.subject for step in plan.drops[:5])
            warnings.append(
                f"older commits, checkpoints and branches may keep the bytes of {names}; a cleanup lists those that do, and "
                "deletes the bytes of commits that are not retained"
            )
        return replace(receipt, warnings=tuple(warnings))

    def _rewritten(self, plan: SchemaPlan, options: SchemaOptions) -> Sequence[TableReport]:
        """The tables from which this change took columns; of a text that was accepted already, all of them: an earlier call may
        have ended between its commit and the rewrite."""
        from omnigraph.upkeep.optimize import rewrite_dropped

        keys = {plan.new.by_id[step.type_id].table_key for step in plan.drops if step.prop_id is not None}
        if plan.steps and not keys:
            return ()
        return rewrite_dropped(self._engine, sorted(keys) or None, branch=options.branch, actor=options.actor)


def read_schema(schema: str | Path | SchemaPlan) -> str:
    """Schema text, the text of the file that a Path names, or the one that a plan was made of."""
    from omnigraph.schema.plan import SchemaPlan

    if isinstance(schema, SchemaPlan):
        return schema.new.source
    if isinstance(schema, Path):
        return read_text(schema, "schema file")
    if not isinstance(schema, str):
        raise InvalidInput(
            f"a schema is its text or the Path of a file, not {type(schema).__name__}",
            hint="pass the text, or pathlib.Path('social.pg')",
        )
    if schema.endswith(".pg") and "{" not in schema:
        raise InvalidInput(
            f"a text is the schema itself, not the name of its file: {schema[:200]!r}",
            hint="pass pathlib.Path(…), or the text",
        )
    return schema
