"""The loop that packs are compared with: one run at a time, as such code is usually written.

fp32, a transformers GPT-2 with trainable norms and positions, host-side batches, torch's Adam over
a list of parameters, `.item()` at every step. Same task, initialisation, dropout and steps as ours.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Model

from fpt.backbones import Backbone, backbone
from fpt.backbones.gpt2 import gpt2_config
from fpt.spec import RunSpec
from fpt.tasks import Task
from fpt.training.model import assemble


def plain_backbone(spec: RunSpec, network: Backbone) -> GPT2Model:
    """transformers' GPT-2 with the dropout of `spec`, its norms and positions trainable."""
    dropout = {"embd_pdrop": spec.dropout, "resid_pdrop": spec.dropout, "attn_pdrop": 0.0}
    model = GPT2Model(gpt2_config(network, 1, **dropout))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("ln_" in name or "wpe" in name)
    return model


class PlainRun(nn.Module):
    """One run: input net, backbone, output net, optimiser."""

    def __init__(self, spec: RunSpec, task: Task, device: torch.device) -> None:
        super().__init__()
        network = backbone(spec.backbone)
        self.spec, self.task, self.device = spec, task, device
        if task.kind == "token":
            self.input: nn.Module = nn.Embedding(task.dim, network.width)
        else:
            self.input = nn.Linear(task.dim, network.width)
        self.drop = nn.Dropout(spec.dropout)
        self.backbone = plain_backbone(spec, network)
        self.output = nn.Linear(network.width, task.answers * task.classes)
        self.initialise()
        self.to(device)
        trained = [p for p in self.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=spec.lr)
        self.trained = trained
        self.count = 0

    def initialise(self) -> None:
        """Take the initial values of the run's row of a pack."""
        model, *_ = assemble([self.spec], self.task, "cpu")
        mine = self.state_dict()
        for name, value in model.state_dict().items():
            place = mine[
                "backbone.wpe.weight" if name == "positions" else name.replace("gpt2.", "")
            ]
            value = value.view(-1, *place.shape[1:])  # without the axis of runs
            place[: len(value)] = value  # of the positions, those that are used

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.drop(self.input(inputs))
        hidden = self.backbone(inputs_embeds=x).last_hidden_state[:, -self.task.reads :]
        return self.output(hidden).reshape(len(inputs), -1, self.task.classes)

    def step(self) -> float:
        batch = self.task.train_batch(
            [self.spec.seed], self.count, self.spec.batch, "cpu", self.spec.augment
        )
        inputs, targets = batch.inputs[0].to(self.device), batch.targets[0].to(self.device)
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.trained, self.spec.clip)
        self.optimizer.step()
        self.count += 1
        return loss.item()
