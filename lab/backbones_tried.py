"""The architectures that people use most, each tried as a backbone.

`python -m lab.backbones_tried` writes docs/backbones-tried.md. Each is a tiny model with random
weights, saved by transformers in a folder, loaded from it by transformers and as a backbone here.
"""

import logging
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from fpt.backbones import backbone
from fpt.backbones.layers import is_norm
from fpt.backbones.skeleton import class_of, hidden_states
from fpt.files import ROOT, FptError, read_json, write_atomic
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
    "BART": "bart", "ViT": "vit",
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
    "vit": {"image_size": 16, "patch_size": 8},
}  # fmt: skip
LENGTH = 10
ROUNDING = 1e-5  # of a difference in float32, in standard deviations


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
        """Whether a backbone that is taken gives transformers' numbers, masks padding and
        trains."""
        return max(self.apart, self.padding, self.packed) <= ROUNDING * 10 and not self.still


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
    model.save_pretrained(folder)
    return model_class.from_pretrained(folder, dtype=torch.float32).eval()


def run_of(folder: Path, trainable: tuple[str, ...] | None = None, **changes: Any) -> RunSpec:
    """A run on the backbone in `folder` that trains the groups `trainable`, or all of them."""
    known = backbone(str(folder))
    values: dict[str, Any] = {
        "data": canonical(get_task("bit-memory", n=LENGTH // 2 - 1).identity),
        "backbone": known.name, "weights": known.name, "init": "pretrained", "dropout": 0.0,
        "trainable": tuple(sorted(trainable or known.groups)), "lr": 0.01, "batch": 4, "steps": 4,
        "eval_every": 2, "seed": 0,
    }  # fmt: skip
    return RunSpec(**{**values, **changes})
