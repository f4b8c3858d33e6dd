"""Our conditional test inside the searches of other libraries: causal-learn and pgmpy."""

from kembed.graphs.adapters import PgmpyTest, causal_learn, clear, pgmpy

__all__ = ["PgmpyTest", "causal_learn", "clear", "pgmpy"]
