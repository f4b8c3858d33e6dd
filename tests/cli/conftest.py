"""Running commands in a folder of tables, which a test file makes as its fixture `place`."""

import json

import pytest

from kembed.cli import run


@pytest.fixture
def call(place, monkeypatch, capsys):
    """Run a command in that folder: exit code, standard output, standard error."""
    monkeypatch.chdir(place)

    def called(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return called


@pytest.fixture
def answer(call):
    """The JSON object of a command."""

    def called(*arguments: object) -> dict:
        code, out, err = call(*arguments, "--json")
        assert code == 0, err
        assert out.count("\n") == 1
        return json.loads(out)

    return called
