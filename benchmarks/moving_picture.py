"""The moving picture of the live page on an indirect object: a GIF, made in headless Chromium.

python benchmarks/moving_picture.py MODEL docs/live.gif
"""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import tyro
from PIL import Image
from playwright.sync_api import Page, sync_playwright

CHROMIUM = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
WIDTH, HEIGHT = 1280, 960
SHOWN = (960, 720)
"""Width and height of the picture."""
STILL = 2200
"""Milliseconds of a picture."""
COLOURS = 96
ANSWERING = 8000
"""Milliseconds in which the model answers again."""
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Arguments:
    """Draw what somebody sees who asks which heads made a prediction."""

    model: tyro.conf.Positional[str]
    """A causal language model."""
    out: tyro.conf.Positional[Path]
    """The GIF."""
    text: str = "Then, Mary and John went to the store. John gave a drink to"
    """What is typed."""
    against: str = " John"
    """The rival of what is predicted."""
    off: int = 3
    """Number of the best heads that are switched off, one after the other."""
    chromium: str = "/usr/bin/chromium"
    """The browser."""


@contextmanager
def served(model: str) -> Iterator[str]:
    """The address of a live page."""
    command = [sys.executable, "-m", "headcount", "serve", model, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | UNBUFFERED
    ) as process:
        try:
            assert process.stdout is not None
            found = (re.search(r"http://\S+", line) for line in process.stdout)
            yield next(each[0] for each in found if each)
        finally:
            process.terminate()


def stills(page: Page, against: str, off: int) -> Iterator[bytes]:
    """The page as it answers, with its best heads found, and then switched off."""
    chips = page.locator("#effects .chip")
    page.wait_for_selector("#state:has-text('Answered')", timeout=120_000)
    yield page.screenshot()
    page.click(f".explain[data-role='against'][data-text='{against}']")
    page.wait_for_selector(f"#effects h2:has-text('{against.strip()}')", timeout=300_000)
    chips.first.wait_for(timeout=300_000)
    yield page.screenshot()
    heads = [each.split()[0] for each in chips.all_inner_texts() if "+" in each]
    page.click("#sliders")
    for head in heads[:off]:
        page.locator(f".below[aria-label='gate of {head}']").fill("0")
        page.wait_for_timeout(ANSWERING)
        page.evaluate("window.scrollTo(0, 0)")
        yield page.screenshot()


def main(arguments: Arguments) -> None:
    """Write the picture."""
    with served(arguments.model) as address, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=arguments.chromium, args=list(CHROMIUM))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{address}#{urlencode({'text': arguments.text})}")
        pictures = [
            Image.open(io.BytesIO(each)) for each in stills(page, arguments.against, arguments.off)
        ]
        browser.close()
    small = [
        each.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS).quantize(COLOURS)
        for each in pictures
    ]
    first, *others = small
    first.save(
        arguments.out, save_all=True, append_images=others, duration=STILL, loop=0, optimize=True
    )
    print(f"{len(small)} pictures, {arguments.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
