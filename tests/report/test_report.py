"""The HTML report, without a browser: what it says, that it is one inert file, and how it is written."""

import ast
import base64
import dataclasses
import datetime
import itertools
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest
from matplotlib.figure import Figure

import kembed
from kembed.comparing.summaries import QUANTILES, ColumnSummary, histogram
from kembed.plotting import plot_learned
from kembed.report import figures, render, save, words
from kembed.report.page import in_python, template

DATE = "2 March 2025"
SCRIPT = "<script>window.__pwned=1;alert(1)</script>"
NAMES = [
    SCRIPT,
    "price $ & \"quoted\" 'single' $x^{",
    "שלום \u202eevil",
    "😀 mood",
    "long_" + "x" * 195,
    "two\nlines\x00",
    "{{ 7 * 7 }}{% raw %}",
    "constant",
]
LEVELS = ["<b>bold</b>", '"><img src=x onerror=alert(2)>', "a & b", "$\\frac{$"]
LABELS = ('<i>before</i> & "1"', "after\u202e\x07 </style></title><script>window.__pwned=2</script>")
BLOCKS = {"td", "th", "p", "li", "dt", "dd", "h1", "h2", "h3"}
VOID = {"meta", "link", "img", "br", "wbr", "path", "rect"}


def table(n, shares, rng):
    columns = {name: list(rng.normal(size=n)) for name in NAMES}
    columns["😀 mood"] = list(rng.choice(LEVELS, n, p=shares))
    columns["constant"] = [1.0] * n
    return columns


@pytest.fixture(scope="module")
def nasty():
    """Names of every kind; the shares of a column with categories differ, one row has a missing value."""
    import polars as pl

    rng = np.random.default_rng(3)
    x, y = table(120, [0.7, 0.1, 0.1, 0.1], rng), table(120, [0.1, 0.7, 0.1, 0.1], rng)
    x[SCRIPT][4] = None
    frames = (pl.DataFrame(x), pl.DataFrame(y))
    return kembed.compare(*frames, labels=LABELS, kernel="median", n_resamples=199, missing="omit", rng=7)


@pytest.fixture(scope="module")
def same():
    rng = np.random.default_rng(0)
    return kembed.compare(
        rng.normal(size=(60, 2)), rng.normal(size=(60, 2)), kernel="median", n_resamples=199
    )


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(1)
    return kembed.compare(rng.normal(size=60), rng.normal(1.0, size=60), kernel="median", n_resamples=199)


