"""Tools as providers want to be told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import InvalidContent, shown

_SHOWN_CHARS = 2_000
"""What a model is told of what is wrong with its arguments."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as providers want to be told of it. Each method makes the same bytes every time."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    strict: bool = False
    """OpenAI is asked to hold the model to the schema."""

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        *,
        exclude: Iterable[str] = (),
        strict: bool = False,
    ) -> FunctionTool:
        """A tool made of a function: its name, its docstring, and a schema of its parameters.

        What each parameter is for is taken from Annotated[type, "text"], or from the docstring (Google, numpy or
        reStructuredText). `exclude` names parameters that the program gives and no model is told of. With `strict`, OpenAI
        holds the model to the schema: every parameter is required then, and one with a default may be null.

        The tool can be called as the function can. Given to run(), the arguments of a call are checked and converted to the
        annotated types first; what is wrong with them is told to the model. Raises InvalidTool, with the parameter."""
        from holdfast.model import signatures  # noqa: PLC0415 - a good part of the time of an import

        names = signatures.caller_names(1)
        if isinstance(function, FunctionTool):
            function = function.function
        hidden = (exclude,) if isinstance(exclude, str) else tuple(exclude)
        found = signatures.read_signature(function, name, description, hidden, strict, names)
        return FunctionTool(
            name=found.name,
            description=found.description,
            parameters=found.parameters,
            strict=strict,
            function=function,
            signature=found,
        )

    def with_function(self, function: Callable[..., Any]) -> FunctionTool:
        """This description, and the function that runs it. That gets the arguments of a call as they came."""
        if not callable(function):
            raise InvalidContent(reason=f"a tool is something to call, not {shown(function)}")
        about = {name: getattr(self, name) for name in Tool.__struct_fields__}
        return FunctionTool(**about, function=function)

    def openai(self) -> dict[str, Any]:
        """For `tools` of chat.completions.create()."""
        schema = self._schema(properties=True)
        function = {"name": self.name, "description": self.description, "parameters": schema}
        return {"type": "function", "function": function | ({"strict": True} if self.strict else {})}

    def openai_responses(self) -> dict[str, Any]:
        """For `tools` of responses.create()."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self._schema(properties=True),
            "strict": self.strict,
        }

    def anthropic(self) -> dict[str, Any]:
        """For `tools` of messages.create()."""
        return {"name": self.name, "description": self.description, "input_schema": self._schema()}

    def _schema(self, *, properties: bool = False) -> dict[str, Any]:
        """A copy: whoever gets it may change it. Providers refuse one that is not the schema of an object, and OpenAI one
        without `properties`."""
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.parameters))
        copy.setdefault("type", "object")
        if properties and copy["type"] == "object":
            copy.setdefault("properties", {})
        return copy


class FunctionTool(Tool, frozen=True, kw_only=True, eq=False):
    """A tool with the function that runs it. It is called as that is."""

    function: Callable[..., Any]
    signature: Any = None
    """What is known of the parameters; None if the function takes them as they come."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def described(self) -> Tool:
        """What a model is told of it, without the function."""
        return Tool(**{name: getattr(self, name) for name in Tool.__struct_fields__})

    def arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, converted to the annotated types. Raises ValueError, in words for the model."""
        if self.signature is None:
            return args
        accepted = self.signature.accepted
        absent = {
            each.name for each in accepted if not each.required and not each.nullable and args.get(each.name) is None
        }
        given = {name: value for name, value in args.items() if name not in absent}
        try:
            found = self._decoded(given)
        except Exception as error:  # a class of the caller's may raise anything when it is made
            raise ValueError((str(error) or type(error).__name__)[:_SHOWN_CHARS]) from error
        values = ((each.name, getattr(found, each.name)) for each in accepted)
        return {name: value for name, value in values if value is not msgspec.UNSET}

    def _decoded(self, given: dict[str, Any]) -> Any:
        """A whole number that a model wrote as 2.0 is one in JSON schema, and not for the decoder."""
        try:
            return self.signature.decode(msgspec.json.encode(given))
        except msgspec.ValidationError:
            whole = _whole(given)
            if msgspec.json.encode(whole) == msgspec.json.encode(given):
                raise
            return self.signature.decode(msgspec.json.encode(whole))


def _whole(value: Any) -> Any:
    """A copy of JSON in which every float that is a whole number is written as one."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [_whole(each) for each in value]
    return {key: _whole(each) for key, each in value.items()} if type(value) is dict else value


def described_tools(tools: Sequence[object]) -> tuple[object, ...]:
    """Tools as a brief has them: functions are described, and what is a tool already stays one."""
    return tuple(_described(each) for each in tools)


def _described(tool: object) -> object:
    if isinstance(tool, FunctionTool):
        return tool.described
    is_function = callable(tool) and not isinstance(tool, type | msgspec.Struct)
    return Tool.from_function(tool).described if is_function else tool  # type: ignore[arg-type]


def tools_by_name(given: object) -> Mapping[str, Callable[..., Any]] | None:
    """Tools to choose from: a mapping as it is, a list of tools and functions by their names; None for a single one."""
    if issubclass(type(given), Mapping):
        found = _entries(given)
    elif type(given) in (list, tuple):
        listed: Sequence[Any] = given  # type: ignore[assignment]
        made = [each if isinstance(each, FunctionTool) else Tool.from_function(each) for each in listed]
        found = {each.name: each for each in made}
        if len(found) < len(made):
            raise InvalidContent(reason="two of the tools have one name")
    else:
        return None
    if not found:
        raise InvalidContent(reason="there are no tools to choose from")
    for each in found.values():
        if not callable(each):
            raise InvalidContent(reason=f"a tool is something to call, not {shown(each)}")
    return found


def _entries(given: Any) -> dict[str, Any]:
    try:
        return dict(given.items())
    except Exception as error:
        raise InvalidContent(reason=f"{shown(given)} cannot be read as a mapping of tools") from error


def _integer(description: str, least: int | None = None) -> dict[str, Any]:
    return {"type": "integer", **({} if least is None else {"minimum": least}), "description": description}


READ_HANDLE = Tool(
    name="read_handle",
    description=(
        "Read what is shown only in part, by the handle in its marker: bytes start to stop, lines first_line to last_line, "
        "or the lines that contain search. A reply is limited in length and says how to go on."
    ),
    parameters={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "such as h12_0"},
            "start": _integer("from 0; -500 counts from the end: the last 500 bytes"),
            "stop": _integer("exclusive", 0),
            "first_line": _integer("from 1; -20 counts from the end: the last 20 lines"),
            "last_line": _integer("inclusive", 1),
            "search": {"type": "string", "description": "literal text, not a pattern; ignores case"},
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
)
"""The tool that reads stored bodies. Every pack offers it from the first call on, whether there is something to read or
not: a list of tools that changes costs the whole cache of a prompt."""
