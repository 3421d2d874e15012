"""What a start saves of the bits that English costs: the measure behind the claims on it."""

from collections.abc import Mapping

from ..analysis.claim import Evidence, Measured, Test
from ..analysis.stats import Difference, difference
from ..sections.lessons import Taught, taught


def saving(found: Mapping[str, Taught], a: str, b: str) -> Difference | None:
    """The share of bits that arm `a` needs less than arm `b`; None where a side is not complete.

    Seeds are compared one by one: they share words, order of the data and, where it is random, the
    body.
    """
    if any(arm not in found or found[arm].interval is None for arm in (a, b)):
        return None
    pairs = zip(found[a].values, found[b].values, strict=True)
    return difference([1 - mine / other for mine, other in pairs], 0.0)


def saves(a: str, b: str) -> Test:
    """`saving` in the lessons of the section."""

    def test(seen: Evidence, task: str) -> Measured:
        del task  # there is one text
        assert seen.section is not None
        found = taught(seen.section.profile, seen.section.name)
        runs = tuple(len(found[arm].values) if arm in found else 0 for arm in (a, b))
        return Measured(saving(found, a, b), runs)

    return test