class Page(HTMLParser):
    """Tags with their attributes, text, and whether every tag is closed by its own."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open, self.wrong = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in BLOCKS:
            self.text.append(" ")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def said(self):
        """The words of the page, without its style."""
        return " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def pages(nasty, same, shifted):
    return {
        name: render(one, date=DATE) for name, one in (("nasty", nasty), ("same", same), ("one", shifted))
    }


@pytest.fixture(scope="module")
def page(pages):
    return Page(pages["nasty"])


@pytest.mark.parametrize("name", ["nasty", "same", "one"])
def test_page_is_well_formed(pages, name):
    assert pages[name].startswith('<!doctype html>\n<html lang="en">')
    page = Page(pages[name])
    assert page.wrong == []
    assert page.open == []
    identities = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(identities)) == len(identities)
    assert {link["href"][1:] for link in page.all("a")} <= set(identities)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
    assert all(cell.get("scope") in {"col", "row", "rowgroup"} for cell in page.all("th"))


@pytest.mark.parametrize("name", ["nasty", "same", "one"])
def test_page_needs_nothing_and_runs_nothing(pages, name):
    page = Page(pages[name])
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert {tag for tag, _ in page.tags}.isdisjoint(
        {"script", "iframe", "object", "embed", "form", "base", "i"}
    )
    for _, attributes in page.tags:
        assert not any(key.startswith("on") for key in attributes)
        for key in {"src", "href", "srcset", "poster", "action", "data"} & set(attributes):
            assert attributes[key].startswith(("data:", "#"))
    style = pages[name].split("<style>")[1].split("</style>")[0]
    assert not re.search(r"url\(|@import|https?:", style)


def test_names_from_the_data_are_text(page, pages):
    """Nothing that looks like a tag became one, and every name can be read."""
    assert len(page.all("img")) == len(re.findall("<img ", pages["nasty"])) == 2
    assert page.all("style") == [{}]
    for text in [*NAMES[:4], *NAMES[6:], *LEVELS, *LABELS]:
        assert " ".join(words.clean(text).split()) in page.said, text
    assert "two lines\N{REPLACEMENT CHARACTER}" in page.said
    assert "long_" + "x" * 20 in page.said
    assert not re.search("[\x00\x07\u202e]", pages["nasty"])


@pytest.mark.parametrize("name", ["nasty", "same", "one"])
def test_figures_are_drawings_without_scripts(pages, name):
    for image in Page(pages[name]).all("img"):
        kind, content = image["src"].split(";base64,")
        assert kind == "data:image/svg+xml"
        drawing = ElementTree.fromstring(base64.b64decode(content))
        tags = {element.tag.split("}")[-1] for element in drawing.iter()}
        shapes = {"path", "use", "text", "clipPath", "rect", "image", "pattern"}
        assert tags <= {"svg", "defs", "style", "g", *shapes}
        links = [v for element in drawing.iter() for key, v in element.attrib.items() if key.endswith("href")]
        assert all(link.startswith(("#", "data:")) for link in links)
        assert len(image["alt"]) > 60
        assert int(image["width"]) > int(image["height"]) > 0


def test_figures_keep_their_text(pages):
    """Text is drawn by the reader's fonts, as it is written."""
    drawn = "".join(
        "".join(ElementTree.fromstring(base64.b64decode(image["src"].split(",")[1])).itertext())
        for image in Page(pages["nasty"]).all("img")
    )
    assert "😀 mood" in drawn
    assert "$\\frac{$" in drawn
    assert "<b>bold</b>" in drawn
    assert "observed" in drawn


def test_alternative_text_says_what_is_seen(pages, shifted):
    joint, null = (image["alt"] for image in Page(pages["one"]).all("img"))
    assert joint.startswith("Witness of column 0: ")
    for region in shifted.witness.where():
        low, high = region.box["column 0"]
        assert (
            f"Significantly more of {'xy'[region.sign < 0]}: {words.number(low, 3)} "
            f"to {words.number(high, 3)}." in joint
        )
    assert f"A line marks the observed value, {words.number(shifted.test.statistic)}" in null
    assert "Histogram of 199 values" in null


def test_numbers_are_those_of_the_comparison(nasty, page):
    said = page.said
    assert " ".join(words.clean(nasty.verdict).split()) in said
    assert "A difference was found" in said
    assert f"Can rows be classified? {nasty.auc:.2f} 0.5: guessing 1: certain" in said
    assert f"p-value {nasty.test.pvalue:.3f} If both" in said
    low, high = nasty.auc_interval
    assert f"(95% CI {low:.2f}-{high:.2f})" in said
    assert "Columns that differ individually 1 of 8 The clearest is 😀 mood." in said
    assert "119 rows and 120 rows · 8 columns" in said
    for column in nasty.columns:
        name = " ".join(words.short(column.name, 80).split())
        change = " ".join(words.clean(column.change).split())
        effects = " ".join(
            re.sub("<.*?>", "", str(one)) for one in (words.of_difference(column), words.of_shift(column))
        )
        p = words.p_value(column.adjusted_pvalue)
        assert f"{name} {change} {effects} {column.effect.verdict} {p}" in said
        for side in (column.x, column.y):
            if not column.categorical:
                keys = ("mean", "sd", "minimum", "median", "maximum")
                assert " ".join(words.number(side[key]) for key in keys) in said
    mood = next(column for column in nasty.columns if column.categorical)
    assert f"{LEVELS[1]} {mood.x[LEVELS[1]]:.1%} {mood.y[LEVELS[1]]:.1%}" in said
    assert [column.name for column in nasty.changed] == ["😀 mood"]
    assert "1 of 8 columns differs clearly on its own (p at most 0.05)" in said


