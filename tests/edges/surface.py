"""The public surface by paths: `review.confirm` of a ledger, `context.view` of a session."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, get_args, get_type_hints


def call(target: Any, path: str) -> Callable[..., Any]:
    """The method of an object, or of one of its facets."""
    method: Callable[..., Any] = operator.attrgetter(path)(target)
    return method


def find_method(cls: type, path: str) -> Callable[..., Any]:
    """The same of a class: a facet is what its property returns."""
    *facets, name = path.split(".")
    for facet in facets:
        cls = get_type_hints(getattr(cls, facet).fget)["return"]
    method: Callable[..., Any] = getattr(cls, name)
    return method


def list_parameters(method: Callable[..., Any]) -> list[str]:
    """The names of all parameters but self, those of an options dict among them."""
    names: list[str] = []
    for parameter in [*inspect.signature(method).parameters.values()][1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (options,) = get_args(eval(parameter.annotation, vars(inspect.getmodule(method))))
            names += get_type_hints(options)
        else:
            names.append(parameter.name)
    return names
