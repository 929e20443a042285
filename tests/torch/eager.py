#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single requests to models in eager mode, for tests/bench/eager_models.py.

Each case is a model with random weights at batch 1, as PyTorch runs it by default: every operation is a launch, without
a CUDA graph and without a compiler. A request is one forward pass and ends with one synchronisation. Beside the orders
of common.py, --serve takes

  {"do": "requests", "warm": W, "n": N}   runs W requests, and measures the next N: times until the step has returned,
                                          and until the synchronisation has, us; and the digest of the last output
  {"do": "kernels", "n": N}               kernels and copies of a request on the GPU: their number, and the sum of their
                                          times, us, from torch.profiler. The process is slower afterwards.
"""
import sys
import time

import common

PICTURE = (3, 224, 224)
VOCABULARY = 30000
TEXT, PROMPT = 128, 64  # tokens
SPEECH = 32000  # samples: two seconds at 16 kHz
WHISPER = (1, 80, 3000)  # mel bands and frames of 30 s of speech, the only length that Whisper takes


def library(name):
    """The module transformers or timm."""
    try:
        return __import__(name)
    except ImportError as error:
        raise common.Skipped(f"no {name}: {error}") from error


def tokens(n, device):
    import torch
    return torch.randint(1, VOCABULARY, (1, n)).to(device)


def placed(of, device, dtype):
    """A tensor or a model, on the device and with this data type."""
    import torch
    return of.to(device).to({"fp32": torch.float32, "fp16": torch.float16}[dtype])


def noise(shape, device, dtype):
    import torch
    return placed(torch.randn(shape), device, dtype)


def add(name, family, dtype, prepare):
    """A case: prepare(device, dtype) returns the model, a function that runs a request, and one that takes the tensors out of
    its answer. A CPU computes with 32 bits, because many have no arithmetic with 16."""
    def function(device):
        import torch
        model, request, of = prepare(device, dtype if device != "cpu" else "fp32")
        model.eval()
        last = []

        def step():
            with torch.inference_mode():
                last[:] = [request()]
        step()
        return common.Prepared(output=lambda: of(last[0]), step=step,
                               info={"family": family, "dtype": dtype, "parameters": sum(p.numel() for p in model.parameters())})
    common.case(f"eager.{name}", seconds=180)(function)


def of_timm(name):
    def prepare(device, dtype):
        model = library("timm").create_model(name, pretrained=False).to(device)
        common.settle(model, noise((8, *PICTURE), device, "fp32"))
        model, x = placed(model, device, dtype), noise((1, *PICTURE), device, dtype)
        return model, lambda: model(x), lambda y: y
    return prepare


def encoder(name):
    def prepare(device, dtype):
        transformers = library("transformers")
        model = placed(getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")()), device, dtype)
        x = tokens(TEXT, device)
        return model, lambda: model(x), lambda y: y.last_hidden_state
    return prepare


def gpt2(device, dtype):
    transformers = library("transformers")
    model = placed(transformers.GPT2LMHeadModel(transformers.GPT2Config()), device, dtype)
    x = tokens(PROMPT, device)
    return model, lambda: model(x), lambda y: y.logits


def llama(device, dtype):
    """A request writes one token. The cache of keys and values has the prompt only at the begin of each request."""
    import torch
    transformers = library("transformers")
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=2816, num_hidden_layers=16,
                                      num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=2048)
    model = placed(transformers.LlamaForCausalLM(config), device, dtype)
    x = tokens(1, device)
    with torch.inference_mode():
        cache = model(tokens(PROMPT, device), use_cache=True).past_key_values

    def request():
        answer = model(x, past_key_values=cache, use_cache=True)
        cache.crop(-1)
        return answer
    return model, request, lambda y: y.logits


def t5(device, dtype):
    """A request reads a text and writes the first token of the answer."""
    transformers = library("transformers")
    model = placed(transformers.T5Model(transformers.T5Config()), device, dtype)
    x, first = tokens(TEXT, device), tokens(1, device)
    return model, lambda: model(input_ids=x, decoder_input_ids=first), lambda y: y.last_hidden_state


def clip(device, dtype):
    transformers = library("transformers")
    model = placed(transformers.CLIPModel(transformers.CLIPConfig()), device, dtype)
    text, picture = tokens(77, device), noise((1, *PICTURE), device, dtype)
    return model, lambda: model(input_ids=text, pixel_values=picture), lambda y: (y.text_embeds, y.image_embeds)


def whisper(device, dtype):
    """A request hears 30 s of speech and writes the first token."""
    transformers = library("transformers")
    model = placed(transformers.WhisperModel(transformers.WhisperConfig()), device, dtype)
    x, first = noise(WHISPER, device, dtype), tokens(4, device)
    return model, lambda: model(input_features=x, decoder_input_ids=first), lambda y: y.last_hidden_state


def wav2vec2(device, dtype):
    transformers = library("transformers")
    model = placed(transformers.Wav2Vec2Model(transformers.Wav2Vec2Config()), device, dtype)
    x = noise((1, SPEECH), device, dtype)
    return model, lambda: model(x), lambda y: y.last_hidden_state


for timm_name, family, dtype in (("resnet50", "convolution", "fp16"), ("efficientnet_b0", "convolution", "fp32"),
                                 ("convnext_tiny", "convolution", "fp16"), ("mobilenetv3_large_100", "convolution", "fp32"),
                                 ("vit_base_patch16_224", "vision transformer", "fp16"), ("swin_tiny_patch4_window7_224", "vision transformer", "fp16")):
    add(timm_name.split("_patch")[0].removesuffix("_100"), family, dtype, of_timm(timm_name))
add("bert", "text encoder", "fp16", encoder("Bert"))
add("distilbert", "text encoder", "fp32", encoder("DistilBert"))
add("gpt2", "text generation", "fp16", gpt2)
add("llama", "text generation", "fp16", llama)
add("t5", "text to text", "fp32", t5)
add("clip", "text and picture", "fp16", clip)
add("whisper", "speech", "fp16", whisper)
add("wav2vec2", "speech", "fp32", wav2vec2)


class Program(common.Program):
    """The cases of this process, with the orders of this file."""

    def requests(self, warm, n):
        step, device = self.prepared.step, self.device
        for _ in range(warm):
            step()
            common.synchronize(device)
        submitted, ended = [], []
        for _ in range(n):
            begin = time.perf_counter()
            step()
            middle = time.perf_counter()
            common.synchronize(device)
            ended.append((time.perf_counter() - begin) * 1e6)
            submitted.append((middle - begin) * 1e6)
        return dict(self.digest(), submit_us=submitted, request_us=ended)

    def kernels(self, n):
        import torch
        activities = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if self.device != "cpu" else [])
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(n):
                self.prepared.step()
                common.synchronize(self.device)
        times = [event.time_range.elapsed_us() for event in profile.events() if event.device_type != torch.autograd.DeviceType.CPU]
        return {"case": self.name, "kernels": len(times) / n, "gpu_us": sum(times) / n}

    def do(self, request):
        if request["do"] == "requests":
            return self.requests(request["warm"], request["n"])
        if request["do"] == "kernels":
            return self.kernels(request["n"])
        return super().do(request)


if __name__ == "__main__":
    sys.exit(common.main(Program))