def test_regions_are_told(nasty, page):
    assert nasty.regions
    for region in nasty.regions[:6]:
        more = LABELS[region.sign < 0]
        mine = region.share_x if region.sign > 0 else region.share_y
        assert f"More {words.short(more)}: {words.percent(mine)} of its rows" in page.said
    assert "constant 1" not in page.said.split("In words")[1].split("At which scale?")[0]


def test_how_to_repeat_it(page):
    said = page.said
    assert f"kembed {kembed.__version__}, NumPy {np.__version__}, Python " in said
    code = "".join(page.text).split("In Python:")[1].split("Words on this page")[0].strip()
    call = ast.parse(code).body[-2].value
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert given["rng"] == 7
    assert given["kernel"] == "median"
    assert given["labels"] == tuple(map(words.clean, LABELS))
    assert given["missing"] == "omit"
    assert (given["n_resamples"], given["alpha"]) == (199, 0.05)


def test_kernels_that_can_be_named_are(nasty):
    assert 'kernel="median",' in in_python(nasty)
    fused = dataclasses.replace(nasty, kernel="fused")
    assert "kernel" not in in_python(fused)
    own = dataclasses.replace(nasty, kernel=kembed.Gaussian(2.0))
    assert "kernel=...,  # as it was given" in in_python(own)
    unseeded = dataclasses.replace(fused, seed=None)
    assert "rng=...,  # not known" in in_python(unseeded)
    assert "not known: a random generator was given" in render(unseeded, date=DATE)


@pytest.fixture(scope="module")
def learned():
    """Samples in units of their own, and the kernel learned from both."""
    rng = np.random.default_rng(2)
    x, y = 1e3 * rng.normal(size=30), 1e3 * rng.normal(2.0, size=30)
    return x, y, kembed.learn_kernel(np.concatenate([x, y]))


def test_a_kernel_that_was_given_is_in_the_units_of_the_data(learned):
    x, y, kernel = learned
    found = kembed.compare(x, y, kernel=kernel, n_resamples=19)
    scale = kernel.kernel.lengthscale
    assert 10.0 < scale < 1e4
    pooled = np.concatenate([x, y])
    apart = np.abs(pooled[:, None] - pooled)[np.triu_indices(60, 1)]
    assert found.evidence.median == pytest.approx(np.median(apart))
    said = Page(render(found, date=DATE)).said
    assert f"The kernel that was given has a lengthscale of {scale:.2g}." in said
    assert "robust standard deviations apart" not in said
    assert plot_learned(found.evidence, Figure().subplots()).get_xlabel() == "lengthscale"


def test_a_word_chooses_in_spreads(learned):
    """Of several columns; one column has its own unit."""
    x, y, _ = learned
    one = kembed.compare(x, y, kernel="bkl", n_resamples=19)
    several = kembed.compare(
        *(np.column_stack([part, part[::-1]]) for part in (x, y)), kernel="bkl", n_resamples=19
    )
    for found, apart, label in (
        (one, r"about \d[\d.e+]* apart", "lengthscale"),
        (
            several,
            r"about \d(\.\d+)? robust standard deviations? apart",
            "lengthscale (in spreads of the columns)",
        ),
    ):
        said = Page(render(found, date=DATE)).said
        assert re.search(rf"Rows that are {apart} or less count as alike", said)
        assert plot_learned(found.evidence, Figure().subplots()).get_xlabel() == label
    assert "spreads of the columns" in figures.evidence(several).alt


def test_no_difference_is_told_honestly(pages, same):
    page = Page(pages["same"])
    assert not same.differ
    assert same.verdict in page.said
    assert "does not prove they are the same" in page.said
    assert any(section.get("class") == "verdict same" for section in page.all("section"))
    assert "no column is singled out" in page.said
    assert "What changed" not in page.said
    assert len(page.all("img")) == 2  # all columns together, and the null distribution
    assert page.said.index(" column 0 x ") < page.said.index(" column 1 x ")


