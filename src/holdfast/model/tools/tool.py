"""Tools: descriptions for providers, and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import InvalidArgument, describe_value

_ERROR_CHARS = 2_000
"""The longest error about arguments that a model sees."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of a tool for providers. Each method returns the same bytes every time."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    strict: bool = False
    """Whether OpenAI enforces the schema."""

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
        """Build a tool from a function: its name, its docstring, and a schema of its parameters.

        The description of a parameter comes from Annotated[type, "text"], or from the docstring (Google, numpy or
        reStructuredText). `exclude` names parameters that the program passes and models do not see. With `strict`, OpenAI
        enforces the schema: every parameter is then required, and one with a default may be null.

        The tool can be called like the function. session.run() checks the arguments of a call and converts them to the
        annotated types first; the model sees what is wrong with them. Raises InvalidTool, which names the parameter."""
        from holdfast.model.tools import signatures  # noqa: PLC0415 - a good part of the time of an import

        names = signatures.read_caller_locals(1)
        if isinstance(function, FunctionTool):
            function = function.function
        hidden = (exclude,) if isinstance(exclude, str) else tuple(exclude)
        signature = signatures.read_signature(function, name, description, hidden, strict, names)
        return FunctionTool(
            name=signature.name,
            description=signature.description,
            parameters=signature.parameters,
            strict=strict,
            function=function,
            signature=signature,
        )

    def with_function(self, function: Callable[..., Any]) -> FunctionTool:
        """This description with a function that runs it. The function gets the arguments of a call unchanged."""
        if not callable(function):
            raise InvalidArgument(argument="function", reason=f"{describe_value(function)} is not callable")
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

    def gemini(self) -> dict[str, Any]:
        """For `function_declarations` of a tool in the config of models.generate_content()."""
        schema = self._schema(properties=True)
        return {"name": self.name, "description": self.description, "parameters_json_schema": schema}

    def bedrock(self) -> dict[str, Any]:
        """For `tools` in the toolConfig of converse()."""
        about = {"description": self.description} if self.description else {}  # an empty one is refused
        return {"toolSpec": {"name": self.name, **about, "inputSchema": {"json": self._schema()}}}

    def _schema(self, *, properties: bool = False) -> dict[str, Any]:
        """A copy of the schema, which the caller may change. Providers need the schema of an object, OpenAI also one with
        `properties`."""
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.parameters))
        copy.setdefault("type", "object")
        if properties and copy["type"] == "object":
            copy.setdefault("properties", {})
        return copy


class FunctionTool(Tool, frozen=True, kw_only=True, eq=False):
    """A tool with the function that runs it. It can be called like the function."""

    function: Callable[..., Any]
    signature: Any = None
    """The parameters; None if the function takes arguments unchanged."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def declaration(self) -> Tool:
        """The description for models, without the function."""
        return Tool(**{name: getattr(self, name) for name in Tool.__struct_fields__})

    def convert_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, converted to the annotated types. Raises ValueError with a text for the model."""
        if self.signature is None:
            return args
        accepted = self.signature.accepted
        absent = {
            each.name for each in accepted if not each.required and not each.nullable and args.get(each.name) is None
        }
        present = {name: value for name, value in args.items() if name not in absent}
        try:
            decoded = self._decode(present)
        except Exception as error:  # the constructor of a class of the caller may raise anything
            raise ValueError((str(error) or type(error).__name__)[:_ERROR_CHARS]) from error
        values = ((each.name, getattr(decoded, each.name)) for each in accepted)
        return {name: value for name, value in values if value is not msgspec.UNSET}

    def _decode(self, args: dict[str, Any]) -> Any:
        """Decode the arguments. For JSON schema, 2.0 is a whole number; for the decoder, it is not."""
        try:
            return self.signature.decode(msgspec.json.encode(args))
        except msgspec.ValidationError:
            integral = _with_whole_numbers(args)
            if msgspec.json.encode(integral) == msgspec.json.encode(args):
                raise
            return self.signature.decode(msgspec.json.encode(integral))


def _with_whole_numbers(value: Any) -> Any:
    """A copy of a JSON value in which every integral float is an int."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [_with_whole_numbers(each) for each in value]
    return {key: _with_whole_numbers(each) for key, each in value.items()} if type(value) is dict else value


def describe_tools(tools: Sequence[object]) -> tuple[object, ...]:
    """The tools of a brief: functions become descriptions, other tools stay as they are."""
    return tuple(_describe_tool(each) for each in tools)


def _describe_tool(tool: object) -> object:
    if isinstance(tool, FunctionTool):
        return tool.declaration
    is_function = callable(tool) and not isinstance(tool, type | msgspec.Struct)
    return Tool.from_function(tool).declaration if is_function else tool  # type: ignore[arg-type]


def tools_by_name(function: object) -> Mapping[str, Callable[..., Any]] | None:
    """The tools of a mapping, or of a list of tools and functions, by name; None for a single function."""
    if issubclass(type(function), Mapping):
        tools = _mapping_entries(function)
    elif type(function) in (list, tuple):
        functions: Sequence[Any] = function  # type: ignore[assignment]
        listed = [each if isinstance(each, FunctionTool) else Tool.from_function(each) for each in functions]
        tools = {each.name: each for each in listed}
        if len(tools) < len(listed):
            raise InvalidArgument(argument="function", reason="two of the tools have the same name")
    else:
        return None
    if not tools:
        raise InvalidArgument(argument="function", reason="it has no tools")
    for each in tools.values():
        if not callable(each):
            raise InvalidArgument(argument="function", reason=f"{describe_value(each)} is not callable")
    return tools


def _mapping_entries(mapping: Any) -> dict[str, Any]:
    try:
        return dict(mapping.items())
    except Exception as error:
        raise InvalidArgument(
            argument="function", reason=f"{describe_value(mapping)} cannot be read as a mapping of tools"
        ) from error


def _integer_schema(description: str, least: int | None = None) -> dict[str, Any]:
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
            "start": _integer_schema("from 0; -500 counts from the end: the last 500 bytes"),
            "stop": _integer_schema("exclusive", 0),
            "first_line": _integer_schema("from 1; -20 counts from the end: the last 20 lines"),
            "last_line": _integer_schema("inclusive", 1),
            "search": {"type": "string", "description": "literal text, not a pattern; ignores case"},
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
)
"""The tool that reads stored bodies. Every pack offers it from the first call on, since a change of the tools invalidates
the prompt cache."""

RECALL_MEMORY = Tool(
    name="recall_memory",
    description=(
        "Search what was said earlier and is not shown: in this conversation, and in earlier ones with this user. Returns "
        "quotations with their dates."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "a question, or the words to look for"},
            "since": {"type": "string", "description": "first date, such as 2026-03-01"},
            "until": {"type": "string", "description": "last date, inclusive"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)
"""The tool that searches memory. Every pack of a session with a memory offers it from the first call on."""
