"""The slow references agree with each other, with closed forms and with numbers worked by hand."""

import pytest
from tests import reference as ref


@pytest.mark.parametrize("topic", ref.TOPICS)
def test_references_agree_with_each_other(topic):
    checks = ref.self_checks()[topic]
    failed = [f"{name}: {gap:.1e} > {bound:.0e}" for name, gap, bound in checks if not gap <= bound]
    assert not failed
