"""A short run of every fuzzer; by hand they run for minutes, with other seeds (see their files)."""

import io

from tests.fuzz import api, cli, routes

CALLS, RUNS, CASES = 120, 80, 60  # a few seconds each
SEED = 17


def test_library_under_hostile_arguments():
    answered, found, made = api.fuzz(CALLS, SEED)
    assert not found, "\n".join(found)
    assert made == CALLS
    assert sum(count for name, count in answered.items() if name.endswith("answered")) > CALLS / 4


def test_command_line_under_hostile_files():
    codes, found, made = cli.fuzz(RUNS, SEED)
    assert not found, "\n".join(found)
    assert made == RUNS
    assert codes["exit 0"] > RUNS / 10


def test_one_question_by_every_route():
    counted, found, made = routes.fuzz(CASES, SEED)
    assert not found, "\n".join(found)
    assert made == CASES
    assert sum(count for name, count in counted.items() if name.endswith("answered")) > CASES / 4


def test_every_file_of_the_corpus(tmp_path, monkeypatch):
    """Against itself, in one process, so that none of them is ever forgotten."""
    monkeypatch.chdir(tmp_path)
    for name, data in cli.CORPUS.items():
        (tmp_path / name).write_bytes(data)
        command = ["test", name, name, "--kernel", "median", "--resamples", "19", "--alpha", "0.1"]
        out, err = io.StringIO(), io.StringIO()
        code = cli.captured(command, out, err)
        assert not cli.judged(command, code, out.getvalue(), err.getvalue()), name
