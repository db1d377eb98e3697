"""From the tree of commands to a running one: parsing, the options that all share, and how each way of ending is reported.

Owns exit codes. A command's module is imported when that command runs or is asked for its help, never before.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli import tree
from omnigraph.cli.call import URI_VARIABLE, Answer, Call, Interrupted, Usage, storage_options
from omnigraph.cli.completion import offer, offer_subject
from omnigraph.cli.plain_values import take_plain_values
from omnigraph.cli.render import SCHEMA_VERSION, Screen
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.redact import redact_text

PROGRAM = "omnigraph"
LOG_VARIABLE = "OMNIGRAPH_LOG"
LOG_FORMAT_VARIABLE = "OMNIGRAPH_LOG_FORMAT"
_LEVELS = ("debug", "info", "warning", "error")
_FORMS = ("json", "text")
_VERSION = frozenset({"--version", "-V"})
PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell shows for any program whose reader has left
_ULID_CHARS = 26
_ARGUMENT = re.compile(r"\b(mode|on_bad_row)=\"(\w+)\"")

# typer keeps this base class to itself; every refusal of a command line is one.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


# --- the tree, loaded as far as it is walked ----------------------------------------------------------------------------


class LazyGroup(TyperGroup):
    """A group that knows the names of its commands and imports one only when it is wanted."""

    group: str | None = None

    def list_commands(self, ctx: Any) -> list[str]:
        return list(tree.children(self.group))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        path = cmd_name if self.group is None else f"{self.group} {cmd_name}"
        if self.group is None and cmd_name in tree.GROUPS:
            return _group(cmd_name)
        found = tree.find(path)
        return None if found is None else _command(found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(tree.children(self.group).items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Filled only to have the names at hand when a mistyped one is to be answered with a similar one.
        names: Any = dict.fromkeys(self.list_commands(ctx))
        self.commands = names
        return super().resolve_command(ctx, args)


@cache
def root() -> Any:
    """The program."""
    app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, context_settings=_SETTINGS)
    app.callback(invoke_without_command=True)(_program)
    made: Any = get_command(app)
    return take_plain_values(made)


def _program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, help="Print the release and exit.")
    ] = False,
) -> None:
    """A property graph on Lance tables: any number of tables change in one atomic commit.

    Results go to standard output, everything else to standard error. Every command takes --json and then prints one
    document. A graph is named by the first argument, --uri, or OMNIGRAPH_URI.
    """
    if version:
        from omnigraph import __version__

        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        from omnigraph.cli.first_steps import text

        sys.stdout.write(text())


@cache
def _group(name: str) -> Any:
    kind = type(f"Group_{name}", (LazyGroup,), {"group": name})
    app = typer.Typer(cls=kind, rich_markup_mode=None, no_args_is_help=True, add_completion=False)
    app.callback(help=tree.GROUPS[name])(lambda: None)
    made: Any = get_command(app)
    made.name = name
    return take_plain_values(made)


@cache
def _command(command: tree.Command) -> Any:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    epilog = f"\b\nExample:\n  {command.example}"
    app.command(command.name, epilog=epilog, context_settings=_SETTINGS)(_callback(command))
    made: Any = get_command(app)
    for parameter in made.params:
        if parameter.name == "positionals":  # a list that is shown as the two things that it may hold
            parameter.get_usage_pieces = lambda _: [f"[URI] {command.subject}"]
    return take_plain_values(made)


_SETTINGS = {"help_option_names": ["-h", "--help"]}


# --- the options that all share -----------------------------------------------------------------------------------------


def _shared(command: tree.Command) -> list[inspect.Parameter]:
    found: list[inspect.Parameter] = []

    def add(name: str, annotation: Any, default: Any) -> None:
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    if command.subject is not None:
        metavar, help_ = f"[URI] {command.subject}", "The graph, unless given otherwise, and which one."
        complete = offer_subject(command.path, command.subject)
        argument = typer.Argument(metavar=metavar, show_default=False, help=help_, autocompletion=complete)
        add("positionals", Annotated[list[str], argument], ...)
    elif command.target != tree.NONE:
        help_ = "Where the graph is: a path, file:///path or s3://bucket/prefix.  [env: OMNIGRAPH_URI]"
        add("positional", Annotated[str | None, typer.Argument(metavar="URI", show_default=False, help=help_)], None)
    if command.target != tree.NONE:
        add("uri", Annotated[str | None, typer.Option("--uri", metavar="URI", help="The same, as an option.")], None)
        add(
            "options",
            Annotated[
                list[str] | None,
                typer.Option(
                    "--storage-option", metavar="KEY=VALUE", help="Option of the store's connection; may be repeated."
                ),
            ],
            None,
        )
        add(
            "actor",
            Annotated[str | None, typer.Option("--as", metavar="ACTOR", help="Who a write is recorded for.")],
            None,
        )
        durability = (
            "What a commit on a local disk survives: commit (a power cut) or relaxed.  [env: OMNIGRAPH_DURABILITY]"
        )
        add(
            "durability",
            Annotated[str | None, typer.Option("--durability", metavar="MODE", help=durability)],
            None,
        )
        verify = (
            "Compare files on a local disk with their checksums before their first use.  [env: OMNIGRAPH_VERIFY_READS]"
        )
        add("verify_reads", Annotated[bool, typer.Option("--verify-reads", help=verify)], False)
    add("as_json", Annotated[bool, typer.Option("--json", help="Print one JSON document.")], False)
    add("quiet", Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")], False)
    add(
        "verbose", Annotated[bool, typer.Option("--verbose", help="With an internal error, print where it was.")], False
    )
    return found


def _callback(command: tree.Command) -> Callable[..., int]:
    """What typer calls: the command's own parameters and the shared ones, sorted out again."""
    function = getattr(import_module(command.module), command.function)
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    for parameter in own:
        offer(parameter.annotation)
    shared = _shared(command)

    def callback(**given: Any) -> int:
        common = {parameter.name: given.pop(parameter.name) for parameter in shared}
        return _execute(command, function, common, given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *shared)]
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    callback.__doc__ = inspect.getdoc(function)
    return callback


