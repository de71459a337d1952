"""Which layouts have plans."""

from dcpdump.batch.plans import PLANS
from dcpdump.spec.field import NEVER


def test_no_plan_takes_what_may_be_a_credential() -> None:
    """Their frames are decoded without asking whether secrets may be shown.

    A frame whose opcode is damaged looks like an authentication where its key begins behind the header.
    """
    assert [plan.message.name for plan in PLANS if plan.message.secret] == []
    assert [plan.layout.key for plan in PLANS if not plan.layout.extras] == [NEVER]
