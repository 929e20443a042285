#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generation with a Llama-style model and its cache of keys and values: the tokens and their logits."""
import sys

import common

NEW_TOKENS = 24


def model_of(device, dtype):
    import torch
    try:
        import transformers
    except ImportError as error:
        raise common.Skipped(f"no transformers: {error}") from error
    if device == "cpu":
        sizes = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    else:
        sizes = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=4)
    config = transformers.LlamaConfig(vocab_size=32000, max_position_embeddings=2048, eos_token_id=None, pad_token_id=0, **sizes)
    with torch.device(device):
        return transformers.LlamaForCausalLM(config).eval().to(dtype)


def generation(dtype_name, batch, prompt, sample):
    def prepare(device):
        import torch
        model = model_of(device, getattr(torch, dtype_name))
        tokens = torch.randint(1, 32000, (batch, prompt), generator=torch.Generator().manual_seed(2)).to(device)
        last = []

        def step():
            torch.manual_seed(3)
            with torch.inference_mode():
                last[:] = [model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=NEW_TOKENS,
                                          min_new_tokens=NEW_TOKENS, do_sample=sample, use_cache=True,
                                          return_dict_in_generate=True, output_logits=True)]
        step()
        return common.Prepared(output=lambda: [last[0].sequences, list(last[0].logits)], step=step,
                               info={"tokens": NEW_TOKENS * batch})
    return prepare


common.case("llama.greedy.b1.bf16", quick=True)(generation("bfloat16", 1, 64, False))
common.case("llama.greedy.b8.fp16")(generation("float16", 8, 256, False))
common.case("llama.sample.b4.bf16")(generation("bfloat16", 4, 64, True))

if __name__ == "__main__":
    sys.exit(common.main())
