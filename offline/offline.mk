# SPDX-License-Identifier: Apache-2.0
#
# The packs of the paper's eleven models, made and checked; what is there and right stays. Not a part of the build: PyTorch is 5 GB, and
# lies beside them. make packs MODELS="bert resnet34" ARCH=sm_75 BATCH=1 PACKS=DIR
PACKS ?= $(BUILD)/packs
ARCH ?= sm_80
.PHONY: packs
packs: $(SERVE)
	@offline/make-packs $(PACKS) $(MODELS) --arch $(ARCH) $(if $(BATCH),--batch $(BATCH)) --serve $(SERVE) \
		$(if $(wildcard $(CUDA_ROOT)/bin/ptxas),--ptxas $(CUDA_ROOT)/bin/ptxas)