def test_columns_that_pass_alone_are_a_hint(same):
    first = dataclasses.replace(same.columns[0], adjusted_pvalue=0.01)
    hinted = dataclasses.replace(same, columns=(first, *same.columns[1:]))
    said = Page(render(hinted, date=DATE)).said
    assert f"1 of 2 columns would pass the level 0.05 ({first.name})" in said
    assert "take this as a hint" in said


def test_wide_tables_are_cut(nasty):
    """Fifty columns are shown, the others counted."""
    plain = next(column for column in nasty.columns if column.name == "constant")
    more = [dataclasses.replace(plain, name=f"extra {k}", adjusted_pvalue=1.0) for k in range(292)]
    wide = render(dataclasses.replace(nasty, columns=(*nasty.columns, *more)), date=DATE)
    said = Page(wide).said
    assert said.count("And 250 more columns") == 2
    assert "extra 41" in said
    assert "extra 42" not in said
    assert len(wide) < 3_000_000


def test_same_comparison_same_bytes(nasty, pages):
    assert render(nasty, date=DATE) == pages["nasty"]
    later = render(nasty, date=datetime.date(2025, 4, 1))
    assert later != pages["nasty"]
    assert later.replace("1 April 2025", DATE) == pages["nasty"]


def test_today_unless_told(same):
    before = datetime.date.today()
    page = render(same)
    days = {f"{day.day} {day:%B %Y}" for day in (before, datetime.date.today())}
    assert any(day in page for day in days)


def test_saved_whole(same, pages, tmp_path):
    path = save(same, tmp_path / "report.html", date=DATE)
    assert path == tmp_path / "report.html"
    assert path.read_bytes().decode() == pages["same"]
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_failure_leaves_what_was_there(same, tmp_path):
    broken = dataclasses.replace(same, auc="half")
    with pytest.raises(TypeError, match="must be real number"):
        save(broken, tmp_path / "new.html")
    assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.html"
    old.write_text("old")
    with pytest.raises(TypeError, match="must be real number"):
        broken.save_report(old)
    assert old.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["old.html"]


def test_a_large_drawing_becomes_pixels():
    source = figures.draw(lambda ax: ax.plot([0.0, 1.0]), large=1_000)
    kind, content = source.split(";base64,")
    assert kind == "data:image/png"
    assert base64.b64decode(content).startswith(b"\x89PNG")
    assert figures.draw(lambda ax: ax.plot([0.0, 1.0]), large=1_000) == source


def test_constant_and_huge_columns_are_drawn():
    """Bars stay inside their frame whatever the numbers."""
    for x, y in [([1.0, 1.0], [1.0, 1.0]), ([-8e307, 8e307], [0.0, 1.0]), ([0.0] * 9 + [1e9], [0.0, 1.0])]:
        sides = [{key: float(np.quantile(side, q)) for key, q in QUANTILES.items()} for side in (x, y)]
        bars = histogram(np.array(x), np.array(y))
        column = ColumnSummary("c", False, 1.0, 1.0, 0.0, *sides, "", histogram=bars)
        drawn = template("drawings.html").module.small(column, ("x", "y"))
        assert drawn.count("<rect") == 2 * len(bars.x)
        for place, width in re.findall(r' x="([\d.]+)"[^>]* width="([\d.]+)"', drawn):
            assert 0.0 <= float(place) + float(width) <= 132.0


def test_a_large_picture_says_where():
    rng = np.random.default_rng(1)
    found = kembed.compare(rng.normal(size=400), rng.normal(1.0, size=400), kernel="median", n_resamples=19)
    drawn = template("drawings.html").module.large(found.columns[0], found.labels)
    assert re.search(r"Significantly more: x at −\d\S* to \S+, y at \S+ to \d\S*\.", drawn)
    assert drawn.count(" sure") >= 4


def test_what_only_the_caller_knows_is_on_the_page(same):
    about = {"command": "kembed report 'a b.csv' --group g", "notes": ["3 rows are left out"]}
    page = Page(render(same, date=DATE, **about, left_out={"id<b>": "it holds dates"}))
    assert "Before you rely on it 3 rows are left out." in page.said.replace("3 rows", "3 rows")
    assert "Not compared: id<b> (it holds dates)." in page.said
    assert "At a shell: kembed report 'a b.csv' --group g In Python:" in page.said.replace("  ", " ")


