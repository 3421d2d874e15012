"""The architectures that people use most, each tried as a backbone.

`python -m lab.backbones_tried` writes docs/backbones-tried.md. Each is a tiny model with random
weights, saved by transformers in a folder, loaded from it by transformers and as a backbone here.
"""

import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from fpt.backbones import Backbone, backbone
from fpt.backbones.base import is_norm
from fpt.backbones.skeleton import class_of, hidden_states, quiet
from fpt.files import ROOT, FptError, write_atomic
from fpt.spec import RunSpec, canonical
from fpt.tasks import get_task
from fpt.training.model import Model, assemble
from fpt.training.packing import PackedParameters

PAGE = ROOT / "docs" / "backbones-tried.md"
FAMILIES: Mapping[str, str] = {  # as people call it -> the type of its model in transformers
    "GPT-2": "gpt2", "GPT-Neo": "gpt_neo", "GPT-NeoX, Pythia": "gpt_neox", "GPT-J": "gptj",
    "CodeGen": "codegen", "OPT": "opt", "XGLM": "xglm", "BioGPT": "biogpt", "CTRL": "ctrl",
    "Bloom": "bloom", "MPT": "mpt", "Falcon": "falcon", "StarCoder2": "starcoder2",
    "Llama, SmolLM2": "llama", "Mistral": "mistral", "Mixtral": "mixtral", "Qwen2": "qwen2",
    "Qwen2-MoE": "qwen2_moe", "Qwen3": "qwen3", "Qwen3-MoE": "qwen3_moe",
    "Qwen3-Next": "qwen3_next", "Gemma": "gemma", "Gemma 2": "gemma2", "Gemma 3": "gemma3_text",
    "Phi": "phi", "Phi-3": "phi3", "StableLM": "stablelm", "OLMo": "olmo", "OLMo 2": "olmo2",
    "OLMoE": "olmoe", "Granite": "granite", "SmolLM3": "smollm3", "Apertus": "apertus",
    "Cohere": "cohere", "DeepSeek-V3": "deepseek_v3", "gpt-oss": "gpt_oss", "Nemotron": "nemotron",
    "Mamba": "mamba", "RWKV": "rwkv", "BERT": "bert", "RoBERTa": "roberta",
    "XLM-RoBERTa": "xlm-roberta", "CamemBERT": "camembert", "DistilBERT": "distilbert",
    "ALBERT": "albert", "ELECTRA": "electra", "DeBERTa": "deberta", "DeBERTa-v2": "deberta-v2",
    "XLNet": "xlnet", "XLM": "xlm", "MPNet": "mpnet", "ModernBERT": "modernbert",
    "Nomic BERT": "nomic_bert", "Longformer": "longformer", "BigBird": "big_bird",
    "RoFormer": "roformer", "ConvBERT": "convbert", "MobileBERT": "mobilebert",
    "Funnel": "funnel", "FNet": "fnet", "ESM": "esm", "RoCBERT": "roc_bert",
    "LayoutLM": "layoutlm", "DPR": "dpr", "T5 (its encoder)": "t5", "UMT5 (its encoder)": "umt5",
    "BART": "bart",
}  # fmt: skip
# The common settings of a tiny model, under each of the names that they have.
SIZES: Mapping[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 2),
    **dict.fromkeys(("intermediate_size", "d_inner", "ffn_dim", "hidden_dim", "d_ff"), 24),
    **dict.fromkeys(("n_inner", "ffn_hidden_size"), 24),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok",), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 8),
    **dict.fromkeys(("head_dim", "d_kv", "d_head"), 8),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0),
    "num_key_value_heads": 1, "pad_token_id": 1, "vocab_size": 20, "word_embed_proj_dim": 16,
    "embedding_size": 8, "attention_window": 8, "local_attention": 8, "sliding_window": 6,
}  # fmt: skip
OF_TYPE: Mapping[str, Mapping[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4, "n_head": 4},
    "gpt_neox": {"num_key_value_heads": 2},
    "deepseek_v3": {
        "head_dim": 4, "num_key_value_heads": 2, "q_lora_rank": 8, "kv_lora_rank": 8,
        "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "n_group": 1,
        "topk_group": 1, "first_k_dense_replace": 1,
    },
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "funnel": {"block_sizes": [1, 1]},
    "esm": {"position_embedding_type": "rotary"},
    "roformer": {"embedding_size": 16},
    "mobilebert": {"intra_bottleneck_size": 8},
}  # fmt: skip
CPU = torch.device("cpu")
LENGTH = 10
TASK = get_task("bit-xor", n=LENGTH // 2)
ROUNDING = 1e-4  # of a difference in float32, in standard deviations


@dataclass(frozen=True)
class Row:
    """What became of one architecture."""

    kind: str
    refusal: str = ""
    apart: float = 0.0  # largest difference from transformers' hidden states, in their sd
    padding: float = 0.0  # largest influence of padding, in sd
    packed: float = 0.0  # largest difference of two packed runs' gradients from each alone, in sd
    causal: bool = False
    groups: tuple[str, ...] = ()
    still: tuple[str, ...] = ()  # groups whose gradients are zero or not finite

    @property
    def holds(self) -> bool:
        """Whether it gives transformers' numbers, masks padding and trains, or is refused."""
        return max(self.apart, self.padding, self.packed) <= ROUNDING and not self.still


def config_of(kind: str) -> Any:
    """The configuration of a tiny model of a type of transformers."""
    config_class = transformers.CONFIG_MAPPING[kind]
    known = {*config_class().to_dict(), *config_class.attribute_map}
    sizes = {name: value for name, value in SIZES.items() if name in known}
    renamed = {name for name, other in config_class.attribute_map.items() if other in sizes}
    plain = {name: value for name, value in sizes.items() if name not in renamed}
    return config_class(**{**plain, **OF_TYPE.get(kind, {})})


def save(kind: str, folder: Path) -> Any:
    """A model of transformers with random weights far from the initial ones, so that each of them
    matters, as transformers loads it from `folder`, where it is saved."""
    config = config_of(kind)
    _, model_class = class_of({"model_type": kind, **config.to_dict()})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = model_class(config)
        with torch.no_grad():
            for part in model.modules():
                gain = float(is_norm(part) or "Norm" in type(part).__name__)
                for name, parameter in part.named_parameters(recurse=False):
                    noise = 0.3 * torch.randn(parameter.shape)
                    # bfloat16, to which every backbone is rounded, holds them exactly
                    parameter.copy_((noise + gain * (name == "weight")).bfloat16())
    with quiet():
        model.save_pretrained(folder)
        return model_class.from_pretrained(folder, dtype=torch.float32).eval()


def run_of(folder: Path, groups: tuple[str, ...], seed: int = 0) -> RunSpec:
    """A run on the pretrained backbone in `folder` that trains `groups`."""
    name = backbone(str(folder)).name
    values: dict[str, Any] = {
        "data": canonical(TASK.identity), "backbone": name, "weights": name, "init": "pretrained",
        "trainable": tuple(sorted(groups)), "dropout": 0.0, "lr": 0.01, "batch": 4, "steps": 4,
        "eval_every": 2, "seed": seed,
    }  # fmt: skip
    return RunSpec(**values)


@cache
def row_of(kind: str) -> Row:
    """The row of a type of model."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / kind
        theirs = save(kind, folder)
        try:
            known = backbone(str(folder))
        except FptError as error:
            return Row(kind, refusal=str(error))
        run = run_of(folder, known.groups)
        ours, rows, _ = assemble([run], TASK, CPU, known)
        apart, padding = compared(ours.eval(), theirs)
        norms = tuple({"layernorm"} & {*known.groups}) or ("input",)
        runs = [run_of(folder, norms, seed) for seed in (0, 1)]
        still = groups_without_gradient(ours, rows)
        return Row(
            kind, "", apart, padding, of_pack(runs, known), known.causal, known.groups, still
        )


def vectors(model: Model, count: int) -> tuple[Tensor, Tensor]:
    """Random token vectors (count, T, width), and a mask (count, T) that pads all but the first."""
    draw = torch.Generator().manual_seed(0)
    lengths = LENGTH - 3 * (torch.arange(count) % 3)
    x = torch.randn(count, LENGTH, model.width, generator=draw)
    return x, torch.arange(LENGTH) < lengths[:, None]


@torch.no_grad()
def compared(ours: Model, theirs: Any) -> tuple[float, float]:
    """The largest difference from the hidden states of transformers, with and without padding, and
    the largest influence of padding, in standard deviations."""
    x, mask = vectors(ours, 3)
    moved = x if ours.positions is None else x + ours.positions[0, :LENGTH]
    full = hidden_states(theirs, x, mask | True)
    padded = hidden_states(theirs, x, mask)
    hidden = ours.backbone(moved, mask)
    apart = [ours.backbone(moved, None) - full, (hidden - padded)[mask]]
    alone = [
        ours.backbone(moved[row : row + 1, :length], None)[0] - hidden[row, :length]
        for row, length in enumerate(mask.sum(1).tolist())
    ]
    return largest(apart) / full.std().item(), largest(alone) / full.std().item()


def largest(differences: Iterable[Tensor]) -> float:
    return max(it.abs().max().item() for it in differences)


def of_pack(runs: Sequence[RunSpec], architecture: Backbone) -> float:
    """The largest difference of the gradients of packed runs from those of each alone, in standard
    deviations: norms with other values in each run, sequences of different lengths."""
    together = gradients(runs, range(len(runs)), architecture)
    alone = [gradients([run], [row], architecture)[0] for row, run in enumerate(runs)]
    sd = together.std().item() or 1.0
    return largest(together - torch.stack(alone)) / sd


def gradients(runs: Sequence[RunSpec], seeds: Iterable[int], architecture: Backbone) -> Tensor:
    """The gradients of packed runs, (K, P)."""
    model, rows, _ = assemble(runs, TASK, CPU, architecture)
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    for values, draw in zip(rows.values, draws, strict=True):
        values += 0.1 * torch.randn(values.shape, generator=draw)
    x, mask = vectors(model, 3)
    several, masks = x.repeat(len(runs), 1, 1), mask.repeat(len(runs), 1)
    hidden = model.backbone(several, masks)[masks]
    assert rows.grads is not None
    if hidden.requires_grad:  # else there are no norms to train
        rows.differentiate(hidden.square().sum())
    return rows.grads.clone()


def groups_without_gradient(model: Model, rows: PackedParameters) -> tuple[str, ...]:
    """The trained groups whose gradients in a training step are all zero or not finite."""
    model.train()
    batch = TASK.train_batch([0], 0, 4, CPU)
    rows.differentiate(TASK.losses(model(batch), batch.targets).mean())
    moved = set()
    for part, columns in rows.parts():
        gradient = rows.grads[:, columns]
        if gradient.isfinite().all() and gradient.any():
            moved.add(part.group)
    return tuple(sorted({part.group for part in rows.slices} - moved))


def page() -> str:
    """docs/backbones-tried.md."""
    rows = {name: row_of(kind) for name, kind in FAMILIES.items()}
    taken = {name: row for name, row in rows.items() if not row.refusal}
    return PAGE_TEXT.format(
        version=transformers.__version__,
        count=len(rows),
        taken_count=len(taken),
        refused_count=len(rows) - len(taken),
        taken="\n".join(line(name, row) for name, row in taken.items()),
        refused="\n".join(
            f"| {name} | `{row.kind}` | {reason(row)} |"
            for name, row in rows.items()
            if row.refusal
        ),
    )


def line(name: str, row: Row) -> str:
    """The table's line of an architecture that is taken."""
    cells = [
        name,
        f"`{row.kind}`",
        "causal" if row.causal else "both ways",
        *map(size, (row.apart, row.padding, row.packed)),
        ", ".join(f"**{it}: none**" if it in row.still else it for it in row.groups),
    ]
    return f"| {' | '.join(cells)} |"


def size(difference: float) -> str:
    """A difference as the table shows it."""
    number = f"{difference:.1g}"
    return number if difference <= ROUNDING else f"**{number}**"


def reason(row: Row) -> str:
    """Why an architecture is refused, from the sentence."""
    return row.refusal.partition("(")[2].rpartition("); what fits")[0]


PAGE_TEXT = """# Backbones that were tried

{count} architectures that people use most, as transformers {version} has them: {taken_count} are
taken, and {refused_count} are refused before training, each in one sentence. Each was a tiny model
with random weights, saved by transformers and loaded twice: by transformers, and as a backbone.
`python -m lab.backbones_tried` tries them again and writes this page. A ViT, which takes images
instead of token vectors, is compared by the tests.

Any other architecture is tried when you name it, by one forward pass with random weights. It is
refused unless its hidden states are those of the whole model, unless neither padding nor the other
sequences of a batch have influence on them, and unless its gradients are finite.

## Taken

Differences are the largest of any hidden state or gradient, in standard deviations. Rounding in
float32 leaves some 1e-6:

* **transformers**: from the hidden states of transformers, on sequences of equal and of different
  lengths.
* **padding**: of a padded sequence from the same sequence alone.
* **packs**: of the gradients of two runs trained as one pack from those of each run alone.

In a training step every trainable group that is listed has a gradient.

| architecture | type | attention | transformers | padding | packs | trainable groups |
|---|---|---|---|---|---|---|
{taken}

## Refused

| architecture | type | why |
|---|---|---|
{refused}
"""


def main() -> None:
    logging.disable(logging.WARNING)
    write_atomic(PAGE, page().encode())


if __name__ == "__main__":
    main()
