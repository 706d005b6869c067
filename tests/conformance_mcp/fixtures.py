"""The tools, resources and prompts that the conformance suites call by name, as their descriptions ask for them."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PAUSE_S = 0.05
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def embed(uri: str, body: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, text=body, mime_type=mime_type))


class Answer(BaseModel):
    response: str = Field(description="The answer of the user")


class Defaults(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def _titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["a", "b", "c"]})  # noqa: N815 - named by the suite
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled(("a", "A"), ("b", "B"))})  # type: ignore[dict-item]  # noqa: N815
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": ["a", "b"]}})  # noqa: N815
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": _titled(("a", "A"), ("b", "B"))}})  # type: ignore[dict-item]  # noqa: N815
    legacyEnum: str = Field(json_schema_extra={"enum": ["s", "m"], "enumNames": ["Small", "Medium"]})  # noqa: N815


def add_contents(server: MCPServer[Any]) -> None:
    """Tools that return each kind of content."""

    @server.tool()
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool()
    def test_image_content() -> list[ImageContent]:
        return [ImageContent(type="image", data=PIXEL, mime_type="image/png")]

    @server.tool()
    def test_audio_content() -> list[AudioContent]:
        return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]

    @server.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        return [embed("test://embedded-resource", "This is an embedded resource content.")]

    @server.tool()
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        mixed = embed("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return [text("Multiple content types test:"), image, mixed]

    @server.tool()
    def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")

    @server.tool()
    def test_x_mcp_header(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none",
    ) -> str:
        return f"region={region}"

    @server.tool(name="json_schema_2020_12_tool")
    def schema_tool() -> str:
        return "json_schema_2020_12_tool"

    found = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert found is not None
    found.parameters = SCHEMA_2020_12  # the SDK builds schemas from signatures only


def add_talk(server: MCPServer[Any]) -> None:
    """Tools that talk to the client while they run."""

    @server.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.info(line)
            await asyncio.sleep(PAUSE_S)
        return "Tool with logging executed successfully"

    @server.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"Completed step {done} of 100")
            await asyncio.sleep(PAUSE_S)
        meta = ctx.request_context.meta
        return str(meta.get("progress_token") if meta else 0)

    @server.tool()
    async def test_sampling(prompt: str, ctx: Context) -> str:
        asked = [SamplingMessage(role="user", content=text(prompt))]
        reply = await ctx.session.create_message(asked, max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {reply.content.text if reply.content.type == 'text' else 'no text'}"


def add_forms(server: MCPServer[Any]) -> None:
    """Tools that show a form to the user while they run."""

    async def elicit(ctx: Context, message: str, schema: type[BaseModel]) -> str:
        answer = await ctx.elicit(message, schema)
        content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
        return f"action={answer.action}, content={content}"

    @server.tool()
    async def test_elicitation(message: str, ctx: Context) -> str:
        return f"User response: {await elicit(ctx, message, Answer)}"

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        return f"Elicitation completed: {await elicit(ctx, 'Please review these values', Defaults)}"

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        return f"Elicitation completed: {await elicit(ctx, 'Please choose', Choices)}"


def add_endings(server: MCPServer[Any]) -> None:
    """Tools that end in another way."""

    @server.tool()
    async def test_reconnection(ctx: Context) -> str:
        await ctx.info("Before disconnect")
        await ctx.close_sse_stream()
        await asyncio.sleep(4 * PAUSE_S)
        return "Reconnection test completed"

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        capabilities = ctx.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                "This tool needs the capability `sampling`",
                {"requiredCapabilities": {"sampling": {}}},
            )
        return "The client can sample."


def add_changes(server: MCPServer[Any]) -> None:
    """Tools that change the lists, and say so."""

    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> str:
        server.add_tool(lambda: "dynamic", name="test_dynamic_tool")
        server.remove_tool("test_dynamic_tool")
        await ctx.notify_tools_changed()
        return "tool list changed"

    @server.tool()
    async def test_trigger_prompt_change(ctx: Context) -> str:
        server.add_prompt(Prompt.from_function(lambda: "dynamic", name="test_dynamic_prompt", description="dynamic"))
        server.remove_prompt("test_dynamic_prompt")
        await ctx.notify_prompts_changed()
        return "prompt list changed"


def add_resources(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource("test://template/{id}/data")
    def template(id: str) -> str:  # noqa: A002 - named by the suite
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource("test://watched-resource")
    def watched() -> str:
        return "Watched resource content"


def add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        return [UserMessage(content=text("This is a simple prompt for testing."))]

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        return [UserMessage(content=text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - named by the suite
        embedded = embed(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(content=embedded), UserMessage(content=text("Please process the embedded resource above."))]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return [UserMessage(content=image), UserMessage(content=text("Please analyze the image above."))]


def add_legacy(server: MCPServer[Any]) -> None:
    """What 2026-07-28 has removed, and earlier versions ask for."""

    async def accept(_ctx: ServerRequestContext[Any, Any], _params: Any) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server
    lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)


def add_fixtures(server: MCPServer[Any]) -> None:
    for add in (add_contents, add_talk, add_forms, add_endings, add_changes, add_resources, add_prompts, add_legacy):
        add(server)


def describe_fixtures(server: MCPServer[Any]) -> None:
    """The suites want a description of every tool and prompt."""
    listed: list[Any] = [*server._tool_manager.list_tools(), *server._prompt_manager.list_prompts()]
    for each in listed:
        each.description = each.description or f"A fixture of the conformance suites: {each.name}."
