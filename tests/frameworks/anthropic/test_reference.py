"""The memory tool beside the local one of the client: the same commands, and the same words, errors too."""

from __future__ import annotations

import asyncio
import re
import tempfile
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import holdfast
from holdfast.anthropic import AsyncMemoryTool, MemoryTool
from tests.support import SHARED_MEMORY, figure

names = st.sampled_from(["a", "b.md", "ü", ".hidden", "notes", "..", ".", "", "A b", "日本"])
paths = st.one_of(
    st.builds(lambda parts: "/memories/" + "/".join(parts), st.lists(names, max_size=4)),
    st.sampled_from(
        [
            "/memories",
            "/memories/",
            "/memoriesa",
            "memories/a",
            "/etc/passwd",
            "",
            "/memories/../a",
            "/memories/../memories/a",
            "/memories/a/../../..",
            "/memories/a/../b.md",
            "/memories//a",
        ]
    ),
)
few_paths = st.sampled_from(["/memories/a", "/memories/notes/b.md"])
few_folders = st.sampled_from(["/memories/notes", "/memories/A b/ü", "/memories/.hidden"])
targets = st.sampled_from(
    [
        "/memories/c",
        "/memories/notes/c",
        "/memories/new/ü/c.md",
        "/memories/A b/ü",
        "/memories/a/x",
        "/memories/notes/notes/n",
    ]
)
line_texts = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(st.sampled_from(["one", "two", "three", "four", "five", "", "x\r"]), min_size=2, max_size=9),
    st.sampled_from(["", "\n", "\n\n"]),
)
words = st.sampled_from(["one", "two", "three", "four", "five", "o", "e\n", "\n"])
texts = st.text(st.sampled_from("ab\n\r\t é😀`"), max_size=12)
ranges = st.one_of(st.none(), st.lists(st.integers(-2, 6), max_size=3))


def normalize(text: str) -> str:
    """Without the sizes of directories, which are those of the file system."""
    lines = text.split("\n")
    if not text.startswith("Here're"):
        return text
    lines[1] = re.sub("^[^\t]*", "*", lines[1])
    return "\n".join(re.sub("^[^\t]*", "*", line) if line.endswith("/") else line for line in lines)


def answer(tool: Any, command: dict[str, Any]) -> tuple[str, str]:
    """What the tool says, and how. An error of the file system has no words of its own."""
    try:
        return "ok", normalize(tool.call(command))
    except ToolError as error:
        return "error", str(error)
    except OSError:
        return "refused", ""


class BothTools(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=SHARED_MEMORY)
        self.reference = BetaLocalFilesystemMemoryTool(self.folder.name)
        self.engine = holdfast.open("memory:")
        self.tool = MemoryTool(self.engine, user="ada", facts=False)

    def run(self, **command: Any) -> None:
        expected, given = answer(self.reference, command), answer(self.tool, command)
        if expected[0] == "refused":
            assert given[0] == "error", (command, given)
        else:
            assert given == expected, command

    @rule(path=paths, view_range=ranges)
    def view(self, path: str, view_range: list[int] | None) -> None:
        self.run(command="view", path=path, view_range=view_range)

    @rule(path=paths, file_text=texts)
    def create(self, path: str, file_text: str) -> None:
        self.run(command="create", path=path, file_text=file_text)

    @rule(path=paths, old_str=texts, new_str=texts)
    def str_replace(self, path: str, old_str: str, new_str: str) -> None:
        self.run(command="str_replace", path=path, old_str=old_str, new_str=new_str)

    @rule(path=paths, insert_line=st.integers(-1, 5), insert_text=texts)
    def insert(self, path: str, insert_line: int, insert_text: str) -> None:
        self.run(command="insert", path=path, insert_line=insert_line, insert_text=insert_text)

    @rule(path=few_paths, file_text=line_texts)
    def create_lines(self, path: str, file_text: str) -> None:
        self.run(command="delete", path=path)
        self.run(command="create", path=path, file_text=file_text)

    @rule(path=few_paths, old_str=words, new_str=st.one_of(words, line_texts))
    def replace_word(self, path: str, old_str: str, new_str: str) -> None:
        self.run(command="create", path=path, file_text="one\ntwo\n")
        self.run(command="str_replace", path=path, old_str=old_str, new_str=new_str)
        self.run(command="view", path=path, view_range=None)

    @rule(path=few_paths, insert_line=st.integers(0, 6), insert_text=line_texts)
    def insert_lines(self, path: str, insert_line: int, insert_text: str) -> None:
        self.run(command="create", path=path, file_text="one\n")
        self.run(command="insert", path=path, insert_line=insert_line, insert_text=insert_text)
        self.run(command="view", path=path, view_range=[insert_line, insert_line + 3])

    @rule(path=paths)
    def delete(self, path: str) -> None:
        self.run(command="delete", path=path)

    @rule(old_path=paths, new_path=paths)
    def rename(self, old_path: str, new_path: str) -> None:
        self.run(command="rename", old_path=old_path, new_path=new_path)

    @rule(path=few_paths, new_path=targets, back=st.booleans())
    def rename_file(self, path: str, new_path: str, back: bool) -> None:
        self.run(command="create", path=path, file_text="one\n")
        self.run(command="rename", old_path=path, new_path=new_path)
        if back:
            self.run(command="rename", old_path=new_path, new_path=path)

    @rule(old_path=few_folders, new_path=targets)
    def rename_folder(self, old_path: str, new_path: str) -> None:
        self.run(command="create", path=f"{old_path}/in.md", file_text="one\n")
        self.run(command="rename", old_path=old_path, new_path=new_path)

    @rule(path=few_paths, below=st.sampled_from(["x", "x/y"]))
    def go_inside_a_file(self, path: str, below: str) -> None:
        """The file system has no words for this, so only the memory tool has."""
        self.run(command="create", path=path, file_text="one\n")
        for command in ("view", "delete"):
            self.run(command=command, path=f"{path}/{below}")
        self.run(command="create", path=f"{path}/{below}", file_text="two\n")
        self.run(command="rename", old_path=path, new_path=f"{path}/{below}")

    @rule()
    def clear(self) -> None:
        assert self.tool.clear_all_memory() == self.reference.clear_all_memory()

    @invariant()
    def both_show_the_same(self) -> None:
        self.run(command="view", path="/memories")

    def teardown(self) -> None:
        assert self.engine.admin.verify().ok
        self.engine.close()
        self.folder.cleanup()


