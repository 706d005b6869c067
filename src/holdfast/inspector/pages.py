"""The page of the inspector on a server: `/`, its script and its style.

Laws: these three need no key, since they hold no data; the host name must be right, as for every other request. The page
runs its own script and no other, sends requests to its own server only, and no page can frame it. Whatever text it shows
cannot become a script: the browser refuses (Trusted Types), whatever the page does.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.inspector.files import PATHS, read_file

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",  # kept, and asked for each time: a newer server has a newer page under the same name
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def answer_file(request: Request) -> Response:
    """A file of the page; nothing but its tag if the browser has it."""
    file = read_file(PATHS[request.scope["path"]])
    tag = f'W/"{file.digest[:32]}"'  # weak: the same file may be sent compressed
    headers = {**HEADERS, "ETag": tag}
    if _has_tag(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = file.media_type
    if request.method == "HEAD":
        return Response(headers={**headers, "Content-Length": str(len(file.content))})
    return Response(file.content, headers=headers)


def _has_tag(sent: str, tag: str) -> bool:
    opaque = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") in (opaque, "*") for each in sent.split(","))


def routes() -> list[BaseRoute]:
    """The routes of the page."""
    return [Route(path, answer_file, methods=["GET"]) for path in PATHS]
