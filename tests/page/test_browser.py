"""The page in a real browser: it draws, what is filtered changes what is shown, nothing fails."""

import math
import random
import shutil
import statistics

import pytest

from patallreduce.page import write_page
from patallreduce.records.iterations import Iteration
from tests.records.made_up import make_iteration

webdriver = pytest.importorskip("selenium.webdriver")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
pytest.importorskip("plotly")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(200),
    pytest.mark.skipif(not CHROMIUM or not DRIVER, reason="needs chromium and chromium-driver"),
]


def iterations(count, ranks, model=0):
    draw = random.Random(model)
    for number in range(count):
        arrivals_s = [1.0 + 0.01 * draw.random() for _ in range(ranks)]
        arrivals_s[2] += 0.5 if number >= count // 2 else 0.0
        predicted_s = [time_s + draw.gauss(0.0, 0.005) for time_s in arrivals_s]
        if number in {6, 7}:
            arrivals_s[0] = math.nan
        yield make_iteration(
            number, arrivals_s, at_s=3.0 * number, predicted_s=predicted_s, model=model
        )


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("page") / "page.html"
    write_page(made, [[*iterations(40, 4)], [*iterations(5000, 3, model=1)]], title="made up")
    return made


@pytest.fixture
def page(driver, path):
    yield from opened(driver, path)


def opened(driver, path):
    """The page, of which nothing may go wrong until the test has ended."""
    driver.get(path.as_uri())
    yield driver
    assert driver.get_log("browser") == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0


def put(page, field, value):
    """Put a value into a field, as a user does who then goes on to the next."""
    page.execute_script(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('change'));",
        *(field, value),
    )


def cells(page):
    """Ranks and iterations that the heat map shows."""
    return page.execute_script("const [map] = heat.data; return [map.y, map.x, map.z]")


def cell_of(page, rank, iteration):
    """The mouse on a cell of the heat map of 4 ranks and 40 iterations, all of it in sight."""
    plot = page.find_element("css selector", "#heat .nsewdrag")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    across = plot.size["width"] * ((iteration + 0.5) / 40 - 0.5)
    down = plot.size["height"] * ((rank + 0.5) / 4 - 0.5)
    mouse = webdriver.ActionChains(page)
    return mouse.move_to_element_with_offset(plot, int(across), int(down))


def count(page, selector):
    return page.execute_script(f"return document.querySelectorAll('{selector}').length")


def text(page, name):
    return page.execute_script(f"return document.getElementById('{name}').textContent")


def test_all_is_drawn(page):
    assert "rank 2 is late by" in text(page, "sentences")
    assert count(page, "#heat .heatmaplayer image") == 1
    ranks, numbers, late_ms = cells(page)
    assert (ranks, numbers) == ([*"0123"], [*range(40)])
    assert late_ms[2][39] == pytest.approx(500, abs=10)
    assert [row[7] for row in late_ms] == [None] * 4
    assert count(page, "#timeline .barlayer .point path") == 4 + 3 + 4
    assert count(page, "#timeline .scatterlayer .point") == 3 * 4
    assert count(page, "#pace .scatterlayer .point") == 40 - 1 - 3  # of 6 and 7 no end is known
    assert count(page, "#errors .barlayer .point path") > 10
    assert count(page, "#error-over-time .scatterlayer .js-line") == 2
    assert count(page, "#shares tbody tr") == 1


def test_the_filter_changes_what_is_shown(page):
    put(page, "ranks", "0, 2-3")
    put(page, "first", 10)
    put(page, "last", 19)

    assert text(page, "shown") == "10 iterations of 3 ranks"
    assert cells(page)[:2] == [[*"023"], [*range(10, 20)]]
    assert count(page, "#timeline .barlayer .point path") == 3 + 2 + 3
    assert count(page, "#pace .scatterlayer .point") == 10

    put(page, "ranks", "4")  # there is none
    assert count(page, "#ranks:invalid") == 1
    assert cells(page)[0] == [*"023"]

    page.execute_script("document.querySelector('#filter [type=reset]').click()")
    assert cells(page)[:2] == [[*"0123"], [*range(40)]]


def test_an_iteration_is_chosen_by_number_by_step_and_by_click(page):
    def shown():
        return page.execute_script("return document.getElementById('moment').valueAsNumber")

    put(page, "moment", 12)
    assert shown() == 12
    page.execute_script("document.getElementById('after').click()")
    assert shown() == 13
    cell_of(page, rank=2, iteration=30).click().perform()
    assert shown() == 30
    assert text(page, "moment-note") == ""
    longest_ms = page.execute_script("return Math.max(...timeline.data[0].x)")
    assert longest_ms == pytest.approx(1500, abs=10)


def test_the_mouse_on_a_cell_tells_what_it_is(page):
    cell_of(page, rank=2, iteration=30).perform()

    label = "return document.querySelector('#heat .hoverlayer').textContent"
    told = WebDriverWait(page, 20).until(lambda page: page.execute_script(label))
    late_ms, predicted_ms = page.execute_script(
        "return [shown.model.lateness, shown.model.predicted].map((of) => of[4 * 30 + 2] / 1e3)"
    )
    assert f"iteration 30rank 2late by {late_ms:.1f} ms" in told
    assert f"predicted: {predicted_ms:.1f} ms" in told


def test_another_model_has_columns_of_medians(page):
    put(page, "model", 1)

    ranks, numbers, late_ms = cells(page)
    assert (ranks, numbers) == ([*"012"], [*range(0, 5000, 3)])
    of_rank_ms = [1e3 * i.lateness_s[1] for i in iterations(5000, 3, model=1)]
    assert late_ms[1][1] == pytest.approx(statistics.median(of_rank_ms[3:6]), abs=1e-3)
    assert late_ms[1][2] == pytest.approx(of_rank_ms[8], abs=1e-3)  # of 6 and 7 it is not known

    put(page, "last", 1999)
    assert cells(page)[1] == [*range(2000)]


@pytest.mark.parametrize("width", [800, 1280])
def test_nothing_is_wider_than_the_window(page, width):
    page.set_window_size(width, 900)
    page.refresh()

    assert page.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    "made",
    [
        [make_iteration(0, (1.0,))],
        [make_iteration(n, (math.nan, 1.0), start_s=(math.nan, 0.0)) for n in range(3)],
        [Iteration(0, 5, (0.0, 0.0), 0.5, 2, (1.0, 1.0), ())],
    ],
    ids=["one rank, one iteration", "hardly anything known", "no buckets"],
)
def test_little_is_drawn_as_well_as_much(driver, tmp_path, made):
    path = tmp_path / "page.html"
    write_page(path, [made], title="little")

    for page in opened(driver, path):
        assert cells(page)[1] == [i.iteration for i in made]
        assert "Nothing was predicted" in text(page, "error-note")
        assert count(page, "#errors .main-svg") > 0
