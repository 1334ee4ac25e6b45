"""The registry: names of our own, of packages, of files and of what is registered."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import Distribution
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest

from headcount import InputError, register
from headcount.core import (
    OURS,
    Origin,
    PluginError,
    PluginWarning,
    Registry,
    guarded,
    guarding,
    origin_of_module,
    plugins,
)


class Shape:
    registry: ClassVar[str] = f"{__name__}:SHAPES"
    name: ClassVar[str]


class Circle(Shape):
    name = "circle"


SHAPES: Registry[type[Shape]] = Registry(
    "shapes", "a shape", {"circle": f"{__name__}:Circle", "square": "nowhere:Square"}
)

HEADER = f"""
import headcount
from {__name__} import Shape
"""
SHAPE = """
class {kind}(Shape):
    name = "{name}"
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with modules and one entry point, as far as Python sees it."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)

    def installed(package: str, code: str, name: str, kind: str) -> None:
        about = site / f"{package}-1.2.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {package}\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text(f"[headcount.shapes]\n{name} = {package}:{kind}\n")
        (site / f"{package}.py").write_text(code)
        monkeypatch.delitem(sys.modules, package, raising=False)
        sys.path_importer_cache.pop(str(site), None)
        monkeypatch.syspath_prepend(site)

    return installed


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a plug-in's file, and list it."""

    def written(code: str) -> str:
        path = tmp_path / "my.py"
        path.write_text(code)
        monkeypatch.setenv("HEADCOUNT_PLUGINS", str(path))
        return str(path)

    return written


def test_nothing_is_imported_to_list_names() -> None:
    assert SHAPES.names() == ("circle", "square")
    assert SHAPES["circle"] is Circle
    assert str(SHAPES.origin("square")).startswith("headcount 0.")
    with pytest.raises(
        InputError, match=r"Expected a shape \(one of circle, square\), got 'cirle'"
    ):
        SHAPES.find("cirle")


def test_the_thing_itself_is_taken() -> None:
    assert SHAPES.find(Circle) is Circle
    with pytest.raises(InputError, match="Expected a shape, or the name of one, got <class 'int'>"):
        SHAPES.find(int)  # type: ignore[arg-type]


def test_a_package_is_imported_when_its_thing_is_used(install: Install) -> None:
    install("flat", HEADER + SHAPE.format(kind="Oval", name="oval"), "oval", "Oval")
    assert SHAPES.names() == ("circle", "square", "oval")
    assert str(SHAPES.origin("oval")) == "flat 1.2"
    assert "flat" not in sys.modules
    assert SHAPES["oval"].name == "oval"


