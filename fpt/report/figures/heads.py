"""The attention of single heads, mean over test examples."""

import numpy as np
from matplotlib.figure import Figure

from ...analysis.attention import kept_models, maps, needed, strongest_head
from ...analysis.study import Study
from ...sections.arms import label
from ...training.model import assemble


def head_maps(study: Study, task: str) -> Figure | None:
    """For one run of each arm on `task`, the head with the most attention on the needed
    tokens, and the first arm's before its first step. Rows are queries, columns keys. None
    if no run's parameters were kept."""
    pictures: dict[str, np.ndarray] = {}
    measured = set()
    for run, model, batch in kept_models(study.part([task])):
        if run.arm in measured:
            continue
        measured.add(run.arm)
        trained = maps(model, batch)
        tokens = needed(model.task, batch)
        layer, head = strongest_head(trained, tokens)
        place = f"head {head + 1} of layer {layer + 1}"
        if run.arm == study.arms[0]:
            device = batch.inputs.device
            untrained = assemble([run.spec], model.task, device)[0]
            before = maps(untrained, batch)[layer][:, head].mean(0)
            pictures[f"before training\n{place}"] = before.cpu().numpy()
        name = f"{label(run.arm)}\n{place}"
        pictures[name] = trained[layer][:, head].mean(0).cpu().numpy()
    if not pictures:
        return None
    figure = Figure(figsize=(1 + 2.2 * len(pictures), 2.8), layout="constrained")
    panels = figure.subplots(1, len(pictures), squeeze=False)[0]
    for axes, (title, picture) in zip(panels, pictures.items(), strict=True):
        size = len(picture)
        edges = (0.5, size + 0.5)  # tokens are counted from 1
        image = axes.imshow(picture, vmin=0, vmax=1, extent=(*edges, *reversed(edges)))
        axes.set_title(title, fontsize="small")
        axes.set(xlabel="key", ylabel="query")
        ticks = range(1, size + 1, max(1, size // 5))
        axes.set(xticks=ticks, yticks=ticks)
    figure.colorbar(image, ax=panels, label="attention")
    return figure
