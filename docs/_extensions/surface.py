"""The public surface of Holdfast as the reference shows it: names, rooms, facets, and annotations as they are written."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
from holdfast import models, ports

PACKAGE = Path(holdfast.__file__).parent
BUILT_BY_ENGINE = ("holdfast.runtime.", "holdfast.render.")
"""Where the classes are that an engine builds: nobody calls them."""


def load_modules() -> None:
    """Import what modules import for the type checker only, so that every annotation can be resolved."""
    public_names()
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] == "holdfast" and module.__file__:
            for node in ast.parse(Path(module.__file__).read_text()).body:
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                    imports = [each for each in node.body if isinstance(each, ast.Import | ast.ImportFrom)]
                    exec(compile(ast.Module([*imports], []), module.__file__, "exec"), vars(module))  # noqa: S102


@functools.cache
def public_names() -> dict[str, Any]:
    """Each public name in full, and its object: those of the package, then those of its public modules.

    The errors are not among them: they have a page of their own."""
    modules = [member for name in holdfast.__all__ if isinstance(member := getattr(holdfast, name), types.ModuleType)]
    names: dict[str, Any] = {}
    for module in (holdfast, *modules, models):
        for name in module.__all__ if module is not holdfast.errors else ():
            member = getattr(module, name)
            if not isinstance(member, types.ModuleType) and not any(member is each for each in names.values()):
                names[f"{module.__name__}.{name}"] = member
    return names


@functools.cache
def public_classes() -> dict[str, str]:
    """The public name of each class, by its module and its name there."""
    return {_origin(member): name for name, member in public_names().items() if isinstance(member, type)}


def find_class(module: str, name: str) -> type | None:
    """A class by the module and the name that it is documented under."""
    member = functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), sys.modules.get(module))
    return member if isinstance(member, type) else None


def find_facets(owners: list[str]) -> dict[type, list[str]]:
    """The classes of the facets of some public classes, and where each is found: `session.facts`."""
    facets: dict[type, list[str]] = {}
    for owner in owners:
        for name, member in inspect.getmembers(public_names()[owner], lambda member: isinstance(member, property)):
            facet = typing.get_type_hints(member.fget).get("return")
            if isinstance(facet, type) and facet.__module__.startswith(BUILT_BY_ENGINE):
                holder = owner.rpartition(".")[2].removeprefix("Async").lower()
                facets.setdefault(facet, []).append(f"{holder}.{name}")
    return {facet: places for facet, places in facets.items() if facet not in public_names().values()}


class Alias(NamedTuple):
    """An alias of a type, as the code defines it."""

    module: str
    """Where it is public, else where it is defined."""
    name: str
    definition: str
    names: Mapping[str, Any]
    """The names that the definition can use."""
    text: str
    """Its docstring."""

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"


@functools.cache
def aliases() -> dict[str, Alias]:
    """All aliases of types, by name."""
    found: dict[str, Alias] = {}
    public = {name.rpartition(".")[2]: name.rpartition(".")[0] for name in public_names()}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        body = ast.parse(path.read_text()).body if module in sys.modules else []
        body = [each for node in body for each in (node.body if isinstance(node, ast.If) else [node])]
        for node, after in itertools.pairwise([*body, None]):
            if isinstance(node, ast.AnnAssign | ast.Assign) and _is_alias(node):
                assert node.value
                name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
                definition = node.value.value if isinstance(node.value, ast.Constant) else ast.unparse(node.value)
                text = (
                    after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
                )
                names = vars(sys.modules[module])
                found[name] = Alias(public.get(name, module), name, str(definition), names, str(text))
    return found


def _is_alias(node: ast.AnnAssign | ast.Assign) -> bool:
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.annotation) == "TypeAlias"
    is_class_name = re.fullmatch("[A-Z][a-z][A-Za-z]*", ast.unparse(node.targets[0]))
    return is_class_name is not None and isinstance(node.value, ast.Subscript | ast.BinOp)


def aliases_in_use() -> list[Alias]:
    """The public aliases, those that public annotations name, and those in their definitions, by name."""
    facets = find_facets([name for name, member in public_names().items() if isinstance(member, type)])
    members = [*public_names().values(), *facets, *(each for each in vars(ports).values() if _is_own(each, ports))]
    ahead = [annotation for member in members for annotation in annotations_of(member)]
    ahead += [name.rpartition(".")[2] for name in public_names()]
    names: set[str] = set()
    while ahead:
        words = {ast.unparse(node).rpartition(".")[2] for node in ast.walk(ast.parse(ahead.pop())) if _is_name(node)}
        ahead += [aliases()[word].definition for word in words & aliases().keys() - names]
        names |= words & aliases().keys()
    return [aliases()[name] for name in sorted(names)]


def annotations_of(member: Any) -> Iterator[str]:
    """The annotations of a function, or of the fields and public methods of a class, as they are written."""
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    if inspect.isfunction(function):
        yield from filter(None, map(_written, function.__annotations__.values()))
    elif isinstance(member, type):
        for owner in member.__mro__:
            if owner.__module__.startswith("holdfast."):
                yield from filter(None, map(_written, vars(owner).get("__annotations__", {}).values()))
                for name, each in vars(owner).items():
                    if not name.startswith("_") and not isinstance(each, type):
                        yield from annotations_of(each)


def annotation_of_field(owner: type, name: str) -> tuple[str, Mapping[str, Any]] | None:
    """The annotation of a field or a property as it is written, and the names that it can use."""
    for each in owner.__mro__:
        member = vars(each).get(name)
        annotation = _written(vars(each).get("__annotations__", {}).get(name))
        if isinstance(member, property) and member.fget is not None:
            annotation = _written(member.fget.__annotations__.get("return"))
        if annotation is not None:
            return annotation, vars(sys.modules[each.__module__])
    return None


def qualify(annotation: str, names: Mapping[str, Any]) -> str:
    """An annotation with the full name of every type, so that each can be linked; the reader sees the last part."""
    return ast.unparse(_Qualifier(names).visit(ast.parse(annotation, mode="eval")))


class _Qualifier(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._replace(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._replace(node)

    def _replace(self, node: ast.Name | ast.Attribute) -> ast.expr:
        text = ast.unparse(node)
        full = self._full_name(text)
        return node if full == text else ast.UnaryOp(ast.Invert(), ast.parse(full, mode="eval").body)

    def _full_name(self, text: str) -> str:
        first, *rest = text.split(".")
        member = functools.reduce(lambda owner, name: getattr(owner, name, None), rest, self._names.get(first))
        last = text.rpartition(".")[2]
        is_class = isinstance(member, type) and member.__name__ == last
        if last in aliases() and not is_class:
            return aliases()[last].full_name
        if is_class and member.__module__ != "builtins":
            return public_classes().get(_origin(member), _origin(member))
        is_python = isinstance(member, typing.TypeVar) or (member and getattr(typing, last, None) is member)
        return f"typing.{last}" if is_python else text


def _written(annotation: object) -> str | None:
    """An annotation as it is written, if it was not evaluated."""
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else None


def _origin(member: type) -> str:
    return f"{member.__module__}.{member.__qualname__}"


def _is_own(member: object, module: types.ModuleType) -> bool:
    return isinstance(member, type) and member.__module__ == module.__name__


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)
