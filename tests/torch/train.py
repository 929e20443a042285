#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training with autocast, GradScaler, fused AdamW and deterministic algorithms: all weights and moments after 20
steps."""
import sys

import common

STEPS = 20


class Trainer:
    """Several batches, used in rotation; step() is one step of training."""

    def __init__(self, device, model, batches, loss_of, dtype):
        import torch
        self.device, self.model, self.batches, self.loss_of = device, model.to(device).train(), batches, loss_of
        self.dtype = torch.bfloat16 if device == "cpu" else dtype
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.scaler = torch.amp.GradScaler(device, enabled=self.dtype == torch.float16)
        self.at, self.losses = 0, []

    def step(self):
        import torch
        batch = self.batches[self.at % len(self.batches)]
        self.at += 1
        with torch.autocast(self.device, dtype=self.dtype):
            loss = self.loss_of(self.model, *batch)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def state(self):
        moments = [self.optimizer.state[p] for p in self.model.parameters() if p in self.optimizer.state]
        return [list(self.model.state_dict().values()), [[m["exp_avg"], m["exp_avg_sq"]] for m in moments], self.losses]


def trained(trainer):
    """Prepares a training: takes the digest of the state after 20 steps; the timed steps follow."""
    for _ in range(STEPS):
        trainer.losses.append(trainer.step())
    losses = [float(loss) for loss in trainer.losses]
    before = trainer.state()
    raw = common.raw_bytes(before)
    return common.Prepared(output=lambda: raw, step=trainer.step, stable=False,
                           info={"loss_first": losses[0], "loss_last": losses[-1], "bytes": len(raw)})


def resnet(name, batch, size, dtype_name):
    def prepare(device):
        import torch
        import torchvision
        common.deterministic()
        model = getattr(torchvision.models, name)(weights=None)
        batches = [(torch.randn(batch, 3, size, size).to(device), torch.randint(0, 1000, (batch,)).to(device)) for _ in range(4)]

        def loss_of(model, x, y):
            return torch.nn.functional.cross_entropy(model(x), y)
        return trained(Trainer(device, model, batches, loss_of, getattr(torch, dtype_name)))
    return prepare


def bert(device):
    import torch
    import transformers
    common.deterministic()
    config = transformers.BertConfig(num_hidden_layers=4, hidden_size=512, num_attention_heads=8, intermediate_size=2048)
    model = transformers.BertForMaskedLM(config)
    batches = [(torch.randint(0, 30000, (16, 128)).to(device),) for _ in range(4)]

    def loss_of(model, tokens):
        return model(tokens, labels=tokens).loss
    return trained(Trainer(device, model, batches, loss_of, torch.float16))


def mlp(device):
    import torch
    common.deterministic()
    layers = [torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(512, 512), torch.nn.GELU(),
              torch.nn.Linear(512, 10)]
    batches = [(torch.randn(64, 256).to(device), torch.randint(0, 10, (64,)).to(device)) for _ in range(4)]

    def loss_of(model, x, y):
        return torch.nn.functional.cross_entropy(model(x), y)
    return trained(Trainer(device, torch.nn.Sequential(*layers), batches, loss_of, torch.float16))


common.case("train.mlp.fp16", quick=True)(mlp)
common.case("train.resnet18.fp16", quick=True)(resnet("resnet18", 32, 224, "float16"))
common.case("train.resnet50.fp16", seconds=120)(resnet("resnet50", 64, 224, "float16"))
common.case("train.resnet50.bf16", seconds=120)(resnet("resnet50", 64, 224, "bfloat16"))
common.case("train.bert.fp16", seconds=120)(bert)

if __name__ == "__main__":
    sys.exit(common.main())
