"""The reference of the public names, from signatures and docstrings.

Docstrings are Markdown. Annotations are shown as they are written, with a link to each type. A code span that is a public
name is a link, on every page. Three directives find what they document:

- `public-types:: facts`: the public types of one room of the code (`holdfast/model/facts`); without an argument, those that
  no other directive documents.
- `facets:: holdfast.Session`: the classes of attributes such as `session.facts`.
- `type-aliases::`: the aliases in public annotations.

A public name on no page is a warning."""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
from pathlib import Path

import msgspec
import surface
from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.addnodes import (
    desc_annotation,
    desc_content,
    desc_parameterlist,
    desc_sig_punctuation,
    desc_sig_space,
    pending_xref,
)
from sphinx.application import Sphinx
from sphinx.domains.python._annotations import _parse_annotation
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature
from sphinx.util.nodes import make_refnode

ERRORS = "reference/errors"
PAGES = Path(__file__).parents[1] / "reference"
OBJECT = re.compile(r"^\.\. auto\w+:: ([\w.]+)", re.MULTILINE)
TYPES = re.compile(r"^\.\. public-types:: *([\w ]*)", re.MULTILINE)

OWNERS = ("holdfast.", "holdfast.types.", "holdfast.errors.")
"""Where the names in code spans are looked up."""
LINKED = re.compile(r"[A-Z]|(?:errors|types)\.")
"""Other code spans are names of arguments, commands and the like."""

_log = logging.getLogger(__name__)


@functools.cache
def find_in_pages(pattern: re.Pattern[str]) -> frozenset[str]:
    """The words that directives have as their arguments."""
    pages = [page.read_text() for page in PAGES.rglob("*.md")]
    return frozenset(word for page in pages for argument in pattern.findall(page) for word in argument.split())


class Markdown(SphinxDirective):
    """Its content, parsed as Markdown."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        document = new_document(self.get_source_info()[0], self.state.document.settings)
        MystParser().parse("\n".join(self.content), document)
        return document.children


class _Directive(SphinxDirective):
    """One that stands for a number of others."""

    optional_arguments = 1
    final_argument_whitespace = True

    @property
    def words(self) -> list[str]:
        return self.arguments[0].split() if self.arguments else []

    def parse_lines(self, lines: list[str]) -> list[nodes.Node]:
        node = nodes.Element()
        self.state.nested_parse(StringList(lines, self.get_source_info()[0]), self.content_offset, node)
        return node.children


class PublicTypes(_Directive):
    """The public types of some rooms that no page documents by name."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for name, member in sorted(surface.public_names().items(), key=lambda item: item[0].rpartition(".")[2].lower()):
            rooms = {*(getattr(member, "__module__", None) or "").split(".")}
            chosen = rooms & {*self.words} if self.words else not rooms & find_in_pages(TYPES)
            is_alias = name.rpartition(".")[2] in surface.aliases()
            if chosen and not is_alias and name not in find_in_pages(OBJECT):
                lines += [f".. auto{'class' if isinstance(member, type) else 'function'}:: {name}", ""]
        return self.parse_lines(lines)


class Facets(_Directive):
    """The facets of some public classes."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for facet, places in surface.find_facets(self.words).items():
            lines += [f".. rubric:: {', '.join(f'``{place}``' for place in places)}", ""]
            lines += [f".. autoclass:: {facet.__module__}.{facet.__qualname__}", "   :inherited-members:", ""]
        return self.parse_lines(lines)


class TypeAliases(_Directive):
    """The aliases that public annotations name."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for alias in surface.aliases_in_use():
            lines += [f".. py:type:: {alias.name}", f"   :module: {alias.module}"]
            lines += [f"   :canonical: {surface.qualify(alias.definition, alias.names)}", ""]
            lines += ["   .. markdown::", "", *(f"      {line}" for line in alias.text.splitlines()), ""]
        return self.parse_lines(lines)


def wrap_docstring(_app: Sphinx, _what: str, _name: str, _member: object, _options: object, lines: list[str]) -> None:
    """Have a docstring parsed as Markdown."""
    if any(lines):
        lines[:] = ["", ".. markdown::", "", *(f"   {line}" for line in lines), ""]


