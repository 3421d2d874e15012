"""Local backbones: corpora, tokenizers and language modelling, from text to a GPT-2 directory."""
