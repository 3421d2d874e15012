"""The figure of the effects of registered claims, one above the other."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...claims.finding import Finding
from .style import COLOURS, INK, MUTED, log_ticks, styled

BLUE, PURPLE, RED = COLOURS[0], COLOURS[3], COLOURS[4]
# By verdict; all others are grey squares.
LOOKS = {
    "supported": (BLUE, "o"),
    "helps": (BLUE, "o"),
    "contradicted": (RED, "X"),
    "hurts": (RED, "X"),
    "depends on the task": (PURPLE, "v"),
}


def forest(findings: Sequence[Finding]) -> Figure | None:
    """The effect of each claim with its interval, ratios above and differences below; a
    hollow diamond is the effect that the registration expected. None if no claim is
    judged."""
    if not any(finding.is_judged for finding in findings):
        return None
    ratios = [finding for finding in findings if finding.claim.is_ratio]
    differences = [finding for finding in findings if not finding.claim.is_ratio]
    heights = (len(ratios), len(differences) + 0.5)
    with styled():
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=heights)
        measure = ratios[0].claim.measure
        draw_effects(above, ratios)
        above.set_xlabel(
            f"ratio of {measure} (left is better; diamond: expected when registered)"
        )
        log_ticks(above, "x")
        above.axvline(1, color=INK, lw=0.8)
        below.set_visible(bool(differences))
        if differences:
            draw_effects(below, differences)
            label = "difference of accuracies or shares, or rank correlation"
            below.set(xlim=(-1.05, 1.05), xlabel=label)
            below.axvline(0, color=INK, lw=0.8)
    return figure


def draw_effects(axes: Axes, findings: Sequence[Finding]) -> None:
    """A row for each finding, the first on top."""
    for row, finding in enumerate(findings):
        axes.plot(finding.expected, row, "D", mfc="white", mec=INK, ms=4)
        colour, marker = LOOKS.get(finding.label, (MUTED, "s"))
        effect, low, high = finding.values
        # A mark for each task, because the mean over them is no finding.
        if finding.label == "depends on the task":
            rows = [row] * len(finding.by_task)
            axes.plot(finding.task_ratios, rows, marker, color=colour)
        elif finding.label != "neither learned":
            axes.plot([low, high], [row, row], color=colour, lw=2)
            axes.plot(effect, row, marker, color=colour)
    names = [f"{finding.claim.name} ({finding.label})" for finding in findings]
    axes.set_yticks(range(len(findings)), names)
    axes.set_ylim(len(findings) - 0.5, -0.5)
