"""The house: two floors, imports point down, packages are entered by their index, no circles.

Modules are read, not imported: an import inside a function counts as well.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import headcount
from tests.importing import MODULES, ROOT, imports, module_of, nodes, package, parsed

CORE = (
    ("core",),
    ("numbers", "statistics"),
    ("vocabulary",),
    ("results",),
    ("tap", "corpora"),
    ("models",),
    ("tasks", "measures"),
    ("gates", "compaction"),
    ("pages",),
    ("commands",),
)
"""The lower floor, lowest first: a package imports from those on lower lines only."""

CAPABILITIES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("analysis", "importance", "speed", "training", "skills"), ()),
    **dict.fromkeys(("clusters", "wordtimes", "coreference", "probing"), ()),
    "alignment": ("wordtimes",),
    "explanation": ("importance",),
    "cache": ("skills", "speed"),
    "pruning": ("analysis", "importance", "training", "speed", "clusters", "skills"),
    "artifact": ("pruning", "training", "speed", "importance", "analysis", "skills"),
    "compare": ("analysis", "importance", "pruning", "explanation"),
    "serve": ("analysis", "explanation", "pruning"),
    "atlas": (),
}
"""The upper floor: what each capability may import besides the core, and nothing of another's."""
CAPABILITIES["papers"] = tuple({*CAPABILITIES} - {"serve"})
CAPABILITIES["reporting"] = tuple(CAPABILITIES)

TOP = {
    "doctor": tuple(CAPABILITIES),
    "testing": tuple(CAPABILITIES),
    "capabilities": (),
    "__main__": (),
}
"""Modules above both floors."""

FLOOR = {package: floor for floor, packages in enumerate(CORE) for package in packages}
ALLOWED = {**CAPABILITIES, **TOP, "reporting": (*CAPABILITIES, "doctor")}


def test_every_package_is_on_a_floor() -> None:
    known = {*FLOOR, *ALLOWED}
    assert {package(module) for module in MODULES} - {""} == known
    children = {path.stem for path in (ROOT / "headcount").iterdir() if path.suffix != ".md"}
    assert children - {"__init__", "__pycache__", "data", "py"} == known


def _may_import(importer: str, imported: str) -> bool:
    if importer in FLOOR:
        return FLOOR.get(imported, 99) < FLOOR[importer]
    return imported in FLOOR or imported in ALLOWED.get(importer, ())


def test_imports_point_down_and_home() -> None:
    """The core knows no capability, and a capability only those that the table names."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {package(module)} may not import from {module_}.{name}"
        for module, path in MODULES.items()
        if module != "headcount"
        for line, module_, name in imports(path)
        if (imported := package(module_) or name) != package(module)
        and name != "__version__"
        and not _may_import(package(module), imported)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_names_no_capability() -> None:
    """Not in text either: what it shows, it reads from manifests."""
    named = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for module, path in MODULES.items()
        if package(module) in FLOOR
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.match(rf"headcount\.({'|'.join(CAPABILITIES)})\b[\w.]*:\w+$", node.value)
    ]
    assert not named, "\n".join(named)


def test_other_packages_are_entered_by_their_index() -> None:
    past = []
    for module, path in MODULES.items():
        for line, source, name in imports(path):
            foreign = package(source) not in (package(module), "")
            is_module = f"{source}.{name}" in MODULES
            if foreign and (source.count(".") > 1 or is_module):
                past.append(f"{path.relative_to(ROOT)}:{line}: {source}.{name} past the index")
    assert not past, "\n".join(past)


def test_inside_a_package_modules_are_named() -> None:
    """A module that took a neighbour's name from its own index would hide what it needs."""
    own = [
        f"{path.relative_to(ROOT)}:{line}: {name} comes from its own package's index"
        for module, path in MODULES.items()
        for line, source, name in imports(path)
        if module.count(".") > 1
        and source == f"headcount.{package(module)}"
        and f"{source}.{name}" not in MODULES
    ]
    assert not own, "\n".join(own)


def test_no_circles() -> None:
    """Neither of modules nor of packages."""
    graph = {
        module: {
            target
            for _, source, name in imports(path)
            for target in [module_of(source, name)]
            if target != module
        }
        for module, path in MODULES.items()
    }
    packages: dict[str, set[str]] = {}
    for module, targets in graph.items():
        packages.setdefault(package(module), set()).update(
            package(target) for target in targets if package(target) != package(module)
        )
    for each in (graph, packages):
        try:
            tuple(TopologicalSorter(each).static_order())
        except CycleError as error:
            raise AssertionError(f"a circle: {' <- '.join(error.args[1])}") from None


