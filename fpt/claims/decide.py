"""`fpt decide CLAIM`: one verdict, judged anew from the records."""

from ..analysis.summary import shown_values
from ..errors import check_names
from .claim import KINDS, REGISTERED
from .finding import Finding
from .verdicts import findings, registered_claims, runs_behind


def show(name: str) -> None:
    """Print a registered claim with its verdict and numbers, the runs that it rests on, and
    the command that trains one of them again. FptError if there is no such claim."""
    # The name alone says which registration a claim is in, and of which kind it is.
    places = {
        claim.name: (kind, profile)
        for profile in REGISTERED
        for kind in KINDS
        for claim in registered_claims(kind, profile)
    }
    check_names("claim", [name], places)
    kind, profile = places[name]
    by_name = {finding.claim.name: finding for finding in findings(kind, profile)}
    print(in_lines(by_name[name]))
    print("runs:")
    runs = runs_behind(by_name[name].claim, profile)
    runs = runs.assign(value=shown_values(runs), draw=runs["draw"].astype("Int64"))
    table = runs[["key", "arm", "task", "seed", "draw", "value"]].astype(object)
    print(table.fillna("–").to_string(index=False))
    if len(runs):
        first = runs["key"].iloc[0]
        print(f"Train one again: fpt replicate --profile {profile} --key {first}")


def in_lines(finding: Finding) -> str:
    """Plain text: what a claim says, its verdict, its numbers, its reasons."""
    lines = [finding.claim.statement, f"verdict: {finding.label}"]
    printed = {"", finding.instead}  # as the effect, or as the reason for no p
    if finding.is_judged:
        lines.append(f"effect: {finding.effect_text}; {finding.n_text}")
        if finding.is_tested:
            adjusted = f"adjusted for all claims of its kind {finding.adjusted:.3g}"
            lines.append(f"p: {finding.effect.p:.3g}, {adjusted}")
        else:
            lines.append(f"p: none, since {finding.reason}")
            printed.add(finding.reason)
    reasons = dict.fromkeys((finding.reason, *finding.notes))
    lines += [text for text in reasons if text not in printed]
    return "\n".join(lines)
