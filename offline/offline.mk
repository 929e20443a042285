# SPDX-License-Identifier: Apache-2.0
#
# Makes and checks the packs of the paper's eleven models; keeps packs that are up to date. Not a part of the build,
# because PyTorch takes 5 GB, beside the packs. Example: make packs MODELS="bert resnet34" ARCH=sm_75 BATCH=1
# PACKS=DIR
PACKS ?= $(BUILD)/packs
ARCH ?= sm_80
.PHONY: packs
packs: $(SERVE) ## model packs of the paper's models into PACKS (MODELS=, ARCH=, BATCH=) | 5 GB of Python packages; 30 min
	@offline/make-packs $(PACKS) $(MODELS) --arch $(ARCH) $(if $(BATCH),--batch $(BATCH)) --serve $(SERVE) \
		$(if $(wildcard $(CUDA_ROOT)/bin/ptxas),--ptxas $(CUDA_ROOT)/bin/ptxas)

# Measures the effect of divided memory channels on simulated GPUs with the packs of all models, for both targets, and
# writes it as pages of tables in docs/evaluation/. eval-channels takes ten minutes once the packs exist.
# eval-channels-windows repeats figure 18 with four instances of each service from several places of the trace, to
# show how far such runs differ; it takes six minutes of processor time.
EVAL_PACKS ?= $(BUILD)/eval/packs
.PHONY: eval-channels eval-channels-windows
eval-channels-windows: CHANNELS = --devices a2000 --figures 18 --instances 4 --be bert --policies sgdrc,detshare --loads heavy --windows 4 --requests 240
eval-channels: ## divided memory channels on simulated GPUs, into docs/evaluation | as packs, and 10 min
eval-channels-windows: ## figure 18 of it with four instances of each service | as packs, and 6 min
eval-channels eval-channels-windows: $(SERVE) $(BUILD)/detshare-replay $(POLICIES)
	@$(foreach arch,sm_80 sm_75,offline/make-packs $(EVAL_PACKS)/$(arch) --arch $(arch) --environment $(EVAL_PACKS)/packages &&) \
	tests/eval/channels.py --build $(BUILD) --packs $(EVAL_PACKS) --jobs $(JOBS) --out $(BUILD)/eval/$(@:eval-%=%).json --doc docs/evaluation/$(@:eval-%=%).md $(CHANNELS)
