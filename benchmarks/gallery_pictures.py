"""The pictures of docs/gallery and of the README: first screens of pages, in headless Chromium.

make docs; python benchmarks/gallery_pictures.py build/docs/gallery
"""

import io
from dataclasses import dataclass
from pathlib import Path

import tyro
from PIL import Image
from playwright.sync_api import Page, sync_playwright

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
CHROMIUM = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
WIDTH, SMALLER = 1280, 0.75
"""Pixels of the screen, and of the picture for each of them."""
SETTLED = 1000
"""Milliseconds in which a page has drawn itself."""


@dataclass(frozen=True)
class Picture:
    """One picture."""

    folder: str
    """Folder of the page."""
    height: int = 1067
    """Height of the screen in pixels."""
    head: str = ""
    """Head whose card is open."""
    pressed: str = ""
    """Button that is pressed first."""


PICTURES = {
    "minilm": Picture("minilm"),
    "en-de-36": Picture("en-de", pressed="button[data-kept]:not([data-kept=''])"),
    "smollm2": Picture("smollm2"),
    "vit": Picture("vit", height=1120, head="enc.1.2"),
    "../report": Picture("smollm2", height=940, head="dec.16.0"),
}
"""The pictures by name; the last one is in the README."""


@dataclass(frozen=True)
class Arguments:
    """Take pictures of the pages of the gallery."""

    pages: tyro.conf.Positional[Path]
    """Folder with the pages, as `make docs` draws them."""
    only: tuple[str, ...] = tuple(PICTURES)
    """Names of some pictures; all by default."""
    chromium: str = "/usr/bin/chromium"
    """The browser."""


def taken(page: Page, picture: Picture, pages: Path) -> bytes:
    """The first screen of a page."""
    page.set_viewport_size({"width": WIDTH, "height": picture.height})
    address = (pages / picture.folder / "report.html").resolve().as_uri()
    page.goto(f"{address}#{picture.head}" if picture.head else address)
    if picture.pressed:
        page.click(picture.pressed)
    page.wait_for_timeout(SETTLED)
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    page.wait_for_timeout(SETTLED)
    return page.screenshot()


def main(arguments: Arguments) -> None:
    """Take each picture and store it in 256 colours."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=[*CHROMIUM])
        context = browser.new_context(device_scale_factor=SMALLER, color_scheme="light")
        for name in arguments.only:
            screen = taken(context.new_page(), PICTURES[name], arguments.pages)
            image = (
                Image.open(io.BytesIO(screen))
                .convert("RGB")
                .quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3)
            )
            image.save(GALLERY / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main(tyro.cli(Arguments))