def _call(command: tree.Command, screen: Screen, common: dict[str, Any]) -> Call:
    subjects: Sequence[str] = [""]
    given_uri = common.get("positional")
    if command.subject is not None:
        elsewhere = bool(common.get("uri") or os.environ.get(URI_VARIABLE))
        subjects, given_uri = _sort_out(command.subject, common["positionals"], elsewhere=elsewhere)
    by_option = common.get("uri")
    if given_uri and by_option and given_uri != by_option:
        raise Usage("two graphs are named, by position and by --uri", hint="give one of them")
    return Call(
        command,
        screen,
        as_json=common["as_json"],
        actor=common.get("actor"),
        durability=common.get("durability"),
        verify_reads=common.get("verify_reads") or None,  # not given: the environment says
        options=storage_options(common.get("options") or ()),
        given_uri=given_uri or by_option,
        subject=subjects[0],
        subjects=tuple(subjects),
    )


def _sort_out(name: str, given: Sequence[str], *, elsewhere: bool = False) -> tuple[Sequence[str], str | None]:
    """``[URI] ID`` in either order: an id has a form of its own, and a graph of this disk is a folder. Where a command takes
    more than one subject, the URI comes first; a subject in brackets may be left out. ``elsewhere``: the URI is also given in
    another way."""
    words = name.split()
    wanted = len(words)
    needed = sum(not word.startswith("[") for word in words)
    if needed < wanted and len(given) == wanted and (_is_graph(given[0]) or not elsewhere):
        return given[1:], given[0]
    if needed <= len(given) <= wanted:
        return given, None
    if len(given) != wanted + 1:
        few = "few" if len(given) < wanted else "many"
        raise Usage(f"too {few} arguments: give a URI and {name if wanted > 1 else f'one {name}'}")
    if wanted > 1:
        return given[1:], given[0]
    first, second = given
    if _looks_like_an_id(first) and not _looks_like_an_id(second):
        return [first], second
    if not _is_graph(first) and _is_graph(second):
        return [first], second
    return [second], first


def _is_graph(text: str) -> bool:
    return "://" in text or os.path.isdir(text)


