"""The page in a real browser: no error, no request, search, clicks, links, copied commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import hpabatch
from tests.cli.commands import runner
from tests.cli.histories import small
from tests.cli.hostile import NASTY, history
from tests.report.page.pages import advice, trajectories

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no browser: apt-get install chromium"),
    # (pipes of the browser that are closed when Python ends)
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=root)
        yield started
        started.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a page; its history lies beside it."""
    folder = tmp_path_factory.mktemp("page")
    found = small(folder / "history", "shop", minutes=90)
    told = advice(folder / "advice", "checkout")
    trajectories(told, checkout={"today": [(0, 4)], "target=70": [(0, 4), (930, 3)]})
    recording = hpabatch.open(found)
    last = recording.report().document()
    (folder / "last.json").write_text(json.dumps({**last, "findings": []}))
    page = recording.report(advice=told, compare=folder / "last.json", phase="5s")
    page.write(folder / "report.html")
    return folder / "report.html"


class Opened:
    """A page that is open, and what went wrong in it."""

    def __init__(self, browser: Browser, file: Path, fragment: str = "", **screen: object) -> None:
        self.context = browser.new_context(**screen)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.goto(f"{file.as_uri()}{fragment}")
        self.page.wait_for_selector("#fleet-chart svg")

    def _requested(self, url: str) -> None:
        if not url.startswith(("file:", "data:")):
            self.faults.append(url)

    def close(self) -> None:
        """Close it: nothing has gone wrong."""
        self.context.close()
        assert self.faults == []


def rows(page: Page) -> list[str]:
    """Return the names in the table of HPAs."""
    return page.locator("#hpas tbody th").all_inner_texts()


def test_search_sort_and_filters_choose_rows(browser: Browser, place: Path) -> None:
    opened = Opened(browser, place)
    page = opened.page
    every = rows(page)
    assert len(every) > 3
    page.fill("#search", "CHECKOUT")
    assert rows(page) == ["shop/checkout"]
    assert page.inner_text("#shown") == f"1 of {len(every)}"
    page.fill("#search", "")
    page.select_option("#answer", "change")
    assert rows(page) == ["shop/checkout"]
    page.select_option("#answer", "")
    for expected in (sorted(every), sorted(every, reverse=True)):
        page.click('#hpas [data-key="hpa"]')
        assert rows(page) == expected
    page.keyboard.press("Escape")
    page.locator("body").press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    opened.close()


def test_a_click_opens_an_hpa_and_its_commands_run(
    browser: Browser,
    place: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Opened(browser, place)
    page = opened.page
    page.click('#hpas tbody tr:has-text("shop/checkout") td >> nth=0')
    page.wait_for_selector("#timeline svg")
    assert page.inner_text("#view h2") == "shop/checkout"
    assert page.evaluate("location.hash") == "#hpa=shop/checkout"
    view = page.inner_text("#view")
    assert "target utilization" in view
    assert "kubectl patch horizontalpodautoscalers.v2.autoscaling checkout" in view
    command = page.locator("#view .command pre").first.inner_text()
    _, name, *words = shlex.split(command)
    assert words[-2:] == ["--phase", "5s"]
    done = runner(name, capsysbinary, monkeypatch)(*words)
    assert done.code == 0
    assert "shop/checkout" in done.stdout
    drawn = page.locator("#simulated text").all_text_contents()
    assert {"recorded", "today, simulated", "recommended, simulated"} <= set(drawn)
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#view .command button").first.click()
    page.wait_for_selector('button:has-text("Copied")')
    for title in ("Hour", "Day", "All"):
        page.click(f'#view button:has-text("{title}")')
        assert page.get_attribute(f'#view button:has-text("{title}")', "aria-pressed") == "true"
    page.keyboard.press("Escape")
    page.wait_for_selector("#view", state="hidden")
    opened.close()


def test_what_is_new_leads_to_its_hpa_and_names_may_be_replaced(
    browser: Browser, place: Path
) -> None:
    opened = Opened(browser, place)
    new = opened.page.locator("#since a").first
    name = new.inner_text()
    new.click()
    opened.page.wait_for_selector("#timeline svg")
    assert opened.page.inner_text("#view h2") == name
    opened.close()
    found, told = place.with_name("history"), place.with_name("advice")
    public = place.with_name("public.html")
    hpabatch.open(found).report(advice=told, redact=True).write(public)
    opened = Opened(browser, public, "#hpa=namespace1/hpa1")
    opened.page.wait_for_selector("#timeline svg")
    text = opened.page.inner_text("body")
    assert "shop" not in text
    assert "Any decision" not in text
    opened.close()


def test_a_link_opens_the_moment(browser: Browser, place: Path) -> None:
    opened = Opened(browser, place, "#hpa=shop/frontend")
    page = opened.page
    page.wait_for_selector("#timeline svg")
    moment = page.locator("#view .moments a").first
    link = moment.get_attribute("href") or ""
    opened.close()
    at = re.search("t=(.*)", link)
    assert at is not None
    again = Opened(browser, place, link)
    again.page.wait_for_selector('#view tr[aria-selected="true"]')
    assert at[1] in again.page.locator("#view > .command pre").first.inner_text()
    row = again.page.inner_text('#view tr[aria-selected="true"]')
    assert row.startswith(at[1].rstrip("Z").replace("T", " "))
    again.close()
    lost = Opened(browser, place, "#hpa=no/such&t=never")
    assert "no/such" in lost.page.inner_text("#view")
    lost.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen(browser: Browser, place: Path, width: int, scheme: str) -> None:
    screen = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    opened = Opened(browser, place, "#hpa=shop/checkout", **screen)
    page = opened.page
    page.wait_for_selector("#timeline svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = page.locator("#timeline svg").bounding_box()
    assert drawn is not None
    assert drawn["width"] <= width
    opened.close()


def test_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    found = history(tmp_path / "history", lambda name: name + NASTY)
    hpabatch.open(found).report().write(tmp_path / "report.html")
    opened = Opened(browser, tmp_path / "report.html")
    page = opened.page
    page.locator("#hpas tbody a").first.click()
    page.wait_for_selector("#timeline svg")
    title = page.inner_text("#view h2")
    assert r"\x1b]8;;x" in title
    assert "<b>" in title
    assert page.locator("#hpas b, #view b").count() == 0
    opened.close()