def test_missing_values_are_on_the_page():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(100, 2)), rng.normal(size=(100, 2))
    y[:40, 1] = np.nan
    found = kembed.compare(x, y, missing="omit", n_resamples=99)
    said = Page(render(found, date=DATE)).said
    assert "Missing values Column x y p column 1 0% 40% < 0.001" in said
    assert "Missing values differ: column 1" in said


def test_included_missing_values_are_columns_of_the_page():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(100, 2)), rng.normal(size=(100, 2))
    y[:40, 1] = np.nan
    found = kembed.compare(x, y, n_resamples=99)
    said = Page(render(found, date=DATE)).said
    assert found.differ
    assert "The clearest is column 1 (missing): missing in 0.0% of x and 40.0% of y." in said


def test_dates_are_dates_on_the_page():
    rng = np.random.default_rng(3)
    samples = []
    for first in (0, 200):
        days = np.sort(rng.choice(400, 60)) + first
        dates = np.datetime64("2019-03-01") + days.astype("m8[D]")
        samples.append({"day": dates, "kind": rng.choice(["u", "v"], 60), "z": rng.normal(size=60)})
    found = kembed.compare(*samples, n_resamples=99, rng=0)
    page = render(found)
    mean = np.datetime64(int(samples[0]["day"].astype(int).mean()), "D")
    assert f"mean {mean} in x" in page
    assert "days later" in page
    assert " days</td>" in page  # the standard deviation
    text = re.sub(r"<script.*?</script>|<[^>]*>", " ", page)
    counted = [word for word in re.findall(r"\b1[78],?\d{3}\b", text) if "2019" not in word]
    assert counted == []  # no number of days since 1970 is left, in words, tables, bars or axes


def contrast(one, other):
    def light(colour):
        parts = [int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05

    high, low = sorted((light(one), light(other)), reverse=True)
    return high / low


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(scheme):
    """WCAG 2 asks for a contrast of 4.5 for text and 3 for drawings."""
    style = resources.files("kembed.report").joinpath("style.css").read_text(encoding="utf-8")
    palette = dict(
        re.findall(
            r"--([\w-]+): (#\w{6})", style.split("--rail")[scheme] + style.split(":root {")[scheme + 1]
        )
    )
    for ground in ("paper", "card"):
        for text in ("ink", "soft", "a-text"):
            assert contrast(palette[text], palette[ground]) >= 4.5, (text, ground)
    for state in ("differ", "same"):
        assert contrast(palette[state], palette[f"{state}-card"]) >= 4.5
        assert contrast(palette["ink"], palette[f"{state}-card"]) >= 4.5
    for line in ("a", "b"):
        assert contrast(palette[line], palette["paper"]) >= 3.0


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_small_shifts_are_negligible_and_large_ones_come_first(shift):
    """Several columns differ significantly, all of them by little; or one of them by much."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_500, 4))
    y = rng.normal([0.0, 0.12, 0.1 + shift, 0.2], 1.0, (1_500, 4))
    found = kembed.compare(x, y, labels=("odd", "even"), margin="0.5 sd", n_resamples=99)
    page = Page(render(found, date=DATE)).said
    assert len(found.changed) == 3
    sizes = [column.effect.difference for column in found.columns]
    assert sizes == sorted(sizes, reverse=True)
    table = page.split("Which columns?")[1].split("Both samples: bars")[0]
    places = [table.index(f"{column.name} mean") for column in found.columns]
    assert places == sorted(places)
    assert page.count("odd vs even") == 2  # the title and the heading
    assert "Can rows be classified?" in page
    assert "Margin 0.5 sd p (adjusted)" in table
    if shift:
        assert found.headline == "Different beyond the margin of 0.5 sd"
        assert [column.name for column in found.beyond] == ["column 2"] == [found.columns[0].name]
        assert table.count(" beyond ") == 2  # the sentence and the mark
    else:
        assert found.headline == "Detectable but negligible"
        assert "None is beyond 0.5 sd." in table
