"""The outcome of a test on the screen: the verdict first, then what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kembed.cli.options import Testing
from kembed.cli.screen import Screen

if TYPE_CHECKING:
    from kembed.cli.samples import Samples
    from kembed.testing.outcome import TestOutcome

PVALUES = {"p (unadjusted)": ".3g", "p (adjusted)": ".3g"}  # of columns, in tables
# How a word chose the kernel.
_CHOSEN = {
    "bkl": "learned: ",
    "ard": "learned by column: ",
    "paper": "published objective: ",
    "median": "median rule: ",
    "median-raw": "median rule, columns as they are: ",
}


def show_outcome(
    screen: Screen,
    loaded: Samples,
    result: TestOutcome,
    testing: Testing,
    sentence: str,
    facts: list[tuple[str, str]],
    found: str,
    pairs: tuple[Any, ...] = (),
    **more: Any,
) -> bool:
    """Print everything, `more` of it for machines, and return whether what is `found` there is so.

    The table has the columns of two samples, or the `pairs` of more.
    """
    from kembed.testing.outcome import outcome_to_dict

    screen.remark(result.notes)
    screen.say(sentence)
    screen.facts([*facts, *evidence(result, testing)])
    tested = sorted(pairs or result.columns or (), key=lambda one: (one.adjusted_pvalue, one.pvalue))
    rows = [
        (" and ".join(one.labels) if pairs else one.name, one.pvalue, one.adjusted_pvalue) for one in tested
    ]
    screen.table({"pair" if pairs else "column": "", **PVALUES}, rows)
    payload = {**more, **loaded.described(result.sizes), **outcome_to_dict(result), **testing.described}
    so = bool(result.pvalue <= testing.alpha or loaded.differences)
    screen.finish({"verdict": sentence, found: so, **payload, "output": None}, resampling(result))
    beyond = more.get("beyond_margin")
    return so if beyond is None else bool(beyond)


def verdict(result: TestOutcome, alpha: float, yes: str, no: str, proof: str = "they are the same") -> str:
    """The answer in a sentence, with what it does not say.

    >>> import numpy as np, kembed
    >>> x = np.arange(20.0)
    >>> same = kembed.mmd_test(x, x, kernel="median", rng=0)
    >>> verdict(same, 0.05, "They differ", "No difference was found")
    'No difference was found at the 5% level: p = 1. This does not prove they are the same.'
    """
    p, resamples = result.pvalue, len(result.null_distribution)
    within = f" within {found}" if (found := getattr(result, "within", "")) else ""
    yes, no = f"{yes}{within}", f"{no}{within}"
    if p > alpha:
        found = f"{no} at the {100 * alpha:g}% level: p = {p:.3g}."
        return f"{found} This does not prove {proof}." if proof else found
    least = not result.enumerated and p * (resamples + 1) < 1.5
    return f"{yes}: p = {p:.3g}{f' (smallest attainable with {resamples:,} resamples)' if least else ''}."


def resampling(result: TestOutcome) -> str:
    """How the p-value came about."""
    resamples = len(result.null_distribution)
    return f", all {resamples:,} arrangements" if result.enumerated else f", {resamples:,} resamples"


def evidence(result: TestOutcome, testing: Testing) -> list[tuple[str, str]]:
    """The kernel and how strong its signal is."""
    from kembed.kernels.words import in_words
    from kembed.testing.outcome import fused_evidence

    kernel, effect = testing.kernel, f"{result.name} = {result.effect_of_kernel:.3g}"
    if not result.fused:
        used = f"{_CHOSEN.get(kernel, '')}{in_words(result.kernel)}"
        return [("kernel", used), ("statistic", effect)]
    # What is significant individually where the whole is not has not changed, as the verdict says.
    label = "changed" if result.pvalue <= testing.alpha else "by itself"
    label = "pairs" if result.name.endswith("HSIC") else label
    return [
        ("kernel", f"{kernel}, {len(result.members)} members in one test"),
        ("strongest", in_words(result.kernel)),
        ("evidence", fused_evidence(result)),
        *([(label, " ".join(findings))] if (findings := _findings(result)) else []),
    ]


def _findings(result: TestOutcome) -> list[str]:
    """Columns and pairs that differ individually."""
    from kembed.testing.outcome import SHOWN, SURE

    sure = [" with ".join(f.columns) for f in result.findings if f.adjusted_pvalue <= SURE]
    if not sure:
        return []
    more = [f"and {len(sure) - SHOWN} more"] if len(sure) > SHOWN else []
    return ["; ".join(sure[:SHOWN]), *more, f"(p at most {SURE:g} for all columns and pairs)"]
