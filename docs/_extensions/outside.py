"""Links from the pages to files outside of this folder: to a page that has the same contents, or to a copy of the file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s#:]+\.md)(?:#[^)\s]*)?\)")
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}


def rewrite_links(app: Sphinx, page: str, source: list[str]) -> None:
    """Markdown files need this; other files are copied by MyST."""
    folder = Path(app.srcdir, page).parent

    def rewrite(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[2]))
        if target.is_relative_to(app.srcdir):
            return link[0]
        same = PAGES.get(str(target.relative_to(ROOT)))
        if same is None:
            return f"{{download}}`{link[1]} <{link[2]}>`"
        return f"[{link[1]}]({os.path.relpath(app.srcdir / same, folder)})"

    source[0] = LINK.sub(rewrite, source[0])


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("source-read", rewrite_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