BothTools.TestCase.settings = settings(max_examples=figure(60, 2_000), stateful_step_count=25, deadline=None)
TestBothTools = BothTools.TestCase


WRONG = ("memories/a", "/memories/../a")
EVERY_TEXT: list[tuple[str, dict[str, Any]]] = [
    ("Here're the files and directories up to 2 levels deep in /memories,", {"command": "view", "path": "/memories"}),
    *(
        (start, {"command": command, name: path, **fields})
        for command, names, fields in (
            ("view", ["path"], {}),
            ("create", ["path"], {"file_text": "x"}),
            ("str_replace", ["path"], {"old_str": "x", "new_str": "y"}),
            ("insert", ["path"], {"insert_line": 0, "insert_text": "x"}),
            ("delete", ["path"], {}),
            ("rename", ["old_path"], {"new_path": "/memories/z"}),
            ("rename", ["new_path"], {"old_path": "/memories/z"}),
        )
        for name in names
        for path, start in zip(
            WRONG, ("Path must start with /memories", "Path /memories/../a would escape"), strict=True
        )
    ),
    ("File created successfully", {"command": "create", "path": "/memories/d/a", "file_text": "one\ntwo\none"}),
    ("File /memories/d/a already", {"command": "create", "path": "/memories/d/a", "file_text": "x"}),
    ("File /memories/d already", {"command": "create", "path": "/memories/d", "file_text": "x"}),
    ("Here's the content of /memories/d/a", {"command": "view", "path": "/memories/d/a", "view_range": [2, -1]}),
    ("The path /memories/none does not", {"command": "view", "path": "/memories/none"}),
    (
        "The path /memories/none does not",
        {"command": "str_replace", "path": "/memories/none", "old_str": "", "new_str": ""},
    ),
    (
        "The path /memories/none does not",
        {"command": "insert", "path": "/memories/none", "insert_line": 0, "insert_text": ""},
    ),
    ("The path /memories/none does not", {"command": "delete", "path": "/memories/none"}),
    ("The path /memories/d is not", {"command": "str_replace", "path": "/memories/d", "old_str": "", "new_str": ""}),
    ("The path /memories/d is not", {"command": "insert", "path": "/memories/d", "insert_line": 0, "insert_text": ""}),
    (
        "No replacement was performed, old_str `six`",
        {"command": "str_replace", "path": "/memories/d/a", "old_str": "six", "new_str": ""},
    ),
    (
        "No replacement was performed. Multiple occurrences of old_str `one` in lines: 1, 3.",
        {"command": "str_replace", "path": "/memories/d/a", "old_str": "one", "new_str": ""},
    ),
    (
        "The memory file has been edited.",
        {"command": "str_replace", "path": "/memories/d/a", "old_str": "two", "new_str": "2\n2"},
    ),
    (
        "Invalid `insert_line` parameter: 9. It should be within the range [0, 4].",
        {"command": "insert", "path": "/memories/d/a", "insert_line": 9, "insert_text": ""},
    ),
    (
        "The file /memories/d/a has been edited.",
        {"command": "insert", "path": "/memories/d/a", "insert_line": 4, "insert_text": "end\n\n"},
    ),
    (
        "Successfully renamed /memories/d/a to /m",
        {"command": "rename", "old_path": "/memories/d/a", "new_path": "/memories/e/f/a"},
    ),
    (
        "The path /memories/d/a does not",
        {"command": "rename", "old_path": "/memories/d/a", "new_path": "/memories/g/a"},
    ),
    (
        "The destination /memories/g already",
        {"command": "rename", "old_path": "/memories/e", "new_path": "/memories/g"},
    ),
    (
        "Successfully renamed /memories/e to /m",
        {"command": "rename", "old_path": "/memories/e", "new_path": "/memories/g/e"},
    ),
    ("Cannot rename the /memories", {"command": "rename", "old_path": "/memories", "new_path": "/memories/h"}),
    ("Cannot delete the /memories", {"command": "delete", "path": "/memories/"}),
    ("Successfully deleted /memories/g", {"command": "delete", "path": "/memories/g"}),
    ("File created successfully", {"command": "create", "path": "/memories/long", "file_text": "\n" * 999_999}),
    ("File /memories/long exceeds maximum line limit", {"command": "view", "path": "/memories/long"}),
]


