"""Checks of types and shapes for the tests, at a fraction of the time that jaxtyping's own take.

jaxtyping's import hook decorates all functions and dataclasses of the package with `jaxtyped`. It
binds every call's arguments to a signature and checks them twice, for errors that name the wrong
one. Here beartype checks a call once, in a context of jaxtyping, so that equal names are equal
sizes.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

_JAXTYPED = jaxtyping.jaxtyped
_COMPILED = ("headcount.tap.compiled", "headcount.tap.device_sweep")
"""Functions of these modules are read by a compiler, which checks their types itself."""
_CHANGED: dict[str, "_Changed"] = {}
_BEARTYPE = beartype(conf=BeartypeConf(violation_type=TypeError))
_PREPARED: dict[tuple[str, str, CodeType], tuple[dict[str, Any], Callable[..., Any], bool]] = {}
"""Annotations, what beartype made, and whether any has a shape, by a function's names and code."""
_INSIDE = "__beartype_func"
"""Where beartype's function keeps the one that it checks."""


_Changed = Callable[[Callable[..., Any]], Callable[..., Any]]


def install(package: str, changed: Mapping[str, _Changed] | None = None) -> None:
    """Check every call of a package's functions that are imported from now on.

    Args:
        package: Name of the package.
        changed: What else to do with a function, by its full name.
    """
    _CHANGED.update(changed or {})
    jaxtyping.jaxtyped = _decorator
    jaxtyping.install_import_hook(package, "beartype.beartype")


def _decorator(*, typechecker: object) -> Callable[[Any], Any]:
    """What the import hook decorates functions and classes with."""
    del typechecker  # beartype
    return with_checks


def with_checks(found: Any) -> Any:
    if found.__module__ in _COMPILED:
        return found
    if isinstance(found, type):
        made = vars(found).get("__init__")
        if dataclasses.is_dataclass(found) and made and not hasattr(made, "__wrapped__"):
            found.__init__ = with_checks(made)  # pyright: ignore[reportAttributeAccessIssue]
        return found
    if inspect.isgeneratorfunction(found):  # beartype checks its call only when it starts
        return _JAXTYPED(found, typechecker=_BEARTYPE)
    checking: Callable[..., Any] | None = None

    @functools.wraps(found)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        nonlocal checking
        if checking is None:  # at the first call: most functions are never called in a process
            checking = _checking(found)
        return checking(*args, **kwargs)

    changed = _CHANGED.get(f"{found.__module__}.{found.__qualname__}")
    return checked if changed is None else changed(checked)


def _checking(function: FunctionType) -> Callable[..., Any]:
    """A function that checks the types of its arguments, and its arrays' shapes if it has any."""
    key = function.__module__, function.__qualname__, function.__code__
    annotations, checking, has_shape = _PREPARED.get(key, (None, function, False))
    if annotations == function.__annotations__:
        checking = _of_another(checking, function)
    else:
        typed = _with_types(function)
        checking = _BEARTYPE(typed)
        has_shape = any(_has_shape(hint) for hint in typed.__annotations__.values())
        _PREPARED[key] = function.__annotations__, checking, has_shape
    if not has_shape:
        return checking  # no shape to remember, and the functions that it calls have their own

    def in_context(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with _JAXTYPED("context"):  # pyright: ignore[reportGeneralTypeIssues]
            return checking(*args, **kwargs)

    return in_context


def _of_another(checking: Callable[..., Any], function: FunctionType) -> Callable[..., Any]:
    """What beartype made of a function within a function, for the same one of another call."""
    names: dict[str, Any] | None = getattr(checking, "__kwdefaults__", None)
    if not isinstance(checking, FunctionType) or names is None or _INSIDE not in names:
        return function  # it has nothing to check
    copy = FunctionType(checking.__code__, checking.__globals__, checking.__name__)
    copy.__kwdefaults__ = names | {_INSIDE: function}
    return copy


def _has_shape(hint: Any) -> bool:
    """Whether a type is an array's with a shape, or holds one."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    inside = [*get_args(hint), *getattr(hint, "__constraints__", ())]
    return any(_has_shape(each) for each in inside if each is not hint)


def _with_types(function: FunctionType) -> FunctionType:
    """A copy of a function whose annotations are types; unknown names accept anything."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    copy.__module__ = function.__module__
    copy.__annotations__ = {
        name: _type(hint, function.__globals__) for name, hint in function.__annotations__.items()
    }
    return copy


def _type(hint: Any, names: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"found": hint}
    try:
        return get_type_hints(holder, names, include_extras=True)["found"]
    except Exception:  # imported for pyright alone
        return Any
