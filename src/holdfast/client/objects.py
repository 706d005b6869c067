"""The remote classes: the public classes, with methods that ask a server.

Laws: for each class of the public surface there is a remote one derived from it, blocking and awaited, with the same
methods and signatures. What is in the table of operations is a request; what is not, is in `flows` or raises LocalOnly.
Both worlds share everything but the sending.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from holdfast.client import flows, values
from holdfast.client.calls import RemoteMethod, bind_arguments, call_method, list_methods
from holdfast.client.exchanges import RemoteFlow
from holdfast.flows.context import LedgerContext, SessionContext
from holdfast.model.frames.frames import Ending
from holdfast.model.situation.situations import UPDATE_SITUATION
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY, Tool
from holdfast.runtime import async_base, base, ledgers, sessions

Special = Callable[[RemoteMethod, Any, dict[str, Any]], RemoteFlow[Any]]
SPECIALS: Mapping[str, Special] = {
    "record": flows.record,
    "record_all": flows.record_all,
    "pack": flows.build_pack,
    "withdraw": flows.withdraw,
    "restore": flows.restore,
    "observe": flows.observe,
    "destroy": flows.destroy,
    "resume": flows.resume,
    "Engine.session": flows.open_session,
    "fork": flows.fork,
    "result": values.send_value("value"),
    "frame": values.convert_value("inputs", "the inputs"),
    "Frame.update": values.convert_value("inputs", "the inputs"),
    "pop": values.pop,
    "compact": flows.compact,
    "FrameHandlesFacet.add": values.send_value("content"),
    "FrameHandlesFacet.replace": values.send_value("content"),
    "WorkingFacet.set": values.convert_value("value", "the value"),
    "EnvironmentFacet.set": values.convert_value("value", "the value"),
    "Ledger.set": values.set_fact,
    "FactsFacet.set": values.set_fact,
    "set_all": values.set_all,
    "EntriesFacet.append": values.append_entry,
    "append_all": values.append_entries,
    "act": values.act,
}
"""The methods that do more than one request, by name, or by class and name."""


def build_flow(method: RemoteMethod, holder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RemoteFlow[Any]:
    """What a call of a method does."""
    arguments = bind_arguments(method, holder, args, kwargs)
    special = SPECIALS.get(method.full_name) or SPECIALS.get(method.name) or call_method
    return special(method, holder._context, arguments)


class RemoteBase:
    """What all remote objects have: a driver that asks a server, and a context that names what they work on."""

    _classes: Mapping[type, type]
    """The remote class for each public one, of this world."""

    def __init__(self, drive: Any, context: Any) -> None:
        self._drive = drive
        self._context = context

    def _open(self, answer: Any) -> Any:
        """The session or frame that an answer names; any other answer as it is."""
        if type(answer) is not SessionContext:
            return answer
        return self._classes[sessions.Session if answer.frame is None else sessions.Frame](self._drive, answer)


def _build_blocking(method: RemoteMethod, public: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(public)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._open(self._drive(build_flow(method, self, args, kwargs)))

    return call


def _build_awaited(method: RemoteMethod, public: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(public):  # a frame, to await or to enter

        @functools.wraps(public)
        def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            flow: Any = build_flow(method, self, args, kwargs)
            return async_base.AwaitableFrame(self._drive, flow, self._classes[sessions.Frame])

        return begin

    @functools.wraps(public)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._open(await self._drive(build_flow(method, self, args, kwargs)))

    return call


def _build_facet(public: property, kind: type) -> property:
    """The property of a facet: the remote one."""

    def get(self: Any) -> Any:
        return self._classes[kind](self._drive, self._context)

    get.__doc__ = public.__doc__
    get.__annotations__ = dict(getattr(public.fget, "__annotations__", {}))
    return property(get)


def build_class(public: type, blocking: type, mixins: tuple[type, ...], twins: Mapping[type, type]) -> type:
    """The remote class of a public one. `blocking` is its blocking twin, which the table names; `twins` gives the blocking
    twin of each class of this world."""
    is_awaited = public is not blocking
    namespace: dict[str, Any] = {"__module__": __name__, "__doc__": public.__doc__}
    for name, method in list_methods(blocking).items():
        build = _build_awaited if is_awaited else _build_blocking
        namespace[name] = build(method, getattr(public, name))
    for name, member in inspect.getmembers(public, lambda each: isinstance(each, property)):
        kind: Any = get_type_hints(member.fget).get("return")
        if kind in twins:
            namespace[name] = _build_facet(member, twins[kind])
    for name in {name for mixin in mixins for each in mixin.__mro__ for name in vars(each)}:
        own = next((vars(each)[name] for mixin in mixins for each in mixin.__mro__ if name in vars(each)), None)
        if inspect.isfunction(own) and not name.startswith("_") and hasattr(public, name):
            namespace[name] = _adopt(own, getattr(public, name))
    return type(f"Remote{public.__name__}", (*mixins, RemoteBase, public), namespace)


def _adopt(own: Callable[..., Any], public: Callable[..., Any]) -> Callable[..., Any]:
    """A method of ours with the signature and the docstring of the public one."""
    signature = inspect.signature(public)
    if inspect.iscoroutinefunction(own):

        @functools.wraps(public)
        async def call_awaited(*args: Any, **kwargs: Any) -> Any:
            signature.bind(*args, **kwargs)
            return await own(*args, **kwargs)

        return call_awaited

    @functools.wraps(public)
    def call(*args: Any, **kwargs: Any) -> Any:
        signature.bind(*args, **kwargs)
        return own(*args, **kwargs)

    return call


# What is no operation of the table


class TurnSource:
    """`turn()` of sessions and frames, and the tools that ask the server."""

    _block: type[Any]

    def turn(self, *, lease_s: float = 60, wait_s: float = 30, owner: str | None = None) -> Any:
        return self._block(self, lease_s, wait_s, owner)


class BlockingTurnBlock(base.TurnBlock[Any]):
    """A turn on a conversation of a server."""

    _turns = flows.RemoteTurns


class AwaitedTurnBlock(async_base.AsyncTurnBlock[Any]):
    """A turn on a conversation of a server, for an event loop."""

    _turns = flows.RemoteTurns


def _tool(description: Tool, *, is_awaited: bool) -> Callable[[Any], Any]:
    """A method that returns the function of a tool of the engine."""

    def build(self: Any) -> Any:
        if is_awaited:

            async def ask_awaited(**arguments: object) -> str:
                answer: str = await self._drive(flows.ask_tool(self._context, description.name, arguments))
                return answer

            return description.with_function(ask_awaited)

        def ask(**arguments: object) -> str:
            answer: str = self._drive(flows.ask_tool(self._context, description.name, arguments))
            return answer

        return description.with_function(ask)

    return build


class BlockingConversation(TurnSource):
    """What sessions and frames do beside requests."""

    _drive: Any
    _context: Any
    _check_functions: Any
    _block = BlockingTurnBlock

    def run(self, call: Any, function: Any = None, **options: Any) -> Any:
        self._check_functions(function)
        return self._drive(flows.run_call(self._context, call, function, **options))

    recall_tool = _tool(RECALL_MEMORY, is_awaited=False)


class AwaitedConversation(TurnSource):
    """The same for an event loop."""

    _drive: Any
    _context: Any
    _block = AwaitedTurnBlock

    async def run(self, call: Any, function: Any = None, **options: Any) -> Any:
        return await self._drive(flows.run_call(self._context, call, function, **options))

    recall_tool = _tool(RECALL_MEMORY, is_awaited=True)


class BlockingSession(BlockingConversation):
    """What a session does beside requests."""

    _classes: Mapping[type, type]

    def ledger(self, **names: str | None) -> Any:
        context = self._drive(flows.open_ledger(self._context, names))
        return self._classes[ledgers.Ledger](self._drive, context)


class AwaitedSession(AwaitedConversation):
    """The same for an event loop."""

    _classes: Mapping[type, type]

    async def ledger(self, **names: str | None) -> Any:
        context: LedgerContext = await self._drive(flows.open_ledger(self._context, names))
        return self._classes[ledgers.Ledger](self._drive, context)


class LeftFrame:
    """A frame that ends with its block."""

    _context: Any

    def _leave(self, status: Ending, summary: str) -> Any:
        return flows.leave_frame(self._context, status, summary)


class BlockingFrame(LeftFrame, BlockingConversation):
    """What a frame does beside requests."""


class AwaitedFrame(LeftFrame, AwaitedConversation):
    """The same for an event loop."""


class BlockingFrames:
    """Opens frames by their ids."""

    _drive: Any
    _context: Any
    _open: Any

    def get(self, frame: Any) -> Any:
        return self._open(self._drive(flows.get_frame(self._context, frame)))


class AwaitedFrames:
    """The same for an event loop."""

    _drive: Any
    _context: Any
    _classes: Mapping[type, type]

    def get(self, frame: Any) -> Any:
        flow: Any = flows.get_frame(self._context, frame)
        return async_base.AwaitableFrame(self._drive, flow, self._classes[sessions.Frame])


class BlockingHandleTool:
    tool = _tool(READ_HANDLE, is_awaited=False)


class AwaitedHandleTool:
    tool = _tool(READ_HANDLE, is_awaited=True)


class BlockingSituationTool:
    tool = _tool(UPDATE_SITUATION, is_awaited=False)


class AwaitedSituationTool:
    tool = _tool(UPDATE_SITUATION, is_awaited=True)
