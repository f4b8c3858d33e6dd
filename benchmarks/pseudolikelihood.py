"""Value and gradient of the paper's objective, as a multiple of a bare exp over an n x m array.

Limit: at n = 100,000, m = 100, D = 2 at most 3 times a single-threaded `numpy.exp` of an n x m array in the
same run, peak memory below 1 GiB, and linear growth in n up to a million rows.
"""

import resource
import subprocess
import sys
import time

import numpy as np

SEED = 0
LANDMARKS = 100


def measure(n: int, D: int, repeats: int) -> tuple[float, float, float, float]:
    """Median seconds of exp and of value+gradient (interleaved), compile seconds, peak GiB without exp."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    from kembed import Gaussian, log_pseudolikelihood

    x = np.random.default_rng(SEED).normal(size=(n, D))
    rows, z = jnp.asarray(x), jnp.asarray(x[:LANDMARKS])

    @jax.jit
    @jax.value_and_grad
    def objective(parameters: jax.Array) -> jax.Array:
        kernel = Gaussian(parameters[0])
        return log_pseudolikelihood(rows, kernel=kernel, noise=parameters[1], landmarks=z)

    at = jnp.array([1.0, 1.0])
    start = time.perf_counter()
    jax.block_until_ready(objective(at))
    compiled = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    exponents = -0.5 * np.random.default_rng(SEED).chisquare(D, size=(min(n, 100_000), LANDMARKS))
    bare, ours = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        np.exp(exponents)
        bare.append((time.perf_counter() - start) * n / len(exponents))
        start = time.perf_counter()
        jax.block_until_ready(objective(at))
        ours.append(time.perf_counter() - start)
    return float(np.median(bare)), float(np.median(ours)), compiled, peak


def main() -> None:
    print(f"Seed {SEED}, m = {LANDMARKS}, x ~ N(0, I), Gaussian(1), gradient in lengthscale and noise.\n")
    print("| n | D | exp, ms | value+gradient, ms | ratio | first call, s | peak memory, GiB |")
    print("|---|---|---|---|---|---|---|")
    for n, D in [(10_000, 2), (100_000, 2), (1_000_000, 2), (100_000, 1), (100_000, 3), (100_000, 5)]:
        command = [sys.executable, "-m", "benchmarks.pseudolikelihood", str(n), str(D)]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(line, end="", flush=True)


if __name__ == "__main__":
    size, dimension = int(sys.argv[1]), int(sys.argv[2])
    bare, ours, first, peak = measure(size, dimension, repeats=15 if size < 1_000_000 else 5)
    print(
        f"| {size:,} | {dimension} | {1e3 * bare:.1f} | {1e3 * ours:.1f} | {ours / bare:.2f} "
        f"| {first:.1f} | {peak:.2f} |"
    )
