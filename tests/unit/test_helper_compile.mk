# SPDX-License-Identifier: Apache-2.0
#
# Compiling for a real GPU: the toolkit's ptxas, one that misbehaves, real PTX, fatbins and cubins.

COMPILE_DIR := $(BUILD)/compile
compile_files := $(foreach f,plain talks,$(COMPILE_DIR)/$(f).ptx) $(COMPILE_DIR)/plain.sm_90a.ptx $(COMPILE_DIR)/many.fatbin \
	$(COMPILE_DIR)/own.fatbin $(COMPILE_DIR)/old_code.fatbin

$(COMPILE_DIR)/%.sm_90a.ptx: $(IMAGE_PTX)/%.sm_90a.ptx
	@mkdir -p $(@D)
	cp $< $@
$(COMPILE_DIR)/%.ptx: $(IMAGE_PTX)/%.sm_75.ptx
	@mkdir -p $(@D)
	cp $< $@
$(COMPILE_DIR)/many.fatbin: $(IMAGE_PTX)/two.sm_75.ptx
	@mkdir -p $(@D)
	$(NVCC) -fatbin --compress-mode=size -gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=sm_80 \
		-gencode arch=compute_90,code=sm_90 -gencode arch=compute_90a,code=sm_90a \
		-gencode arch=compute_100,code=sm_100 -o $@ $<
$(COMPILE_DIR)/own.fatbin: $(IMAGE_PTX)/two.sm_75.ptx
	@mkdir -p $(@D)
	$(NVCC) -fatbin -gencode arch=compute_90,code=[sm_90,compute_90] -o $@ $<
$(COMPILE_DIR)/old_code.fatbin: tests/data/image/two.cu
	@mkdir -p $(@D)
	$(NVCC14) -fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_100,code=compute_100 -o $@ $<

CFLAGS_test_helper_compile := -DTEST_DIR='"$(COMPILE_DIR)"' -DTEST_PTXAS='"$(abspath $(CUDA_ROOT)/bin/ptxas)"' \
	-DTEST_HOSTILE='"$(abspath tests/support/hostile_ptxas)"' -DTEST_HELPER='"$(BUILD)/libexec/detshare-helper"'
$(BUILD)/tests/unit/test_helper_compile: | $(compile_files) $(BUILD)/cubin/sm_90.plain.cubin $(BUILD)/libexec/detshare-helper