def test_metadata_of_a_package_are_read_once(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsing a README for each look-up of a name would double the time of `--help`."""
    install("flat", HEADER + SHAPE.format(kind="Oval", name="oval"), "oval", "Oval")
    read: Any = Distribution.metadata.fget  # type: ignore[attr-defined]
    seen = list[Distribution]()
    counted = property(lambda self: (seen.append(self), read(self))[1])
    monkeypatch.setattr(Distribution, "metadata", counted)
    assert SHAPES.names() and SHAPES["oval"] and str(SHAPES.origin("oval")) == "flat 1.2"
    assert len(seen) == len({*map(id, seen)})


@pytest.mark.parametrize("listed", ["", "other.py"])
def test_plug_ins_can_be_left_out(
    install: Install, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    install("flat", HEADER + SHAPE.format(kind="Oval", name="oval"), "oval", "Oval")
    monkeypatch.setenv("HEADCOUNT_PLUGINS", "" if not listed else "flat")
    assert ("oval" in SHAPES) == bool(listed)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "import nowhere",
            "the plug-in flat 1.2 to be imported, got ModuleNotFoundError: No modul",
        ),
        ("raise SystemExit(3)", r"flat 1.2 to be imported, got SystemExit: 3 \(flat.py, line 1\)"),
        ("Oval = 3", "Expected a shape called oval in flat 1.2, got 3"),
        (
            HEADER + SHAPE.format(kind="Oval", name="egg"),
            "a shape called oval in flat 1.2, got <cl",
        ),
        (
            "API, Oval = '2.1', 3",
            "for the API 1.0, got flat 1.2, which is written for 2.1. This ve",
        ),
    ],
)
def test_a_broken_package_is_a_sentence(install: Install, code: str, expected: str) -> None:
    install("flat", code, "oval", "Oval")
    with pytest.raises(PluginError, match=expected):
        SHAPES["oval"]
    assert SHAPES["circle"] is Circle


def test_a_name_is_taken_once(install: Install) -> None:
    install("flat", HEADER + SHAPE.format(kind="Other", name="circle"), "circle", "Other")
    with pytest.warns(PluginWarning, match="of flat 1.2, got circle, which headcount 0.*left out"):
        assert SHAPES["circle"] is Circle and SHAPES.names() == ("circle", "square")


def star() -> type[Shape]:
    """A cell of a notebook."""

    @register
    class Star(Shape):
        name = "star"

    return Star


def test_a_family_of_plug_ins_alone_says_how_to_name_one() -> None:
    empty: Registry[type[Shape]] = Registry("shapes-of-others", "a shape", {})
    with pytest.raises(
        InputError, match=r"a shape that a plug-in brings, got 'cube'.*--plugin FILE"
    ):
        empty["cube"]


def test_what_is_registered_is_found() -> None:
    first = star()
    assert SHAPES["star"] is first
    with pytest.raises(PluginError, match=r"a shape of .*registry, got star, which .*registry has"):
        register(type("Other", (Shape,), {"name": "star"}))
    again = star()
    assert again is not first and SHAPES["star"] is again
    SHAPES.remove("star")
    for wrong in (int, type("Nameless", (Shape,), {})):
        with pytest.raises(
            InputError, match="Expected something whose class is|Expected a name of"
        ):
            register(wrong)


def test_a_class_that_lacks_what_its_family_asks_for_is_refused() -> None:
    class Drawn(Shape, ABC):
        @abstractmethod
        def draw(self) -> None: ...

    class Half(Drawn):
        name = "half"

        def drwa(self) -> None: ...

    for take in (register, SHAPES.find):
        with pytest.raises(
            PluginError, match="Expected a shape that defines draw, got Half of tes"
        ):
            take(Half)


def test_a_file_registers(file: Callable[[str], str]) -> None:
    code = "@headcount.register" + SHAPE.format(kind="Oval", name="oval")
    file(HEADER + code)
    assert SHAPES.names() == ("circle", "square", "oval")
    assert str(SHAPES.origin("oval")).startswith("my.py ")
    SHAPES.remove("oval")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1 / 0", r"my.py \w{8} to be imported, got ZeroDivisionError: .*\(my.py, line 1\)"),
        ("API = '0.3'", "got my.py .*, which is written for 0.3. This version"),
        (
            f"{HEADER}@headcount.register{SHAPE.format(kind='Other', name='circle')}",
            "Expected a new name for a shape of my.py .*, got circle, which headcount 0",
        ),
    ],
)
def test_a_broken_file_is_a_sentence(file: Callable[[str], str], code: str, expected: str) -> None:
    file(code)
    with pytest.raises(PluginError, match=expected):
        SHAPES.names()


def test_what_a_plug_in_prints_is_a_warning(
    file: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file("print('hello')\nprint('again')")
    with pytest.warns(PluginWarning, match=r"the plug-in my.py \w{8} printed 2 lines: hello"):
        SHAPES.names()
    assert not capsys.readouterr().out


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADCOUNT_PLUGINS", "nowhere")
    with pytest.raises(
        PluginError, match=r"Expected a file \(my.py\) or an installed .*got nowhere"
    ):
        SHAPES.names()


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADCOUNT_PLUGINS", str(tmp_path / "no.py"))
    with pytest.raises(PluginError, match="Expected a plug-in's file .*no.py, which does not"):
        SHAPES.names()


def test_a_file_is_named_after_it_was_loaded(file: Callable[[str], str]) -> None:
    """Whatever asks for the origin of its classes later."""
    file(HEADER + "@headcount.register" + SHAPE.format(kind="Late", name="late"))
    (kind,) = [SHAPES[name] for name in SHAPES if name == "late"]
    assert str(origin_of_module(kind.__module__)).startswith("my.py ")


@pytest.mark.slow
def test_a_plug_in_that_takes_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends once the run has said that it waits for it, whenever that is."""
    said, named = list[str](), Event()

    def warn(text: str, *_: object, **__: object) -> None:
        said.append(text)
        named.set()

    monkeypatch.setattr(guarding, "PATIENCE", 0.01)
    monkeypatch.setattr(guarding.warnings, "warn", warn)
    with guarded(OURS, "be quick"), guarded(Origin("slow.py", "12ab"), "score heads by slow"):
        assert named.wait(60)
    assert said[0].startswith("waiting for the plug-in slow.py 12ab to score heads by slow (")


def test_one_for_an_earlier_api_runs_with_a_warning(
    file: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("API", "2.0"), ("SUPPORTED", (1, 2)), ("CHANGES", {1: "", 2: "All."})):
        monkeypatch.setattr(plugins, name, value)
    code = "@headcount.register" + SHAPE.format(kind="Earlier", name="earlier")
    file(f"API = '1.0'\n{HEADER}{code}")
    with pytest.warns(PluginWarning, match="API is 2.0, and .*my.py .* written for 1.0. All."):
        assert "earlier" in SHAPES
    SHAPES.remove("earlier")
