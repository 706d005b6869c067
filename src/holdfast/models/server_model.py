"""A model on a server that an official client talks to: what OpenAIModel and AnthropicModel share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.model import limits
from holdfast.model.names import check_name, check_whole
from holdfast.models.model import Model, ModelReply, ModelRequest, check_timeout
from holdfast.models.transport import BodyReader, import_extra, open_clients, translated_errors


class ServerModel(Model):
    """A model that an official client asks. The client is imported when the model is made."""

    _library_name: ClassVar[str]
    _client_names: ClassVar[tuple[str, str]]

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = limits.MODEL_TIMEOUT_S,
        max_tokens: int = limits.MODEL_ANSWER_TOKENS,
        options: Mapping[str, Any] | None = None,
        client: Any = None,
        async_client: Any = None,
    ) -> None:
        """`options` are more fields of every request, such as `temperature`. `client` and `async_client` are clients of
        your own; they are not closed."""
        self.name = check_name("model", model)
        self.timeout_s = check_timeout(timeout_s)
        self.max_tokens = check_whole("max_tokens", max_tokens, 1)
        self._base_url = base_url
        self._options = dict(options or {})
        self._library = import_extra(self._library_name, type(self).__name__, self._library_name)
        names = self._client_names
        self._clients = open_clients(self._library, names, base_url, api_key, client, async_client)

    def close(self) -> None:
        """Close the connections."""
        self._clients.close()

    async def close_async(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.close_async()

    def _send(self, request: ModelRequest) -> ModelReply:
        reader = BodyReader(self.name, request.deadline_s)
        with translated_errors(self._library, self.name):
            create = self._endpoint(self._clients.client).with_streaming_response.create
            with create(**self._build_body(request), timeout=request.left_s) as response:
                return self._read_reply(reader.read(response.iter_bytes()))

    async def _send_async(self, request: ModelRequest) -> ModelReply:
        reader = BodyReader(self.name, request.deadline_s)
        with translated_errors(self._library, self.name):
            create = self._endpoint(self._clients.async_client).with_streaming_response.create
            async with create(**self._build_body(request), timeout=request.left_s) as response:
                return self._read_reply(await reader.read_async(response.iter_bytes()))

    @abstractmethod
    def _endpoint(self, client: Any) -> Any:
        """The resource of the client that makes replies."""

    @abstractmethod
    def _build_body(self, request: ModelRequest) -> dict[str, Any]:
        """The fields of a request."""

    @abstractmethod
    def _read_reply(self, body: dict[str, Any]) -> ModelReply:
        """The reply in the body of an answer."""