def test_every_text_of_the_reference_is_said_alike(file_engine: holdfast.Engine) -> None:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        tools = BetaLocalFilesystemMemoryTool(folder), MemoryTool(file_engine, user="ada")
        for start, command in EVERY_TEXT:
            expected, given = (answer(tool, command) for tool in tools)
            assert expected[1].startswith(start), command
            assert given == expected, command
            listed = [answer(tool, {"command": "view", "path": "/memories"}) for tool in tools]
            assert listed[0] == listed[1]


def test_a_missing_file_is_missing_wherever_it_is_moved_to(file_engine: holdfast.Engine) -> None:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        tools = BetaLocalFilesystemMemoryTool(folder), MemoryTool(file_engine, user="ada")
        for tool in tools:
            tool.call({"command": "create", "path": "/memories/a", "file_text": "x"})
        for new in ("/memories/a/b", "/memories/c/d", "/memories/c"):
            command = {"command": "rename", "old_path": "/memories/none/x", "new_path": new}
            expected, given = (answer(tool, command) for tool in tools)
            assert given == expected, new
        listed = [answer(tool, {"command": "view", "path": "/memories"}) for tool in tools]
        assert listed[0] == listed[1]


@pytest.mark.parametrize("size", [0, 1, 5, 1_023, 1_024, 1_536, 100_000, 1 << 20, (1 << 20) + 1])
def test_sizes_are_written_alike(size: int, file_engine: holdfast.Engine) -> None:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        reference, tool = BetaLocalFilesystemMemoryTool(folder), MemoryTool(file_engine, user="ada")
        command = {"command": "create", "path": "/memories/a", "file_text": "x" * size}
        assert tool.call(command) == reference.call(command)
        view = {"command": "view", "path": "/memories"}
        assert normalize(str(tool.call(view))) == normalize(str(reference.call(view)))


def test_the_async_tool_says_the_same(file_engine: holdfast.Engine) -> None:
    tool, async_tool = MemoryTool(file_engine, user="ada"), AsyncMemoryTool(file_engine, user="bob")
    commands: list[dict[str, Any]] = [
        {"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\n"},
        {"command": "create", "path": "/memories/a.md", "file_text": "again"},
        {"command": "view", "path": "/memories/a.md"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "three"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": "middle"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b/c.md"},
        {"command": "view", "path": "/memories"},
        {"command": "delete", "path": "/memories/b"},
        {"command": "delete", "path": "/memories/b"},
    ]
    for command in commands:
        expected = answer(tool, command)
        try:
            given = ("ok", normalize(str(asyncio.run(async_tool.call(command)))))
        except ToolError as error:
            given = ("error", str(error))
        assert given == expected
    assert asyncio.run(async_tool.clear_all_memory()) == "All memory cleared"
    assert async_tool.to_dict() == tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_odd_paths_and_texts_are_refused_with_words(file_engine: holdfast.Engine) -> None:
    tool = MemoryTool(file_engine, user="ada")
    odd: list[dict[str, Any]] = [
        {"command": "create", "path": "/memories/a\0b", "file_text": "x"},
        {"command": "create", "path": "/memories/a\ud800", "file_text": "x"},
        {"command": "create", "path": "/memories/a", "file_text": "\ud800"},
        {"command": "create", "path": "/memories/" + "x" * 5_000, "file_text": "x"},
        {"command": "view", "path": None},
        {"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "\ud800"},
    ]
    for command in odd:
        assert answer(tool, command)[0] == "error", command
    assert tool.files.paths() == []
