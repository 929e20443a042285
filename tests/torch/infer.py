#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inference of vision and language models with random weights: single requests and batches of 64."""
import sys

import common

VISION = ("resnet34", "resnet152", "mobilenet_v3_large", "efficientnet_b0", "mobilevit_s")
LANGUAGE = ("bert", "mobilebert")
QUICK = ("infer.resnet34.b1.fp32", "infer.resnet152.b64.fp16", "infer.bert.b1.fp16", "infer.mobilevit_s.b1.fp32")


def vision_model(name):
    if name == "mobilevit_s":
        try:
            import timm
        except ImportError as error:
            raise common.Skipped(f"no timm: {error}") from error
        return timm.create_model(name, pretrained=False)
    import torchvision
    return getattr(torchvision.models, name)(weights=None)


def vision(name, batch, dtype):
    def prepare(device):
        import torch
        model = vision_model(name).to(device)
        x = torch.randn(batch, 3, 224, 224).to(device)
        common.settle(model, torch.randn(16, 3, 224, 224).to(device))
        return inference(model.to(dtype_of(dtype)), (x.to(dtype_of(dtype)),), lambda y: y)
    return prepare


def language(name, batch, dtype):
    def prepare(device):
        import torch
        try:
            import transformers
        except ImportError as error:
            raise common.Skipped(f"no transformers: {error}") from error
        if name == "bert":
            model = transformers.BertModel(transformers.BertConfig())
        else:
            model = transformers.MobileBertModel(transformers.MobileBertConfig())
        tokens = torch.randint(0, 30000, (batch, 128)).to(device)
        return inference(model.eval().to(device).to(dtype_of(dtype)), (tokens,), lambda y: (y.last_hidden_state, y.pooler_output))
    return prepare


def dtype_of(name):
    import torch
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]


def inference(model, inputs, of):
    import torch
    last = []

    def step():
        with torch.inference_mode():
            last[:] = [model(*inputs)]
    step()
    return common.Prepared(output=lambda: of(last[0]), step=step,
                           info={"parameters": sum(p.numel() for p in model.parameters())})


def add(names, kind, half):
    for name in names:
        for batch in (1, 64):
            for dtype in ("fp32", half):
                case_name = f"infer.{name}.b{batch}.{dtype}"
                common.case(case_name, quick=case_name in QUICK)(kind(name, batch, dtype))


add(VISION, vision, "fp16")
add(LANGUAGE, language, "fp16")
common.case("infer.bert.b64.bf16")(language("bert", 64, "bf16"))
common.case("infer.resnet152.b64.bf16")(vision("resnet152", 64, "bf16"))

if __name__ == "__main__":
    sys.exit(common.main())
