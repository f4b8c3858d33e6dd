"""What holds of every call, whatever it is given: rules, and what a call did against them."""

import os
import pickle
import signal
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HOME = str(Path(sys.modules["kembed"].__file__ or "").parent) if "kembed" in sys.modules else "kembed"
ALLOWED = (TypeError, ValueError)  # what the documentation says of wrong input
VALIDATED = ("_assert_all_finite_element_wise", "check_array", "_check_n_features", "_check_feature_names")
SLOW = 60  # seconds: nothing here is large, but the machine may be busy


class Finding(NamedTuple):
    """A rule that was broken."""

    rule: str
    detail: str


class TooSlow(BaseException):
    """A call that did not come back."""


def surroundings() -> dict[str, Any]:
    """What a call must leave as it was."""
    state: Any = np.random.get_state()  # noqa: NPY002 - that nobody touches it is the rule
    return {
        "np.random": (state[0], state[1].tobytes(), *state[2:]),
        "warnings.filters": list(warnings.filters),
        "np.geterr": np.geterr(),
        "os.environ": dict(os.environ),
        "working folder": os.getcwd(),
        "np.printoptions": str(np.get_printoptions()),
        "signal handlers": signal.getsignal(signal.SIGTERM),
        "threads": {thread for thread in threading.enumerate() if not thread.daemon},
    }


def changed(before: Mapping[str, Any]) -> list[Finding]:
    """What is no longer as it was."""
    after = surroundings()
    return [Finding("state", name) for name, value in before.items() if after[name] != value]


def frozen(value: Any) -> Any:
    """A picture of an argument that shows every change of it."""
    try:
        return pickle.dumps(_without_caches(value))
    except Exception:
        return repr(value)


def _without_caches(value: Any) -> Any:
    """A copy of what pandas holds: what it remembers of earlier questions is no change."""
    if isinstance(value, tuple | list):
        return [_without_caches(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_caches(one) for key, one in value.items()}
    return value.copy() if type(value).__module__.startswith("pandas") and hasattr(value, "copy") else value


def numbers_in(value: Any, path: str = "", depth: int = 0) -> Iterable[tuple[str, float]]:
    """All numbers that a result holds, by name; what a user sees of it, not what it hides."""
    if depth > 4 or value is None or isinstance(value, str | bytes | bool | types.FunctionType):
        return
    if isinstance(value, int | float | np.number):
        yield path, float(np.real(value))
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "fc" and value.size and not np.isfinite(value).all():
            yield path, float("nan")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers_in(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value[:50]):
            yield from numbers_in(item, f"{path}[{place}]", depth + 1)


class Watched(NamedTuple):
    """What came of a call: a result or an error, and the rules it broke."""

    result: Any
    error: BaseException | None
    findings: list[Finding]


def watch(call: Callable[[], Any], arguments: Any, names: Iterable[str]) -> Watched:
    """Make a call, and see whether it keeps the rules; an error must name one of the `names`."""
    before, picture = surroundings(), frozen(arguments)
    findings: list[Finding] = []
    result, error = None, None
    signal.signal(signal.SIGALRM, _ring)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        signal.alarm(SLOW)
        try:
            result = call()
        except Exception as caught:
            error = caught
            findings += judged(caught, names)
        except TooSlow:
            findings.append(Finding("slow", f"more than {SLOW} s"))
        finally:
            signal.alarm(0)
    for warning in seen:
        if issubclass(warning.category, RuntimeWarning) or not issubclass(warning.category, UserWarning):
            where = f"{Path(warning.filename).name}:{warning.lineno}"
            findings.append(Finding("warning", f"{warning.category.__name__} {warning.message} at {where}"))
    findings += changed(before)
    if frozen(arguments) != picture:
        findings.append(Finding("mutated", "an argument was changed"))
    return Watched(result, error, findings)


def judged(error: Exception, names: Iterable[str]) -> list[Finding]:
    """What is wrong with an error: its type, where it comes from, or that it names nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    last, text = frames[-1], str(error)
    where = f"{Path(last.filename).name}:{last.lineno}"
    own = [frame for frame in frames if "kembed" in Path(frame.filename).parts]
    if own:
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno} ({where})"
    if hasattr(error, "format_message"):  # a mistake in a command, as Typer tells it
        return []
    if not isinstance(error, ALLOWED) and not isinstance(error, OSError):
        return [Finding("type", f"{type(error).__name__}: {text[:200]} at {where}")]
    validated = "sklearn" in last.filename and last.name in VALIDATED  # an estimator's own door
    if (not own or own[-1] is not last) and not validated:
        return [Finding("not ours", f"{type(error).__name__}: {text[:200]} at {where}")]
    if not any(name in text for name in names):
        return [Finding("names nothing", f"{text[:200]} at {where}")]
    return []


def _ring(*_: Any) -> None:
    raise TooSlow