def write_signature(
    _app: Sphinx, _what: str, _name: str, member: object, _options: object, signature: str | None, _returns: str | None
) -> tuple[str, str | None] | None:
    """The signature of a function as it is written; the names and defaults of a struct or a named tuple, whose types are
    with its fields; none for a protocol, or a class that an engine builds."""
    if signature is None:
        return None
    if isinstance(member, type):
        if issubclass(member, msgspec.Struct | tuple):
            return stringify_signature(_replace_factories(inspect.signature(member)), show_annotation=False), None
        is_called = not (
            member.__module__.startswith(surface.BUILT_BY_ENGINE) or getattr(member, "_is_protocol", False)
        )
        return None if is_called else ("", None)
    function = inspect.unwrap(getattr(member, "__func__", member))
    if not inspect.isfunction(function):
        return None
    names = function.__globals__
    written = inspect.signature(function)
    shown = [
        each.replace(annotation=surface.qualify(each.annotation, names)) if isinstance(each.annotation, str) else each
        for each in written.parameters.values()
        if each.name not in ("self", "cls")
    ]
    returns = written.return_annotation
    return (
        stringify_signature(written.replace(parameters=shown), show_return_annotation=False),
        surface.qualify(returns, names) if isinstance(returns, str) else None,
    )


class _Ellipsis:
    def __repr__(self) -> str:
        return "..."


def _replace_factories(signature: inspect.Signature) -> inspect.Signature:
    """A struct's signature, with an ellipsis for each default that is built anew."""
    shown = [
        each.replace(default=_Ellipsis()) if repr(each.default) == "<factory>" else each
        for each in signature.parameters.values()
    ]
    return signature.replace(parameters=shown)


def write_field(app: Sphinx, _domain: str, kind: str, content: desc_content) -> None:
    """Show the type of a field as it is written, and keep the field out of the contents of the page. Show the names in the
    signature of a class as one paragraph."""
    signature = content.parent[0]
    for parameters in signature.findall(desc_parameterlist) if kind == "class" else ():
        parameters["multi_line_parameter_list"] = False
    if kind not in ("attribute", "property"):
        return
    content.parent["no-contents-entry"] = True
    owner = surface.find_class(signature["module"], signature["class"])
    written = owner and surface.annotation_of_field(owner, signature["fullname"].rpartition(".")[2])
    for shown in signature.findall(desc_annotation) if written else ():
        if shown.astext().startswith(":"):
            types = _parse_annotation(surface.qualify(*written), app.env)
            shown.children = []
            shown += [desc_sig_punctuation("", ":"), desc_sig_space(), *types]


def note_errors(app: Sphinx, document: nodes.document) -> None:
    """Make each row of the page of errors a target."""
    if app.env.docname != ERRORS:
        return
    for row in document.findall(nodes.row):
        for name in [*row.findall(nodes.literal)][:1]:
            name["ids"].append(name.astext())
            app.env.domains.python_domain.note_object(f"holdfast.errors.{name.astext()}", "exception", name.astext())


def search_exactly(_app: Sphinx, document: nodes.document) -> None:
    """Look up types by their full names: `type` is no field of that name somewhere."""
    for node in document.findall(pending_xref):
        if node.get("refdomain") == "py" and not node.get("refspecific"):
            node.attributes.pop("refspecific", None)


def link_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Node | None:
    """Link a class by its public name; a name of Python itself has no link."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    if name := surface.public_classes().get(target):
        domain = env.domains.python_domain
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
    if target.split(".")[0] in sys.stdlib_module_names or hasattr(builtins, target):
        return content
    return None


def link_literals(app: Sphinx, document: nodes.document, page: str) -> None:
    """Link public names in code spans: `Brief`, `Session.pack()`, `holdfast.open`."""
    objects = app.env.domains.python_domain.objects
    for node in [*document.findall(nodes.literal)]:
        text = node.astext().removesuffix("()")
        owners = ("",) if text.startswith("holdfast.") else OWNERS if LINKED.match(text) else ()
        target = next((objects[owner + text] for owner in owners if owner + text in objects), None)
        if target and not node["ids"] and not isinstance(node.parent, nodes.reference | nodes.title):
            link = make_refnode(app.builder, page, target.docname, target.node_id, [])
            node.replace_self(link)
            link += node


def check_public_names(_app: Sphinx, env: BuildEnvironment) -> None:
    for name in surface.public_names():
        if name not in env.domains.python_domain.objects:
            _log.warning("%s is public, and on no page of the reference", name)


def setup(app: Sphinx) -> dict[str, object]:
    surface.load_modules()
    app.add_directive("markdown", Markdown)
    app.add_directive("public-types", PublicTypes)
    app.add_directive("facets", Facets)
    app.add_directive("type-aliases", TypeAliases)
    app.connect("autodoc-process-docstring", wrap_docstring)
    app.connect("autodoc-process-signature", write_signature)
    app.connect("object-description-transform", write_field)
    app.connect("doctree-read", note_errors)
    app.connect("doctree-read", search_exactly)
    app.connect("missing-reference", link_public_name)
    app.connect("doctree-resolved", link_literals)
    app.connect("env-check-consistency", check_public_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
