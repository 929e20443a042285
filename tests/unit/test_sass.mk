# SPDX-License-Identifier: Apache-2.0
#
# Machine code of every architecture that the scanner reads, at two levels of optimisation, and two objects that still
# have to be linked.

SASS_DIR := $(BUILD)/cubin/sass
sass_files := $(foreach a,sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a,$(SASS_DIR)/$(a).waits.cubin) \
	$(SASS_DIR)/sm_90.slow.cubin $(SASS_DIR)/sm_90.linked.cubin $(SASS_DIR)/sm_90.asked.cubin $(SASS_DIR)/sm_100.waits.cubin
define sass_rule
$(SASS_DIR)/$(1).waits.cubin: $(IMAGE_PTX)/waits.$(if $(filter sm_9% sm_10%,$(1)),sm_90,sm_75).ptx
	@mkdir -p $$(@D)
	$(NVCC) -cubin -arch=$(1) -o $$@ $$<
endef
$(foreach a,sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100,$(eval $(call sass_rule,$(a))))
$(SASS_DIR)/%.slow.cubin: $(IMAGE_PTX)/waits.%.ptx
	@mkdir -p $(@D)
	$(NVCC) -cubin -arch=$* -Xptxas -O0 -o $@ $<
$(SASS_DIR)/%.linked.cubin: tests/data/image/linked.cu
	@mkdir -p $(@D)
	$(NVCC14) -cubin -rdc=true -arch=$* -o $@ $<
$(SASS_DIR)/%.asked.cubin: tests/data/image/asked.cu
	@mkdir -p $(@D)
	$(NVCC14) -cubin -rdc=true -arch=$* -o $@ $<

CFLAGS_test_sass := -DTEST_SASS_DIR='"$(SASS_DIR)"'
$(BUILD)/tests/unit/test_sass: | $(sass_files)
