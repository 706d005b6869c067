"""Generate the async twins of sessions, facets and ledgers: `python tools/twins.py` (`make twins`).

`runtime/{facets,ledgers,memory,sessions}.py` are written by hand and block. Each has a twin `runtime/async_*.py` with the
same methods as coroutines. A test compares the twins with the output of this tool.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

RUNTIME = Path(__file__).resolve().parent.parent / "src" / "holdfast" / "runtime"
MODULES = ("facets", "ledgers", "memory", "sessions")
HEADER = "# Generated from {source} by tools/twins.py: do not edit.\n\n"
_CLASSES = re.compile(
    r"\b(_?)(Session|Frame|Ledger|Conversation|\w+Facet|(?:Conversation|Engine|Ledger)Base|(?:Frame|Turn)Block)\b"
)
_METHODS = re.compile(r"(?=^    (?:def |@))", re.MULTILINE)
_DRIVES = re.compile(r"(self|other|into)\.(_drive|_run|_run_own|_run_in_ledger_of|_open_fork)\(")
_STRINGS = re.compile(r'(""".*?""")', re.DOTALL)
_EXAMPLE_CALL = re.compile(r"\b(?:session|frame|ledger|engine|client)\.[\w.]+(?<!tool)(?<!\.ledger)\(")


def build_twin(source: str, name: str) -> str:
    """Return the text of the twin of a module."""
    head, *classes = re.split(r"(?=^class )", source, flags=re.MULTILINE)
    head = head.replace("from holdfast.runtime.base ", "from holdfast.runtime.async_base ")
    for module in MODULES:
        head = head.replace(f"from holdfast.runtime.{module} ", f"from holdfast.runtime.async_{module} ")
    head = re.sub(r"\b(read_handle_tool|recall_memory_tool|situation_tool)\b", r"async_\1", head)
    head = head.replace("here it blocks", "here it is awaited")
    body = "".join(_rename_classes(_await_methods(each)) for each in classes)
    if "AwaitableFrame" in body:
        head = head.replace(
            "from holdfast.runtime.async_base import ", "from holdfast.runtime.async_base import AwaitableFrame, "
        )
    if "Coroutine[" in body:
        head = head.replace("from collections.abc import ", "from collections.abc import Coroutine, ")
    return HEADER.format(source=name) + _rename_classes(head) + body


def _await_methods(text: str) -> str:
    first, *methods = _METHODS.split(text)
    return _await_examples(first) + "".join(map(_await_method, methods))


def _await_method(text: str) -> str:
    if "self._open_frame(" in text:
        text = text.replace(") -> Frame:", ") -> AwaitableFrame:")
    elif "_tool(self)" in text:
        text = re.sub(r"return (\w+)\(self\)", r"return async_\1(self)", text)
        text = text.replace("-> Callable[..., str]", "-> Callable[..., Coroutine[Any, Any, str]]")
    elif _DRIVES.search(text):
        text = _DRIVES.sub(r"await \1.\2(", text.replace("    def ", "    async def ", 1))
    return _await_examples(text)


def _await_examples(text: str) -> str:
    """Await the calls in the examples of docstrings: lines that are indented deeper than the text."""
    parts = _STRINGS.split(text)
    for number, part in enumerate(parts):
        if part.startswith('"""'):
            indent = len(parts[number - 1]) - len(parts[number - 1].rstrip(" ")) + 4
            lines = part.split("\n")
            parts[number] = "\n".join(_await_line(line) if line.startswith(" " * indent) else line for line in lines)
    return "".join(parts)


def _await_line(line: str) -> str:
    if line.lstrip().startswith("with "):
        return line.replace("with ", "async with ", 1)
    return _EXAMPLE_CALL.sub(lambda call: f"await {call[0]}", line)


def _rename_classes(text: str) -> str:
    """Rename classes in code and annotations, not in prose."""
    parts = _STRINGS.split(text)
    return "".join(part if part.startswith('"""') else _CLASSES.sub(r"\1Async\2", part) for part in parts)


def format_twin(text: str, path: Path) -> str:
    """Sort the imports and format the code, as ruff does."""
    for options in (["check", "--fix", "--select", "I,F401", "-q"], ["format", "-q"]):
        command = [sys.executable, "-m", "ruff", *options, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def build_all() -> dict[Path, str]:
    """Return the text of every twin, by its path."""
    twins = {}
    for module in MODULES:
        target = RUNTIME / f"async_{module}.py"
        twins[target] = format_twin(build_twin((RUNTIME / f"{module}.py").read_text(), f"{module}.py"), target)
    return twins


if __name__ == "__main__":
    for path, twin in build_all().items():
        path.write_text(twin)