def _looks_like_an_id(text: str) -> bool:
    return len(text) == _ULID_CHARS and text.isalnum()


# --- running, and every way to end --------------------------------------------------------------------------------------


def run(argv: Sequence[str]) -> int:
    """Parse, run, and say how it ended."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if "--json" in argv and _VERSION.intersection(argv) and not {*argv} - {*_VERSION, "--json"}:
        argv = ["version", "--json"]
    try:
        code = root().main(args=list(argv), prog_name=PROGRAM, standalone_mode=False)
    except _UsageError as error:
        return _usage(error, argv)
    except KeyboardInterrupt:
        return Interrupted.exit_code
    return code if isinstance(code, int) else 0


def _usage(error: Any, argv: Sequence[str]) -> int:
    """What typer says about a command line."""
    context = getattr(error, "ctx", None)
    path = PROGRAM if context is None else context.command_path
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.format_message() + "\n")
        return Usage.exit_code
    message = redact_text(error.format_message()).rstrip(".").replace(": Value error, ", ": ")
    hint = f"run `{path} --help`"
    if type(error).__name__ == "NoSuchOption" and isinstance(getattr(context, "command", None), LazyGroup):
        hint = f"options come behind the command, as in `omnigraph status --json`; run `{path} --help` for the commands"
    fault = Usage(" ".join(message.split()), hint=hint)
    return _fail(fault, Screen(), as_json="--json" in argv)


def _execute(
    command: tree.Command, function: Callable[..., Answer], common: dict[str, Any], given: dict[str, Any]
) -> int:
    as_json: bool = common["as_json"]
    screen = Screen(quiet=common["quiet"])
    try:
        with _logging():
            answer = function(_call(command, screen, common), **given)
            if as_json:
                screen.document({"schema_version": SCHEMA_VERSION, "ok": True, "result": answer.result.to_dict()})
            else:
                answer.show(screen)
            screen.flush()
        return 0
    except OmnigraphError as error:
        return _fail(error, screen, as_json=as_json)
    except KeyboardInterrupt:
        return _fail(Interrupted("interrupted"), screen, as_json=as_json)
    except BrokenPipeError:
        _let_go_of_stdout()
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last door: nothing may leave as a traceback
        if common["verbose"]:
            sys.stderr.write(redact_text(traceback.format_exc()))
        fault = OmnigraphError(
            f"{type(error).__name__}: {error}",
            hint="this is a fault of the program: repeat the command with --verbose and report what it prints",
        )
        return _fail(fault, screen, as_json=as_json)


@contextmanager
def _logging() -> Iterator[None]:
    """Records of the engine on standard error, where the environment asks for them."""
    level = os.environ.get(LOG_VARIABLE, "").strip().lower()
    if not level:
        yield
        return
    form = os.environ.get(LOG_FORMAT_VARIABLE, "json").strip().lower()
    if level not in _LEVELS or form not in _FORMS:
        raise Usage(
            f"{LOG_VARIABLE} is one of {', '.join(_LEVELS)} and {LOG_FORMAT_VARIABLE} one of {', '.join(_FORMS)}",
            hint=f"for example {LOG_VARIABLE}=info",
        )
    from omnigraph.core import logs

    handler = logs.to_stream(sys.stderr, level=level, as_json=form == "json")
    try:
        yield
    finally:
        logs.take_off(handler)


def _fail(error: OmnigraphError, screen: Screen, *, as_json: bool) -> int:
    try:
        body = {**error.to_dict(), "hint": as_options(error.hint)}
        if as_json:
            screen.document({"schema_version": SCHEMA_VERSION, "ok": False, "error": _redacted(body)})
            screen.flush()
        screen.error(body)
    except BrokenPipeError:
        _let_go_of_stdout()
    return error.exit_code


def as_options(hint: str) -> str:
    """A hint written for Python callers, in the words of the command line: ``mode="merge"`` is ``--mode merge``."""
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2]}", hint)


def _redacted(value: Any) -> Any:
    """An error body as JSON values without credentials, whatever a fact may hold."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {str(name): _redacted(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted(each) for each in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return redact_text(str(value))


def _let_go_of_stdout() -> None:
    """The reader of the pipe has left: what is still buffered must not complain at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
