"""The page in a real browser; skipped where there is none."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from nrtsi.report import write_report
from nrtsi.report.content import Coverage, ReportScore, ReportSeries
from tests.report_samples import HOUR, channel, report, series

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium on this machine")

COLORS = """(canvas) => {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const { data } = pen.getImageData(0, 0, copy.width, copy.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""
"""How many different colours a chart has: one where it is blank."""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        # A container's root has no sandbox; the page is our own.
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def show(browser, tmp_path):
    """Opens a report and fails, in the end, on anything the browser reported."""
    pages, errors = [], []

    def open_report(content, width=1200, scheme="light", **settings):
        path = tmp_path / f"{len(pages)}.html"
        write_report(path, content)
        size = {"width": width, "height": 800}
        page = browser.new_page(viewport=size, color_scheme=scheme, locale="en-GB", **settings)
        for event in ("console", "pageerror", "dialog"):
            page.on(event, lambda found: errors.append(str(found)))
        page.on("request", lambda request: errors.append(request) if _asks(request) else None)
        page.set_default_timeout(10_000)
        pages.append(page)
        page.goto(path.as_uri())
        settle(page)
        return page

    yield open_report
    for page in pages:
        page.close()
    assert not errors


def _asks(request):
    return not request.is_navigation_request() and not request.url.startswith("data:")


def settle(page):
    """Waits until what was asked for has been drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")


def span(page):
    settle(page)
    data = page.locator("#range").evaluate("(range) => ({ ...range.dataset })")
    return float(data["from"]), float(data["to"])


def chart(page, number=0):
    """A channel's chart, in sight, and where it is."""
    canvas = page.locator(".panel canvas").nth(number)
    canvas.scroll_into_view_if_needed()
    settle(page)
    return canvas, canvas.bounding_box()


def colors(canvas):
    return canvas.evaluate(COLORS)


def test_every_chart_is_drawn(show):
    page = show(report())
    assert colors(page.locator("#map")) > 3
    for number in range(2):
        assert colors(chart(page, number)[0]) > 10
    assert page.locator(".errors path.method").count() == 2
    caption = page.locator("figcaption").first.inner_text()
    assert "12 imputed, 30 refused, 5 left missing" in caption
    label = page.locator(".panel canvas").first.get_attribute("aria-label")
    assert label.startswith("c0 over time: 153")


def test_wheel_buttons_keys_and_drags_change_the_time_range(show):
    page = show(report())
    low, high = span(page)
    canvas, box = chart(page)
    middle = box["x"] + box["width"] / 2, box["y"] + 60
    page.mouse.move(*middle)
    page.mouse.wheel(0, 1)  # without a click, it scrolls
    assert span(page) == (low, high)

    def after(act):
        act()
        return span(page)

    box = chart(page)[1]
    page.mouse.click(middle[0], box["y"] + 60)
    zoomed = after(lambda: page.mouse.wheel(0, -300))
    assert low < zoomed[0] < zoomed[1] < high
    assert after(lambda: canvas.dblclick()) == (low, high)

    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 70, steps=3)
    picked = after(page.mouse.up)
    assert picked[1] - picked[0] == pytest.approx(
        (high - low) * 200 / (box["width"] - 68), rel=0.02
    )

    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 70, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    moved = span(page)
    assert moved[0] > picked[0]
    assert moved[1] - moved[0] == pytest.approx(picked[1] - picked[0])

    assert after(lambda: page.click("[data-act=all]")) == (low, high)
    closer = after(lambda: page.click("[data-act=closer]"))
    assert closer[1] - closer[0] == pytest.approx((high - low) / 2)
    canvas.focus()
    assert after(lambda: page.keyboard.press("Shift+ArrowRight"))[0] > closer[0]
    assert after(lambda: page.keyboard.press("0")) == (low, high)
    assert not page.locator(".window").is_visible()
    page.keyboard.press("+")
    settle(page)
    assert page.locator(".window").is_visible()


def test_the_map_selects_the_time_range_of_all_charts(show):
    page = show(report())
    low, high = span(page)
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 10)
    assert "c0\n" in page.locator("#tip").inner_text()
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 10, steps=3)
    page.mouse.up()
    picked = span(page)
    assert picked[1] - picked[0] < 0.3 * (high - low)


def test_the_pointer_and_the_keys_show_a_cell(show):
    page = show(report())
    _, box = chart(page)
    tip = page.locator("#tip")
    across = (box["width"] - 68) / 200  # pixels a row
    for row, words in (
        (3, "(observed)"),
        (43, "(imputed)\n90% interval: "),
        (90, "c0: refused"),
        (122, "c0: left missing"),
    ):
        page.mouse.move(box["x"] + 58 + across * (row + 0.5), box["y"] + 40)
        assert words in tip.inner_text()
    page.mouse.move(box["x"] + 58 + across * 3.5, box["y"] + 40)
    assert tip.inner_text().startswith("15 Nov 2023, 01:13:20\nc0: ")  # 1.7e12 ms and 3 hours
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    page.locator(".panel canvas").first.focus()
    page.keyboard.press("ArrowRight")
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() != first


def test_a_tap_shows_a_cell_and_a_tap_elsewhere_hides_it(show):
    page = show(report(), width=400, has_touch=True)
    _, box = chart(page)
    page.touchscreen.tap(box["x"] + 100, box["y"] + 40)
    assert "c0: " in page.locator("#tip").inner_text()
    page.touchscreen.tap(box["x"] + 100, box["y"] - 60)
    assert not page.locator("#tip").is_visible()


