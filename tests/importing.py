"""The modules of the package and of the tests, and what each imports, read from their texts."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; `headcount` is the root's index."""
    found = {}
    for path in sorted((ROOT / "headcount").rglob("*.py")):
        if path.is_relative_to(ROOT / "headcount" / "data"):
            continue  # the code that a pruned model carries, to load without us
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return (*ast.walk(parsed(path)),)


@cache
def imports(path: Path) -> tuple[tuple[int, str, str], ...]:
    """Line, module and name of everything that a file imports from headcount."""
    return (*_imports(path),)


def _imports(path: Path) -> Iterator[tuple[int, str, str]]:
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: Expected absolute imports."
            for alias in node.names:
                if (node.module or "").split(".")[0] == "headcount":
                    yield node.lineno, str(node.module), alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "headcount":
                    yield node.lineno, alias.name, ""


def package(module: str) -> str:
    """`core` of `headcount.core.heads`; empty for the root."""
    return (*module.split("."), "")[1]


def module_of(source: str, name: str) -> str:
    """The module that defines what is imported, looked up in the index where it comes from one."""
    if f"{source}.{name}" in MODULES:
        return f"{source}.{name}"
    home = listed(MODULES[source].with_suffix(".pyi")).get(name)
    return f"{source}.{home}" if home else source


@cache
def listed(stub: Path) -> dict[str, str]:
    """The names of an index, each with the module that defines it."""
    body = parsed(stub).body if stub.exists() else []
    return {
        alias.name: str(node.module)
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


TESTS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "tests").rglob("*.py"))
}
"""Every module of the tests by its dotted name."""
ALL = MODULES | TESTS


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What is evaluated when a module is imported: no body of a function, and no types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            defaults = (*child.args.defaults, *filter(None, child.args.kw_defaults))
            for each in (*getattr(child, "decorator_list", ()), *defaults):
                yield from (each, *at_import(each))
            continue
        yield child
        yield from at_import(child)


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of ours and of the tests that a module imports, or takes from `headcount`."""
    found, is_root = set[str](), False
    for node in at_import(parsed(ALL[module])):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            is_root |= "headcount" in names
            found |= {*names}
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            found |= {node.module, *(module_of(node.module, each.name) for each in node.names)}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Attribute) and is_root:
            if ast.unparse(node.value) in ("headcount", "hc"):
                found.add(module_of("headcount", node.attr))
    return frozenset(found & {*ALL} - {module, "headcount"})


def reached(module: str) -> set[str]:
    """A module and all that importing it imports, with the settings of the tests in its folder."""
    parts, found = module.split("."), set[str]()
    settings = (".".join([*parts[:depth], "conftest"]) for depth in range(1, len(parts)))
    todo = [module, *(each for each in settings if each in ALL)]
    while todo:
        if (each := todo.pop()) not in found:
            found.add(each)
            todo += imported(each)
    return found


@cache
def needed(module: str) -> frozenset[str]:
    """The packages of ours, and the folders of tests, that it can't be imported without."""
    return frozenset(map(package, reached(module)))
