"""The paper's figures and its study of ozone, measured again; run by `python -m experiments`."""
