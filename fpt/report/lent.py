"""What the runs of other sections say of a section's question, on a page whose profile
plans no runs of its own."""

from ..analysis.study import section
from .figures.plots import dot_plot
from .progress import progress_table
from .results import results_table
from .show import Text, conclude, show_figure, show_table


def conclusion(name: str, profile: str) -> Text | None:
    """What follows from the lent runs; None if no section lends any."""
    study = section(name, profile).with_lent_runs()
    return conclude(study) if study.runs else None


def results(name: str, profile: str) -> None:
    """Display the table and figure of each comparison that lent runs have, and how far the
    runs are."""
    from IPython.display import display

    study = section(name, profile).with_lent_runs()
    for comparison in study.compared:
        display(show_table(study, results_table(study, comparison)))
        figure = dot_plot(study, comparison)
        alt = "Mean, interval and every run of each arm on each task"
        display(show_figure(study, comparison.name, figure, alt))
    if study.runs:
        display(show_table(study, progress_table(study)))
