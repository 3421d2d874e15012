"""Every path once: the tier `smoke` of params.yaml, trained in the project of the tests."""

from fpt import results
from fpt.__main__ import main
from fpt.plan import plan


def test_everything_that_can_be_trained_is_trained_once(planned, capsys):
    """Each model and arm that a tier names, with its initialisation, its trained groups and its
    way of training, on a few steps."""
    assert main(["run", "--all", "--tier", "smoke", "--workers", "1"]) == 0
    smoke = plan("smoke")
    assert not smoke.missing()
    assert all(record.status == "done" for record in smoke.records().values())
    assert f"{len(smoke.runs)} new records" in capsys.readouterr().out
    # No page shows them.
    assert results().empty
