"""The report in a real browser: quiet, inert, complete, readable on a phone and on paper.

Run by `make test-browser`; Chromium must be installed (on Debian: apt-get install chromium).
"""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import sync_playwright

import kembed

SCRIPT = "<script>window.__pwned=1;alert(1)</script>"
LABELS = ('"><img src=x onerror="window.__pwned=2">', "after </style><script>window.__pwned=3</script>")
LEVELS = ["<svg onload=alert(4)>", "😀", "$\\frac{$", "x" * 200]
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = {"width": 360, "height": 740}
# A4 less its margins, at 96 pixels an inch.
PAPER = {"width": 680, "height": 1000}


@pytest.fixture(scope="module")
def browser():
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    path = next(filter(None, found), None)
    if path is None:
        pytest.fail("no Chromium found: install chromium (on Debian: apt-get install chromium)")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def sample(rng: np.random.Generator, shift: float, shares: list[float]) -> pl.DataFrame:
    columns: dict[str, object] = {
        SCRIPT: rng.normal(shift, 1.0, 60),
        "kind\n</td>": rng.choice(LEVELS, 60, p=shares),
    }
    columns |= {f"{'long_' * 30}{k}": 1e6 * rng.normal(size=60) for k in range(3)}
    return pl.DataFrame(columns)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A difference under names that try to break out, and no difference."""
    rng = np.random.default_rng(0)
    x, y = sample(rng, 0.0, [0.7, 0.1, 0.1, 0.1]), sample(rng, 2.0, [0.1, 0.7, 0.1, 0.1])
    folder = tmp_path_factory.mktemp("reports")
    settings = {"kernel": "median", "n_resamples": 199}
    found = {
        "differ": kembed.compare(x, y, labels=LABELS, **settings),
        "same": kembed.compare(rng.normal(size=(60, 2)), rng.normal(size=(60, 2)), **settings),
    }
    assert found["differ"].differ
    assert not found["same"].differ
    return {name: one.save_report(folder / f"{name}.html") for name, one in found.items()}


class Watched:
    """A page, and everything it did that it should not do."""

    def __init__(self, browser, path: Path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.messages, self.errors, self.requests, self.dialogs = [], [], [], []
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def sees(self, script: str):
        return self.page.evaluate(script)


@pytest.mark.parametrize("name", ["differ", "same"])
def test_quiet_inert_and_complete(browser, reports, name):
    with Watched(browser, reports[name]) as watched:
        images = watched.sees("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt.length])")
        assert watched.sees("typeof window.__pwned") == "undefined"
        assert watched.sees("document.scripts.length") == 0
        watched.page.mouse.wheel(0, 20_000)
        watched.page.wait_for_timeout(200)
        assert (watched.messages, watched.errors, watched.dialogs) == ([], [], [])
        addresses = [url for url in watched.requests if not url.startswith("data:")]
        assert addresses == [reports[name].as_uri()]
        bars = watched.sees("document.querySelectorAll('td.drawn svg').length")
        assert bars == watched.sees("document.querySelectorAll('td.drawn').length") > 0
    assert len(images) == 2
    assert all(done and width > 0 and words > 60 for done, width, words in images)


def test_names_are_shown_as_they_are(browser, reports):
    with Watched(browser, reports["differ"]) as watched:
        assert LABELS[0] in watched.page.locator("h1").inner_text()
        assert SCRIPT in watched.page.locator(".columns").inner_text()
        assert LEVELS[0] in watched.page.locator("main").inner_text()


def test_policy_is_in_force(browser, reports):
    """A script that found its way in would not run, and an image from elsewhere would not load."""
    with Watched(browser, reports["differ"]) as watched:
        watched.sees(
            """() => {
                const script = document.createElement('script');
                script.textContent = 'window.__pwned = 4';
                document.body.append(script);
                const image = new Image();
                image.src = 'http://127.0.0.1:9/x.png';
                document.body.append(image);
            }"""
        )
        watched.page.wait_for_timeout(200)
        assert watched.sees("typeof window.__pwned") == "undefined"
        assert sum("Content Security Policy" in message for message in watched.messages) >= 2


@pytest.mark.parametrize("name", ["differ", "same"])
def test_fits_a_phone(browser, reports, name):
    with Watched(browser, reports[name], viewport=PHONE, device_scale_factor=2, is_mobile=True) as watched:
        assert watched.sees("innerWidth") == PHONE["width"]
        assert watched.sees("document.documentElement.scrollWidth") <= PHONE["width"]
        boxes = watched.sees(
            "[...document.querySelectorAll('.scroll')].map(b => [b.scrollWidth, b.clientWidth])"
        )
        assert boxes
        assert all(inside <= outside <= PHONE["width"] for inside, outside in boxes)  # no table is cut
        apart = watched.sees(
            """[...document.querySelectorAll('.sample:has(bdi)')]
                .map(e => [e, e.firstElementChild].map(one => one.getClientRects()[0]))
                .filter(([mark, name]) => name.width > 1 && mark.bottom < name.top + 2).length"""
        )
        assert apart == 0  # no line ends between a sample's mark and its name
        tall = watched.sees("Math.max(...[...document.images].map(i => i.getBoundingClientRect().width))")
        assert 250 < tall <= PHONE["width"]


def test_dark_scheme_is_dark_and_figures_follow(browser, reports):
    with Watched(browser, reports["differ"], color_scheme="dark") as watched:
        ground = watched.sees("getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in ground[4:-1].split(",")) < 60
        shown = watched.page.locator("figure img").first
        assert "invert" in shown.evaluate("i => getComputedStyle(i).filter")
        watched.page.emulate_media(media="print")
        assert shown.evaluate("i => getComputedStyle(i).filter") == "none"
        assert watched.sees("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_prints(browser, reports, tmp_path):
    with Watched(browser, reports["differ"], viewport=PAPER) as watched:
        watched.page.emulate_media(media="print")
        wide = watched.sees(
            """[...document.querySelectorAll('main *')]
                .filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"""
        )
        assert wide == 0
        printed = watched.page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert printed.startswith(b"%PDF-")
        assert 3 <= printed.count(b"/Type /Page\n") <= 20
