"""One schema for the JSON of all commands: what is printed is what docs/json.md lists."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import kembed

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
ROWS = 60  # and one column where kernels are learned, as in test_commands: compiled once
QUICK = ["--resamples", "39"]
V = ["--columns", "v"]
BOTH = ["--columns", "v,w"]  # which go together in the first file alone
CALLS = {
    "test": ["test", "a.csv", "b.csv", *BOTH, "--by-column", "--margin", "0.1sd", *QUICK],
    "report": ["report", "a.csv", "b.csv", *BOTH, "--margin", "0.1sd", *QUICK],
    "independence": ["independence", "a.csv", "--x", "v", "--y", "u,w", *QUICK],
    "witness": ["witness", "a.csv", "b.csv", *V, "--kernel", "median"],
    "when": ["when", "steps.csv", "--order", "t", *QUICK],
    "power": ["power", "a.csv", "b.csv", *BOTH, "--draws", "10", *QUICK],
    "learn": ["learn", "a.csv", *V],
    "summarise": ["summarise", "a.csv", "-o", "a.kembed"],
    "monitor": ["monitor", "m.kembed", "b.csv", "--reference", "a.csv", *BOTH, "--resamples", "39"],
    "graph": ["graph", "a.csv", "--test", "fisher-z", "--bootstrap", "2"],
}
COMMANDS = tuple(CALLS)


def documented() -> dict[str, set[str]]:
    """The keys of every command, with a dot or [] between a key and one inside it."""
    keys: dict[str, set[str]] = {command: set() for command in COMMANDS}
    rows = re.findall(r"^\| (`[^|]*`) \| ([a-z ]+) \| .+ \|$", PAGE.read_text(), re.M)
    assert len(rows) > 50
    for names, commands in rows:
        for command in COMMANDS if commands == "all" else commands.split():
            keys[command] |= set(re.findall(r"`([^`]+)`", names))
    return keys


KEYS = documented()


def check(value: object, path: str, keys: set[str]) -> set[str]:
    """The documented keys that a value has, itself among them; whatever is not documented fails."""
    if path in keys and isinstance(value, dict):  # an object by column or the like
        return {path}
    inner = [key for key in keys if key.startswith((f"{path}.", f"{path}[]")) or not path]
    if isinstance(value, dict) and inner:
        return set().union(*(check(one, f"{path}.{key}".lstrip("."), keys) for key, one in value.items()))
    if isinstance(value, list) and inner:
        return {path} | set().union(*(check(one, f"{path}[]", keys) for one in value))
    assert path in keys or inner, f"{path} is not on the page"
    return {path, *(inner if value in (None, []) else ())}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    v, w = np.random.default_rng(0).normal(size=(2, ROWS))
    pl.DataFrame({"v": v, "w": v + 0.3 * w, "u": w}).write_csv(folder / "a.csv")
    step = np.where(np.arange(ROWS) < 25, v, v + 4.0)
    frame = {"t": np.arange(ROWS), "v": step, "w": np.where(np.arange(ROWS) < 25, w, 0.1 * w - v)}
    pl.DataFrame(frame).write_csv(folder / "steps.csv")
    pl.DataFrame({"v": v + 2.0, "w": w, "town": ["Rome", "Oslo"] * (ROWS // 2)}).write_csv(folder / "b.csv")
    return folder


@pytest.fixture(scope="module")
def told():
    """What commands have answered so far."""
    return {}


@pytest.fixture
def answer(answer, told):
    def called(command: str) -> dict:
        if command not in told:
            told[command] = answer(*CALLS[command])
        return told[command]

    return called


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_lists_every_key(answer, command):
    found = answer(command)
    seen = check(found, "", KEYS[command])
    assert {key for key in KEYS[command] if key.removesuffix("[]") not in seen and key not in seen} == set()


def test_the_same_keys_have_the_same_type_everywhere(answer):
    types: dict[str, set[str]] = {}
    for command in COMMANDS:
        for key, value in answer(command).items():
            if value is not None and key != "background":
                types.setdefault(key, set()).add(type(value).__name__)
    assert {key: kinds for key, kinds in types.items() if len(kinds) > 1} == {}


def test_a_test_and_a_report_say_the_same(answer):
    test, report = answer("test"), answer("report")
    same = "schema samples columns left_out alpha statistic_unit effect_unit kernel kernel_used null"
    for key in (*same.split(), "resamples", "enumerated", "seed", "differ"):
        assert report[key] == test[key], key
    for key in ("statistic", "effect_of_kernel", "effect"):
        assert report[key] == pytest.approx(test[key], rel=1e-9)
    assert (test["schema"], test["kernel"], test["resamples"]) == (3, "fused", 39)
    assert [column["name"] for column in report["by_column"]] == ["v", "w"]
    assert set(test["left_out"]) == set()


def test_python_says_the_same(answer, place):
    a, b = (pl.read_csv(place / name).select("v", "w") for name in ("a.csv", "b.csv"))
    found = kembed.compare(a, b, labels=("a.csv", "b.csv"), margin="0.1 sd", n_resamples=39, rng=0)
    told, printed = found.to_dict(), answer("report")
    assert set(printed) - set(told) == {"command", "left_out", "output"}
    assert [note.partition(";")[0].replace("a.csv and b.csv", "x and y") for note in printed["notes"]] == [
        note.partition(";")[0] for note in told["notes"]
    ]
    for key in told.keys() - {"notes"}:
        assert printed[key] == told[key], key
