"""The figure of an audit, and its page: one file that needs no other."""

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from .arms import LABELS, PRETRAINED

if TYPE_CHECKING:
    from . import Audit

STYLE = """
:root { color-scheme: light dark; --ink: #222; --muted: #666; --line: #ddd; --ground: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --muted: #aaa; --line: #444; --ground: #16181b; } }
body { font: 16px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 60rem; margin: 1rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0.2rem 0; } h2 { font-size: 1.05rem; margin: 1rem 0 0.3rem; }
.muted, caption { color: var(--muted); } img { width: 100%; min-width: 40rem; background: #fff; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { padding: 0.2rem 0.5rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; } th:first-child, td:first-child { text-align: left; }
tbody tr:first-child { font-weight: 600; }
"""


def figure(audit: "Audit") -> Any:
    """Left: the test score of every run (dots) by arm with the arm's mean and interval. Right: the
    mean learning curves on validation."""
    import seaborn
    from matplotlib.figure import Figure

    arms = [arm for arm in LABELS if arm in audit.table.index]
    names = [LABELS[arm] for arm in arms]
    colours = dict(zip(names, seaborn.color_palette("colorblind", len(names)), strict=True))
    canvas = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = canvas.subplots(1, 2)
    runs = audit.runs.assign(label=audit.runs["arm"].map(LABELS))
    seaborn.stripplot(
        runs,
        x="score",
        y="label",
        hue="label",
        order=names,
        palette=colours,
        alpha=0.5,
        size=4,
        legend=False,
        ax=left,
    )
    table = audit.table.loc[arms]
    errors = [table["score"] - table["low"], table["high"] - table["score"]]
    left.errorbar(
        table["score"],
        range(len(arms)),
        xerr=[error.fillna(0) for error in errors],
        fmt="D",
        color="#222222",
        markersize=4,
        capsize=3,
    )
    left.axvline(audit.facts["guess"], linestyle=":", color="#767676")
    left.set(xlabel=f"test {measure(audit)}", ylabel="")
    curves = pd.DataFrame(
        [
            {"step": step, "score": score, "label": LABELS[arm]}
            for arm, curve in audit.curves.items()
            for step, score in curve
        ],
        columns=["step", "score", "label"],
    )
    if len(curves):
        seaborn.lineplot(
            curves,
            x="step",
            y="score",
            hue="label",
            style="label",
            palette=colours,
            estimator=None,
            ax=right,
        )
        # Below the axes, since curves may be anywhere in them.
        right.legend(
            fontsize=7, title=None, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2
        )
    right.set(xlabel="step", ylabel=f"validation {measure(audit)}")
    return canvas


def measure(audit: "Audit") -> str:
    return "R²" if audit.facts["task"] == "regression" else "accuracy"


def page(audit: "Audit") -> str:
    """The page: verdict, figure, table, what was held fixed, how to cite."""
    image = io.BytesIO()
    figure(audit).savefig(image, format="png", dpi=110)
    data = base64.b64encode(image.getvalue()).decode()
    reason = " ".join(part for part in (audit.reason, audit.remedy) if part)
    cuts = "".join(f"<li>{escape(cut)}</li>" for cut in audit.cuts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Does pretraining help? {escape(audit.verdict)}</title><style>{STYLE}</style></head>
<body>
<p class="muted">Does {escape(str(audit.facts["backbone"]))} help on these data, and what of it?</p>
<h1>{escape(audit.verdict[0].upper() + audit.verdict[1:])}.</h1>
<p>{escape(reason)}</p>
<div class="wide"><img alt="test scores by arm and learning curves"
src="data:image/png;base64,{data}"></div>
<div class="wide">{html_table(audit)}</div>
<h2>What was held fixed</h2>
<p>{escape(fixed(audit))}</p>
{f"<h2>What the time did not allow</h2><ul>{cuts}</ul>" if cuts else ""}
<h2>How to cite</h2>
<p>Audited with fpt, after Lu, Grover, Abbeel and Mordatch (2021), «Pretrained Transformers as
Universal Computation Engines», arXiv:2103.05247. Quote the verdict with its interval, the backbone
and the number of draws.</p>
</body></html>
"""


def html_table(audit: "Audit") -> str:
    """A row per arm, the pretrained one first."""
    rows = []
    for arm, row in audit.table.iterrows():
        difference = f"{row['difference']:+.3f} {span(row['least'], row['most'])}"
        rate = f"{row['lr']:g}{' (edge)' if row['at_edge'] else ''}"
        rows.append(
            {
                "arm": row["label"],
                f"test {measure(audit)}": f"{row['score']:.3f}",
                "95% interval": span(row["low"], row["high"]),
                "pretrained minus it": "–" if arm == PRETRAINED else difference,
                "best rate": "–" if pd.isna(row["lr"]) else rate,
                "step": f"{row['best_step']:.0f}" if row["best_step"] else "–",
                "runs": str(row["runs"]),
                "draws": str(row["draws"] or "–"),
            }
        )
    table: str = pd.DataFrame(rows).to_html(index=False, border=0)
    return table


def span(low: float, high: float) -> str:
    return "" if pd.isna(low) else f"[{low:.3f}, {high:.3f}]"


def fixed(audit: "Audit") -> str:
    """What all arms share, in sentences."""
    facts = audit.facts
    rates = ", ".join(f"{rate:g}" for rate in facts["rates"])
    return (
        f"All arms had the same {facts['train']} training, {facts['valid']} validation and "
        f"{facts['test']} test examples ({facts['inputs']}) in {facts['folds']} fold(s), "
        f"{facts['steps']} steps of {facts['batch']} sequences by Adam without dropout, the same "
        f"batches for the same seed, and one grid of learning rates ({rates}), chosen on "
        "validation by successive halving with seeds that are not reported. Trained are the input "
        "and output nets, the layer norms and the positions; all else is frozen. "
        "Validation chose the step. "
        f"Something simpler suffices if it is at most {facts['margin']:g} worse. A difference "
        "counts one more draw of a control, and the test examples. If the pretrained backbone were "
        f"one standard deviation of the draws better, {facts['draws']} draws would show it in "
        f"{facts['power']:.0%} of audits. A constant answer scores {facts['guess']:.3f} (dotted). "
        f"Random state {facts['random_state']}; {facts['minutes_taken']:.1f} minutes."
    )
