"""Processor seconds to learn: warm, cold against a bare JAX process, a million rows against bare exp passes.

`OMP_NUM_THREADS=1 python -m benchmarks learning_speed`: threads that wait for each other count too.
"""

import resource
import subprocess
import sys
import time

import numpy as np

BARE = """
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
A = 2.0 * jnp.eye(100)
f = lambda s: 2.0 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(A + s * jnp.eye(100)))).sum()
jax.jit(jax.value_and_grad(f))(1.0)[0].block_until_ready()
"""
COLD = """
import numpy as np, kembed
kembed.learn_kernel(np.random.default_rng(0).normal(size=(2000, 2)))
"""
FIVE = """
import numpy as np, kembed
kembed.learn_kernel(np.random.default_rng(0).normal(size=(1000, 5)))
"""


def seconds(code: str) -> float:
    """Of a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def million() -> None:
    """In a process of its own, so that the peak of memory is its own."""
    from kembed import learn_kernel

    n, D, m = 1_000_000, 5, 100  # m: what an exp pass is counted over
    x = np.random.default_rng(0).normal(size=(n, D))
    block = np.full((n // 10, m), -0.5)
    started = time.process_time()
    for _ in range(10):
        np.exp(block)
    exp = time.process_time() - started
    del block
    started = time.process_time()
    learned = learn_kernel(x)
    taken = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| learn_kernel, n = 1,000,000, D = 5, new process | {taken:.1f} |")
    print(f"| one bare exp pass over n x 100 | {exp:.2f} |")
    print(f"| ratio (limit 60) | {taken / exp:.0f} |")
    print(f"| peak memory, GiB (limit 2) | {peak:.2f} |")
    print(f"| ℓ* | {learned.kernel.lengthscale:.3f} |", flush=True)


def main() -> None:
    from kembed import learn_kernel

    x = np.random.default_rng(0).normal(size=(2000, 2))
    learn_kernel(x)
    warm = []
    for _ in range(7):
        started = time.process_time()
        learn_kernel(x)
        warm.append(time.process_time() - started)
    bare, cold, five = (min(seconds(code) for _ in range(3)) for code in (BARE, COLD, FIVE))
    print("| what | processor seconds |\n|---|---|")
    print(f"| learn_kernel, n = 2,000, D = 2, warm, median of 7 (limit 0.3) | {np.median(warm):.2f} |")
    print(f"| new process: import JAX, compile one Cholesky gradient, best of 3 | {bare:.2f} |")
    print(f"| new process: learn_kernel, n = 2,000, D = 2, best of 3 | {cold:.2f} |")
    print(f"| ratio (limit 3) | {cold / bare:.2f} |")
    print(f"| new process: learn_kernel, 1,000 x 5, best of 3 (limit 1.5) | {five:.2f} |")
    sys.stdout.flush()
    subprocess.run(
        [sys.executable, "-c", "from benchmarks.learning_speed import million; million()"], check=True
    )


if __name__ == "__main__":
    main()
