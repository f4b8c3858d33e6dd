"""The paper's experiments, one module a figure; each runs as `python -m kembed.experiments.<name>`."""
