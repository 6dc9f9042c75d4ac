"""The report's page, and an audit's, in a real browser: offline, quick, usable and readable.

Needs Chromium: ``apt-get install chromium`` (or ``.ci/chromium``), or any Chrome or Chromium whose
program RACKWARD_BROWSER names. Without one these tests are skipped, with the reason;
RACKWARD_REQUIRE_BROWSER=1 (CI) makes that a failure.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from rack_traffic.report.findings import findings
from rack_traffic.report.format import Currency
from rack_traffic.report.page import PageOptions, render_page
from rackward.cli.audit_page import render_page as render_audit_page
from tests.support.group_audits import audit_report
from tests.support.traffic_report import FORMULA_NAME, GROUPS, UNTRUSTED_NAME, summary

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEADLINE_MS = 120_000
FILL = "getComputedStyle(document.querySelector('.time path.crossing')).fill"
# Generous, for busy machines: on an idle one with two cores it took 0.5 s.
READABLE_SECONDS = 20


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = summary()
    dollar = Currency("$")
    options = PageOptions(datetime(2026, 11, 21, 14, tzinfo=UTC), currency=dollar)
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render_page(data, findings(data, dollar), options))
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    named = os.environ.get("RACKWARD_BROWSER")
    program = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        reason = (
            f"none of {', '.join(PROGRAMS)} is installed: apt-get install chromium, or name a "
            "Chromium's program in RACKWARD_BROWSER"
        )
        if os.environ.get("RACKWARD_REQUIRE_BROWSER") == "1":
            pytest.fail(f"RACKWARD_REQUIRE_BROWSER=1, but {reason}", pytrace=False)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # CI runs as root, for which Chromium has no sandbox. The page is trusted.
        launched = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"], timeout=DEADLINE_MS
        )
        try:
            yield launched
        finally:
            launched.close()


class Visit:
    """The page, opened, with its requests, errors and dialogs."""

    def __init__(
        self,
        browser: Browser,
        file: Path,
        width: int = 1440,
        scheme: Literal["dark", "light"] = "light",
    ) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 500
        )
        self._context.set_default_timeout(DEADLINE_MS)
        self.page: Page = self._context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        self.page.on(
            "console",
            lambda message: self.errors.append(message.text) if message.type != "debug" else None,
        )
        self.page.goto(file.as_uri(), timeout=DEADLINE_MS, wait_until="commit")
        self.page.wait_for_selector("html[data-ready=yes]", state="attached")

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def evaluate(self, script: str) -> Any:
        """Return the value of ``script`` in the page."""
        return self.page.evaluate(script)

    def rows(self, column: str) -> list[str]:
        """Return the texts of a column of the table of groups."""
        return self.page.locator(f"#group-table td.{column}").all_inner_texts()

    @property
    def shown(self) -> str:
        return self.page.locator("#shown").inner_text()


def test_the_page_opens_quickly_offline_and_without_errors(
    browser: Browser, page_file: Path
) -> None:
    with Visit(browser, page_file) as visit:
        assert visit.requests
        assert [url for url in visit.requests if not url.startswith(("file:", "data:"))] == []
        assert visit.errors == []
        assert visit.evaluate("window.pwned") is None
        assert visit.page.locator("img, a[href^=http], iframe, object").count() == 0
        assert visit.page.locator(".time svg:visible, .heat:visible").count() == 2
        assert visit.page.get_by_text(UNTRUSTED_NAME).count() > 2
        readable = visit.evaluate("performance.getEntriesByName('readable')[0].startTime / 1000")
        size = page_file.stat().st_size / 1e6
        print(f"\n{GROUPS:,} groups, {size:.1f} MB: readable after {readable:.2f} s")
        assert readable < READABLE_SECONDS


def test_groups_are_filtered_sorted_and_paged(browser: Browser, page_file: Path) -> None:
    with Visit(browser, page_file) as visit:
        page = visit.page
        assert visit.shown == "1 to 25 of 10,000 groups"
        assert visit.rows("group")[0] == UNTRUSTED_NAME
        whole = page.locator("#sums").inner_text()
        page.click("#next")
        assert visit.shown == "26 to 50 of 10,000 groups"
        page.fill("#filter", "SERVICE-4242")
        assert visit.rows("group") == ["team-24.service-4242"]
        assert visit.shown == "1 to 1 of 1 group, filtered from 10,000"
        page.fill("#filter", "no such group")
        assert visit.shown == "No group matches, filtered from 10,000"
        assert page.locator("#sums").inner_text() == "$0.00 per month"
        assert page.locator("#next").is_disabled()
        page.fill("#filter", "")
        assert page.locator("#sums").inner_text() == whole
        assert "per month, of which $" in whole
        page.select_option("#filter-cluster", label="web")
        assert set(visit.rows("cluster")) == {"web"}
        page.select_option("#filter-cluster", label="All")
        # With the keyboard: the first press sorts in descending order, the second in ascending.
        head = page.locator("th[data-sort=bytes]")
        head.locator("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        assert visit.rows("bytes")[0].endswith(("GB", "TB"))
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert visit.rows("bytes")[0].endswith("MB")
        page.click("th[data-sort=group] button")
        assert visit.rows("group")[0].startswith("<")
        assert visit.errors == []


def test_the_filtered_groups_are_downloaded_as_csv(browser: Browser, page_file: Path) -> None:
    with Visit(browser, page_file) as visit:
        for query, groups in (("", GROUPS), ("service-4242", 1), ("=1+1", 1)):
            visit.page.fill("#filter", query)
            with visit.page.expect_download() as downloading:
                visit.page.click("#download")
            with open(downloading.value.path(), encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            assert len(rows) == groups, query
        assert downloading.value.suggested_filename == "groups.csv"
        # A spreadsheet would compute it otherwise.
        assert rows[0]["group"] == "'" + FORMULA_NAME
        assert float(rows[0]["cost_per_month"]) > float(rows[0]["saving_per_month"]) > 0
        assert visit.errors == []


def test_cluster_kind_and_measure_can_be_selected(browser: Browser, page_file: Path) -> None:
    with Visit(browser, page_file) as visit:
        page = visit.page
        cells = page.locator(".heat td span:visible")
        assert any("GB" in each for each in cells.all_text_contents())
        page.locator("#measure").get_by_text("Cost", exact=True).click()
        assert any("$" in each for each in cells.all_text_contents())
        assert not any("GB" in each for each in cells.all_text_contents())
        page.select_option("#scope", label="web")
        caption = page.locator(".heat:visible caption")
        one = caption.text_content()
        page.locator("#kind input").first.focus()
        page.keyboard.press("ArrowRight")
        assert caption.text_content() != one
        assert "across racks" in (caption.text_content() or "")
        page.locator("#traffic summary:visible").click()
        assert page.locator("#traffic details:visible tbody tr").count() == 168
        assert visit.errors == []


def test_colours_follow_the_color_scheme_of_the_browser(browser: Browser, page_file: Path) -> None:
    with Visit(browser, page_file, scheme="dark") as visit:
        background = "getComputedStyle(document.body).backgroundColor"
        assert visit.evaluate(background) == "rgb(14, 18, 23)"
        bars = visit.evaluate(FILL)
        assert bars == "rgb(240, 138, 60)"
        visit.page.emulate_media(color_scheme="light")
        visit.page.wait_for_function(f"(before) => {FILL} !== before", arg=bars)
        assert (visit.evaluate(background), visit.evaluate(FILL)) == (
            "rgb(245, 246, 248)",
            "rgb(208, 90, 0)",
        )
        assert visit.errors == []


def test_the_page_fits_a_phone(browser: Browser, page_file: Path) -> None:
    with Visit(browser, page_file, width=390) as visit:
        assert visit.evaluate("document.documentElement.scrollWidth") == 390
        widest = visit.evaluate(
            "Math.max(...[...document.querySelectorAll('.time svg')]"
            ".map((each) => each.getBoundingClientRect().right))"
        )
        assert widest <= 390
        assert visit.page.locator("#sort-by").is_visible()
        visit.page.select_option("#sort-by", "now")
        assert visit.shown == "1 to 10 of 10,000 groups"
        clipped = visit.evaluate(
            "[...document.querySelectorAll('#group-table td')]"
            ".filter((each) => each.scrollWidth > each.clientWidth + 1).length"
        )
        assert clipped == 0
        assert visit.errors == []


def test_the_printed_page_is_light_and_fits(
    browser: Browser, page_file: Path, tmp_path: Path
) -> None:
    with Visit(browser, page_file, scheme="dark") as visit:
        visit.evaluate(
            "addEventListener('beforeprint', () => { window.paper = ["
            "getComputedStyle(document.documentElement).getPropertyValue('--panel').trim(),"
            "document.querySelectorAll('#group-table tbody tr').length]; })"
        )
        pdf = tmp_path / "report.pdf"
        visit.page.pdf(path=pdf, format="A4", prefer_css_page_size=True)
        assert pdf.read_bytes().startswith(b"%PDF")
        assert visit.evaluate("window.paper") == ["#ffffff", 100]
        assert visit.page.locator("#group-table tbody tr").count() == 25
        assert visit.evaluate("document.documentElement.dataset.theme") is None
        assert visit.errors == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_an_audit_is_offline_and_fits_the_screen(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "audit.html"
    generated_at = datetime(2026, 11, 23, 9, tzinfo=UTC)
    file.write_text(render_audit_page(audit_report(), generated_at))
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.set_default_timeout(DEADLINE_MS)
    try:
        page = context.new_page()
        requests: list[str] = []
        messages: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.goto(file.as_uri(), timeout=DEADLINE_MS)
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        assert messages == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#groups tbody tr").count() == len(audit_report().groups)
        assert page.locator("text=rackward lead billing --take-over remove").is_visible()
    finally:
        context.close()