def test_another_series_can_be_chosen(show):
    page = show(report(series("a"), series("b", rows=50, start=0.0)))
    first = span(page)
    page.select_option("#series", label="b")
    assert span(page)[1] < first[0]
    assert not show(report()).locator("#series").is_visible()


def test_a_channel_and_a_measure_can_be_chosen(show):
    scores = (ReportScore(HOUR, "linear", 9, 4.0, 1.0),)
    channels = tuple(channel(name, scores=scores, methods=()) for name in ("c0", "c1"))
    page = show(report(channels=channels))
    page.click("#scores button[data-channel='1']")
    assert "c1, by gap length" in page.locator("#by-gap").inner_text()
    table = page.locator("#by-gap tbody")
    assert "\t1\t" in table.inner_text()
    page.select_option("#measure", "rmse")
    assert "\t2\t" in table.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways_and_follows_the_scheme(show, scheme):
    name = "a_very_long_name_that_has_no_place_to_break_" * 3
    long = report(series(channels=1), names=[name])
    page = show(long, width=400, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    before = page.evaluate("document.getElementById('map').toDataURL()")
    page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    settle(page)
    assert page.evaluate("document.getElementById('map').toDataURL()") != before


def test_the_printed_page_is_light_and_has_every_chart(show):
    page = show(report(series(channels=12)), scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert colors(page.locator(".panel canvas").nth(11)) > 10


def cells(rows, value, kind=1, spread=1.0):
    values = np.full((rows, 1), value) if np.isscalar(value) else np.asarray(value)[:, None]
    state = np.zeros((rows, 1), np.uint8)
    state[1 : rows - 1 or 1] = kind
    low, high = (np.where(state == 1, values + side * spread, np.nan) for side in (-1, 1))
    return ReportSeries("a", np.arange(rows, dtype=float), values, state, low, high)


ODD = {
    "no rows": cells(0, 1.0),
    "one row": cells(1, 1.0),
    "two rows": cells(2, 1.0),
    "constant": cells(30, 7.0, spread=0.0),
    "huge": cells(30, 1e308 * np.linspace(-1, 1, 30), spread=1e300),
    "tiny": cells(30, 1e-300 * np.arange(30), spread=1e-301),
    "far from zero": cells(30, 1e9 + 1e-3 * np.arange(30), spread=1e-3),
    "nothing known": cells(30, np.full(30, np.nan), kind=3),
    "infinite": cells(30, np.where(np.arange(30) % 3, np.inf, 1.0)),
    "nothing missing": cells(30, np.arange(30.0), kind=0),
    "all at one time": replace(cells(30, np.arange(30.0)), time=np.zeros(30)),
    "uneven": replace(cells(30, np.arange(30.0)), time=np.arange(30.0) ** 2),
}


@pytest.mark.parametrize("datetimes", [False, True])
def test_odd_data_are_drawn_without_errors(show, datetimes):
    page = show(report(*(replace(one, id=name) for name, one in ODD.items()), datetimes=datetimes))
    for name, one in ODD.items():
        page.select_option("#series", label=name)
        canvas, box = chart(page)
        page.mouse.move(box["x"] + 200, box["y"] + 60)
        page.click("[data-act=closer]")
        low, high = span(page)
        assert low < high, name
        assert colors(canvas) > 1, name
        assert page.locator("#tip").inner_text() or not one.time.size


def test_a_name_that_is_code_stays_a_name(show):
    evil = "</script><img src=x onerror=alert(1)>"
    gap = replace(HOUR, start_label=evil)
    page = show(
        report(
            replace(series(channels=1), id=evil),
            replace(series(channels=1), id="b"),
            names=[evil],
            first={
                "scores": (ReportScore(gap, evil, 3, 1.0, 1.0),),
                "methods": (),
                "coverage": (Coverage(gap, 3, 3, 0.9, 0.9),),
                "refusals": ((3, evil),),
            },
        )
    )
    _, box = chart(page)
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    assert evil in page.locator("#tip").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("figcaption span").inner_text() == evil


def test_charts_are_drawn_when_they_become_visible(show):
    page = show(report(series(rows=60, channels=300), first={"scores": (), "methods": ()}))
    last = page.locator(".panel canvas").nth(299)
    drawn = (
        "() => [...document.querySelectorAll('.panel canvas')].filter((c) => c.width > 300).length"
    )
    assert page.evaluate(drawn) < 20
    last.scroll_into_view_if_needed()
    settle(page)
    assert colors(last) > 10
    assert page.evaluate(drawn) < 20


@pytest.mark.slow
def test_a_million_cells_open_and_zoom_quickly(show):
    page = show(report(series(rows=100_000, channels=10, step=6e4)))
    metrics = page.context.new_cdp_session(page)
    # Time on the processor, which other work on the machine changes little.
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def milliseconds(act):
        before = spent()
        act()
        settle(page)
        return spent() - before

    def spent():
        found = metrics.send("Performance.getMetrics")["metrics"]
        return 1000 * next(each["value"] for each in found if each["name"] == "TaskDuration")

    opened = milliseconds(page.reload)
    chart(page, 2)
    acts = ("closer", "farther", "closer", "closer", "later", "farther", "farther")
    steps = [milliseconds(lambda act=act: page.click(f"[data-act={act}]")) for act in acts]
    print(f"opened in {opened:.0f} ms, steps in {np.round(steps)} ms")  # noqa: T201
    assert opened < 2000
    assert np.median(steps) < 100  # a click and a few charts: about 30 on a quiet machine