def test_no_private_name_crosses_a_module() -> None:
    files = [
        *MODULES.values(),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
    ]
    private = [
        f"{path.relative_to(ROOT)}:{line}: {source}.{name}"
        for path in files
        for line, source, name in imports(path)
        if any(
            part.startswith("_") and part != "__version__" for part in f"{source}.{name}".split(".")
        )
        and not source.endswith("__main__")
    ]
    assert not private, "\n".join(private)


def test_tests_patch_no_private_name() -> None:
    """Neither by its dotted name, nor on a module or class that the test imports from here."""
    private = []
    for path in (ROOT / "tests").rglob("*.py"):
        ours = {name for _, _, name in imports(path)}
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("setattr"):
                continue
            given = [each.value for each in node.args if isinstance(each, ast.Constant)]
            names = [str(each) for each in given[:1]]
            is_ours = any(each.startswith("headcount.") for each in names)
            if is_ours or ast.unparse(node.args[0]).split(".")[0] in ours:
                parts = names[0].split(".") if names else []
                if any(part.startswith("_") and not part.endswith("__") for part in parts):
                    private.append(f"{path.relative_to(ROOT)}:{node.lineno}: {names[0]}")
    assert not private, "\n".join(private)


PLACES = re.compile(r"__getattr__ = moved\(__name__, \{")
"""How an index ends that still finds names of earlier releases."""


def test_indexes_hold_what_is_used_and_nothing_else() -> None:
    """An index is lazy: a docstring, names that its stub lists, and names that have moved."""
    for module, path in MODULES.items():
        if path.name != "__init__.py" or module.count(".") != 1:
            continue
        body = parsed(path).body
        more = 2 * bool(re.match(PLACES, ast.unparse(body[-1])))
        assert len(body) == 3 + more, f"{path} holds more than an index"
        assert isinstance(body[0], ast.Expr), f"{path} has no docstring"
        stub = path.with_suffix(".pyi")
        names = [
            alias.name
            for node in parsed(stub).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        assert len(names) == len(set(names)), f"{stub} lists a name twice"
        children = {child.stem for child in path.parent.iterdir()}
        assert not children & set(names), f"{stub}: a module hides {sorted(children & set(names))}"


CODE = ("headcount", "tests", "benchmarks")
"""Folders with Python."""

ELSEWHERE = {"last.py", "my.py", "test_last.py", "modeling_headcount.py"}
"""Files that the docs tell a reader to write, and the code that a pruned model carries."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page, or of a module's docstrings and comments."""
    if path.suffix == ".md":
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        return
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            is_docstring = token.type == tokenize.STRING and token.string.endswith('"""')
            if is_docstring or token.type == tokenize.COMMENT:
                yield from enumerate(token.string.splitlines(), token.start[0])


@cache
def file_names() -> set[str]:
    return {path.name for top in (*CODE, "docs") for path in (ROOT / top).rglob("*.py")}


@cache
def _is_file(name: str, beside: Path) -> bool:
    """Whether a file is there: from the root, the package, the tests, or beside the text."""
    if "/" not in name:
        return name in ELSEWHERE | file_names()
    places = (ROOT, ROOT / "headcount", ROOT / "tests", beside.parent)
    return Path(name).name in ELSEWHERE or any((place / name).exists() for place in places)


@cache
def _is_name(name: str) -> bool:
    """Whether a dotted name is a module, or its module or index has the next part."""
    parts = name.split(".")
    length = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in MODULES)
    path, rest = MODULES[".".join(parts[:length])], parts[length:]
    texts = [each.read_text() for each in (path, path.with_suffix(".pyi")) if each.exists()]
    return not rest or re.search(rf"\b{rest[0]}\b", "\n".join(texts)) is not None


def test_what_prose_names_is_there() -> None:
    """No docstring, comment or page names a file, module or name that has moved."""
    stale = []
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for path in [*pages, *(file for top in CODE for file in (ROOT / top).rglob("*.py"))]:
        for number, line in prose(path):
            files = re.findall(r"[\w./-]*\w\.py\b", line)
            line = line.replace('entry-points."headcount.', "")  # a group, no module
            names = re.findall(r"(?<![\w/.@-])headcount(?:\.[A-Za-z_]\w*)+", line)
            stale += [
                f"{path.relative_to(ROOT)}:{number}: {named}"
                for named in (*files, *names)
                if not (_is_name(named) if named in names else _is_file(named, path))
            ]
    assert not stale, "\n".join(stale)


def test_every_public_name_is_there() -> None:
    for name in headcount.__all__:
        assert getattr(headcount, name) is not None, name
