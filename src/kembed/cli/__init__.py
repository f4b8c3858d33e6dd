"""The command line `kembed`: one-line errors, documented exit codes, no mathematics.

Exit codes: 0 it ran; 1 a difference was found and `--fail-on-difference` was given; 2 bad input; 70 a fault
of kembed's own; 130 interrupted, 143 terminated. Nothing heavy is imported until a command needs it.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

from kembed.cli.words import to_nowhere

BAD_INPUT, FAULT, INTERRUPTED = 2, 70, 130  # as shells, sysexits.h and Ctrl-C have them
AGAIN = 20.0  # seconds after which a command that is still there is stopped again: callbacks swallow signals
AT_ONCE = 0.01  # seconds until then when Python itself says that a callback did
STOPPED: list[int] = []  # the signals that came
# What the user gave is wrong, or an optional part is not installed, and how to install it.
INPUT_ERRORS = (ValueError, TypeError, OSError, ImportError)


def main() -> None:
    """The entry point: run the command in `sys.argv` and exit with its code."""
    if sys.stderr is None:  # closed: remarks go nowhere
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stderr.write("kembed: standard output is closed; send it to /dev/null if it is not wanted\n")
        sys.exit(BAD_INPUT)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no ² gets a question mark
    sys.stdout = cast("Any", _Output(sys.stdout))
    listen()
    code = 0
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except OutputError as error:
        sys.stderr.write(f"kembed: {error}\n")
        code = BAD_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        to_nowhere(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:
        to_nowhere(sys.stderr)
    if STOPPED:  # threads of XLA that still work crash when Python takes itself down
        if processes := sys.modules.get("multiprocessing.util"):
            processes._run_finalizers(0)  # semaphores of other processes, else it is said that they leak
        os._exit(128 + STOPPED[0])
    sys.exit(code)


def listen(again: float = AGAIN) -> None:
    """Let signals that end a process unwind it first, so that it leaves nothing behind."""

    def stop(number: int, _: Any) -> None:
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, again)
        if not STOPPED or number != signal.SIGALRM:
            STOPPED.append(number)
        raise KeyboardInterrupt

    def swallowed(what: Any) -> None:
        if not STOPPED or what.exc_type is not KeyboardInterrupt:
            before(what)
        elif hasattr(signal, "setitimer"):  # raised where nobody could catch it: once more, elsewhere
            signal.setitimer(signal.ITIMER_REAL, AT_ONCE)

    if threading.current_thread() is not threading.main_thread():
        return
    before, sys.unraisablehook = sys.unraisablehook, swallowed
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup, background
            signal.signal(number, stop)


class OutputError(ValueError):
    """Standard output takes nothing more."""


class _Output:
    """Standard output, whose errors say that they are its own; after one, it goes nowhere."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._tried(self._stream.write, text)

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def _tried(self, act: Callable[..., Any], *given: str) -> Any:
        try:
            return act(*given)
        except BrokenPipeError:
            raise
        except OSError as error:
            to_nowhere(self._stream)
            seen = f"standard output cannot be written ({error.strerror})"
            raise OutputError(f"{seen}; make room, or send it elsewhere") from None


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; whatever goes wrong is one line on standard error.

    >>> run(["--version"])
    kembed 0.1.0
    0
    """
    import typer

    from kembed.cli.app import app
    from kembed.cli.screen import complain
    from kembed.cli.words import readable

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            code: Any = typer.main.get_command(app).main(
                list(arguments), prog_name="kembed", standalone_mode=False, obj=list(arguments)
            )
        except SystemExit:  # how Typer and Rich leave when the reader of a pipe has gone
            return 0
        except Exception as error:
            if STOPPED:  # an interrupted import comes as any error
                complain("interrupted")
                return INTERRUPTED
            if os.environ.get("KEMBED_TRACEBACK"):
                raise
            if hasattr(error, "format_message"):  # a mistake in the command itself
                message = error.format_message().rstrip(".").replace("Value error, ", "")
                path = getattr(getattr(error, "ctx", None), "command_path", "kembed")
                complain(f"{message[:1].lower()}{message[1:]}; see {path} --help")
            elif isinstance(error, MemoryError):
                complain("there is not enough memory for so many rows; give fewer")
            elif isinstance(error, ModuleNotFoundError) or not isinstance(error, INPUT_ERRORS):
                what = f"{type(error).__name__}: {error}"
                complain(f"{what}; a fault of kembed, KEMBED_TRACEBACK=1 shows where")
                return FAULT
            else:
                complain(readable(error))
            return BAD_INPUT
    if code == INTERRUPTED:
        complain("interrupted")
    return int(code or 0)
