"""transformers' model of each backbone, from its configuration and without values."""

import json
import re
from typing import Any

from torch import Tensor, nn

from ..backbones import Backbone
from ..backbones.generic.skeleton import network, parameters_on_meta


class Layers(nn.Module):
    """A ViT, which takes images, without its patches and class token."""

    def __init__(self, vit: Any) -> None:
        super().__init__()
        self.config = vit.config
        self.layers = vit.layers
        self.layernorm = vit.layernorm

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return self.layernorm(x)


def built(architecture: Backbone) -> Any:
    """transformers' model of a backbone, its parameters on the meta device."""
    if architecture.family == "generic":
        return network(architecture.config)
    text = json.loads(architecture.config) if architecture.config else {}
    config = {**config_of(architecture), **text, "num_hidden_layers": architecture.layers}
    from transformers import CONFIG_MAPPING, MODEL_MAPPING, T5EncoderModel

    parsed = CONFIG_MAPPING[str(config["model_type"])].from_dict(config)
    of_type: Any = MODEL_MAPPING[type(parsed)]
    if architecture.family == "t5-encoder":
        of_type = T5EncoderModel
    with parameters_on_meta():
        model = of_type(parsed)
    return Layers(model) if architecture.family == "vit" else model


def config_of(architecture: Backbone) -> dict[str, Any]:
    """transformers' configuration of a backbone that is built in, by its size."""
    shape = {
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.layers,
        "num_attention_heads": architecture.heads,
        "intermediate_size": 4 * architecture.width,
    }
    match architecture.family:
        case "gpt2":
            return {
                "model_type": "gpt2",
                "n_embd": architecture.width,
                "n_layer": architecture.layers,
                "n_head": architecture.heads,
                "n_positions": 1,
                "vocab_size": 1,
                "bos_token_id": 0,
                "eos_token_id": 0,
            }
        case "t5-encoder":
            return {
                "model_type": "t5",
                "vocab_size": 2,  # never embedded; its end symbol must be one of them
                "d_model": architecture.width,
                "d_kv": architecture.width // architecture.heads,
                "d_ff": 4 * architecture.width,
                "num_layers": architecture.layers,
                "num_heads": architecture.heads,
                "use_cache": False,
            }
        case "vit":
            return {"model_type": "vit", **shape}
    # A Longformer without global attention is a BERT under a band mask.
    eps = 1e-5 if architecture.window else 1e-12
    table = {"vocab_size": 1, "type_vocab_size": 1, "max_position_embeddings": 1}
    return {"model_type": "bert", **shape, **table, "layer_norm_eps": eps}


# From the names of transformers' parameters to those of this project's states, which key
# draws: (pattern, replacement), one after another.
STATE_NAMES = {
    "gpt2": ((r"^model\.", "gpt2."),),
    "bert": (
        (r"^model\.embeddings\.token_type_embeddings\.", "token_type."),
        (r"^model\.embeddings\.LayerNorm\.", "embedding_norm."),
        (r"^model\.encoder\.layer\.", "layers."),
    ),
    "t5-encoder": ((r"^model\.encoder\.", ""),),
    "vit": ((r"^model\.", ""),),
    "generic": (),
}
STATE_NAMES["longformer"] = STATE_NAMES["bert"]


def state_name(family: str, name: str) -> str:
    """What a parameter is called in states of a family."""
    for pattern, replacement in STATE_NAMES[family]:
        name = re.sub(pattern, replacement, name)
    return name
