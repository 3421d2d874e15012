"""The core that is to take the place of `fpt.backbones` and `fpt.training`: one adapter
over transformers, and one pure step. Nothing but its own tests imports it yet."""
