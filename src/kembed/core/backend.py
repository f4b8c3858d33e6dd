"""NumPy by default, JAX when a value is traced or already a JAX array.

Kernels are written once, against a namespace `xp` that is either `numpy` or `jax.numpy`. Nothing in
this file imports JAX: a plain test on plain arrays never pays for it.
"""

import functools
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
else:  # shapes are for people and type checkers; nothing else needs jaxtyping
    Bool = Float = Int = Annotated
Array = Any  # of NumPy or JAX

Function = TypeVar("Function", bound=Callable[..., Any])

KEPT_PROGRAMS = 200  # compiled ones on disk; older ones go

_unregistered: list[type] = []  # pytree classes that JAX has not heard of


def installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # something on the path, or in sys.modules, says that it cannot
        return False


def is_jax(value: object) -> bool:
    """Whether a value is a JAX array or tracer (False while JAX has not been imported)."""
    array = getattr(sys.modules.get("jax"), "Array", None)  # absent while JAX itself is half imported
    while array is not None and _unregistered:
        _register(_unregistered.pop())
    return array is not None and isinstance(value, array)


def as_numpy(value: Any) -> Any:
    """Tensors and other foreign arrays as NumPy's, masks as missing values; anything else as it is.

    >>> as_numpy(np.ma.masked_less([1, 2], 2))
    array([nan,  2.])
    """
    if isinstance(value, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in value):
        value = np.ma.array(value)
    if isinstance(value, np.ma.MaskedArray):
        if value.dtype.names or not np.ma.is_masked(value):
            return value.data
        return np.ma.filled(value.astype(float if value.dtype.kind in "biuf" else object), np.nan)
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of PyTorch
        value = value.detach().cpu()
        try:
            return np.asarray(value)
        except TypeError:  # half precision that NumPy does not know
            return np.asarray(value.float())
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return value


def is_traced(value: object) -> bool:
    """Whether a value is an abstract JAX tracer, whose entries cannot be looked at."""
    return is_jax(value) and isinstance(value, sys.modules["jax"].core.Tracer)


def any_traced(nodes: Any) -> bool:
    """Whether JAX traces a number in a kernel, a measure or a tuple of these."""
    tree = getattr(sys.modules.get("jax"), "tree", None)
    return tree is not None and any(map(is_traced, tree.leaves(nodes)))


def namespace(*values: object) -> Any:
    """`jax.numpy` if any value is a JAX array, else `numpy`."""
    return sys.modules["jax"].numpy if any(map(is_jax, values)) else np


def to_numpy(node: Any) -> Any:
    """A kernel or measure whose concrete JAX hyperparameters have become NumPy float64."""
    if is_traced(node):
        seen = "this function computes in NumPy and cannot be traced by JAX"
        raise TypeError(f"{seen}; call it on plain numbers")
    if is_jax(node):
        return np.asarray(node, dtype=float)[()]
    if isinstance(node, tuple):
        return tuple(to_numpy(child) for child in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    copy = object.__new__(type(node))
    for field in fields(node):
        object.__setattr__(copy, field.name, to_numpy(getattr(node, field.name)))
    return copy


def show(value: Any) -> str:
    """A hyperparameter in few characters: numbers with the digits they need, side by side or not.

    >>> show(np.array([7.74236, 1290.40447, 1.0]))
    '[7.7424, 1290.4, 1]'
    """
    if is_traced(value):
        return f"<traced {tuple(value.shape)}>"
    if not isinstance(value, np.ndarray | np.generic | float | int) and not is_jax(value):
        return repr(value)
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{float(array):.6g}"
    how: Any = {"formatter": {"float_kind": "{:.5g}".format}}
    return np.array2string(array, separator=", ", threshold=12, **how).replace("\n", "")


def pytree(cls: type) -> type:
    """Class decorator: a frozen dataclass whose fields are pytree children.

    A field marked `field(metadata={"static": True})` is none: it is hashable and never traced.

    JAX learns of the class with the first kernel that is made or used once JAX is imported. Rebuilding from
    children skips `__init__`, because JAX puts placeholders there that no validation would accept.
    """
    _unregistered.append(cls)
    is_jax(None)
    return cls


def _register(cls: type) -> None:
    import jax

    names = tuple(field.name for field in fields(cls) if not field.metadata.get("static"))
    static = tuple(field.name for field in fields(cls) if field.metadata.get("static"))

    def flatten(node: object) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(node, name)) for name in names]
        return children, tuple(getattr(node, name) for name in static)

    def unflatten(values: tuple[Any, ...], children: Iterable[Any]) -> object:
        node: object = object.__new__(cls)
        for name, child in zip((*names, *static), (*children, *values), strict=True):
            object.__setattr__(node, name, child)
        return node

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)


@functools.cache
def keep_compiled() -> None:
    """Let JAX keep what takes it a second to compile in the user's cache folder, for the next process.

    Not with KEMBED_KEEP_COMPILED=0, nor if JAX has such a folder already, nor where one cannot write.
    """
    import jax

    given = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if given or os.environ.get("KEMBED_KEEP_COMPILED") == "0":
        return
    local = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = Path(local or Path.home() / ".cache") / "kembed" / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        for old in sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime)[:-KEPT_PROGRAMS]:
            old.unlink(missing_ok=True)
    except (OSError, RuntimeError):  # the latter where there is no home
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]


def float64(name: str) -> Callable[[Function], Function]:
    """Run a JAX function in double precision without changing the caller's global setting.

    Under somebody else's trace the precision is already decided: then it must be float64, or we say so,
    giving the `name` the user called.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            import jax

            keep_compiled()
            if not any(is_traced(leaf) for leaf in jax.tree.leaves((args, kwargs))):
                with jax.enable_x64(True):
                    return function(*args, **kwargs)
            if not jax.config.read("jax_enable_x64"):  # type: ignore[no-untyped-call]
                seen = f"{name} was called inside a JAX transformation in single precision"
                remedy = "put jax.config.update('jax_enable_x64', True) before the first JAX call"
                raise ValueError(f"{seen}; {remedy}")
            return function(*args, **kwargs)

        return run  # type: ignore[return-value]

    return decorate
