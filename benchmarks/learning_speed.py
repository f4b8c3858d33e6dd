"""Time to learn: warm, cold against a bare JAX process, and a million rows against bare exp passes."""

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
PROCESSOR = """
import time, numpy as np, kembed
kembed.learn_kernel(np.random.default_rng(0).normal(size=(1000, 5)))
print(time.process_time())
"""


def seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def million() -> None:
    """In a process of its own, so that the peak of memory is its own."""
    from kembed import learn_kernel

    n, D, m = 1_000_000, 5, 100  # m: what an exp pass is counted over
    x = np.random.default_rng(0).normal(size=(n, D))
    block = np.full((n // 10, m), -0.5)
    started = time.perf_counter()
    for _ in range(10):
        np.exp(block)
    exp = time.perf_counter() - started
    del block
    started = time.perf_counter()
    learned = learn_kernel(x)
    taken = time.perf_counter() - started
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
        started = time.perf_counter()
        learn_kernel(x)
        warm.append(time.perf_counter() - started)
    bare, cold = ([seconds(code) for _ in range(3)] for code in (BARE, COLD))
    print("| what | seconds |\n|---|---|")
    print(f"| learn_kernel, n = 2,000, D = 2, warm, median of 7 | {np.median(warm):.2f} |")
    print(f"| new process: import JAX, compile one Cholesky gradient, best of 3 | {min(bare):.2f} |")
    print(f"| new process: learn_kernel, n = 2,000, D = 2, best of 3 | {min(cold):.2f} |")
    print(f"| ratio (limit 3) | {min(cold) / min(bare):.2f} |")
    command = [sys.executable, "-c", PROCESSOR]
    runs = [subprocess.run(command, check=True, capture_output=True) for _ in range(3)]
    used = min(float(run.stdout) for run in runs)
    print(f"| new process, processor seconds: learn_kernel, 1,000 x 5, best of 3 (limit 1.5) | {used:.2f} |")
    sys.stdout.flush()
    subprocess.run(
        [sys.executable, "-c", "from benchmarks.learning_speed import million; million()"], check=True
    )


if __name__ == "__main__":
    main()
