"""The real language models that claims are about, and how many of them a verdict is true
of."""

from collections.abc import Set

from ..claims.claim import Claim

TRUNCATED = "truncated SmolLM2"
# What the names of a model's arms end in -> the model.
MODELS = {"": "SmolLM2", "@6": TRUNCATED, "-minilm": "MiniLM"}


def model_of(claim: Claim) -> str:
    """The real language model that a claim is about."""
    first = next(iter(claim.backbones))
    suffixes = [suffix for suffix in MODELS if first.endswith(suffix)]
    return MODELS[max(suffixes, key=len)]


def in_models(agreeing: Set[str], tested: Set[str]) -> str:
    """` (1 of 2 models)`: how many of the published models among those `tested` on a task
    agree on a verdict; empty if all do. The truncated model is named instead, where a
    published one disagrees with it."""
    # By the registration, a body that was cut is no model, so no count has it.
    published = tested - {TRUNCATED}
    count = len(agreeing & published)
    if count == len(published):
        return ""
    parts = [f"{count} of {len(published)} models"] if count else []
    if TRUNCATED in agreeing:
        parts.append(TRUNCATED)
    return f" ({' and '.join(parts)})"
