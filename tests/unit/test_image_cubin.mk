# SPDX-License-Identifier: Apache-2.0
#
# Cubins of every architecture that differs in its header, and of everything that ds_cubin tells apart.

CUBIN_DIR := $(BUILD)/cubin
cubin_files := $(foreach a,sm_75 sm_80 sm_86 sm_90 sm_90a sm_100,$(CUBIN_DIR)/$(a).plain.cubin) \
	$(foreach a,sm_75 sm_90 sm_100,$(CUBIN_DIR)/$(a).talks.cubin) $(foreach k,0 1 2,$(CUBIN_DIR)/sm_90.variables.$(k).cubin)

$(CUBIN_DIR)/sm_90.variables.%.cubin: tests/data/image/variables.cu
	@mkdir -p $(@D)
	$(NVCC14) -cubin -arch=sm_90 -DKIND=$* -o $@ $<
define cubin_rule
$(CUBIN_DIR)/%.$(1).cubin: tests/data/image/$(1).cu
	@mkdir -p $$(@D)
	$(NVCC14) -cubin -arch=$$* -o $$@ $$<
endef
$(foreach f,plain talks,$(eval $(call cubin_rule,$(f))))

CFLAGS_test_image_cubin := -DTEST_CUBIN_DIR='"$(CUBIN_DIR)"'
$(BUILD)/tests/unit/test_image_cubin: | $(cubin_files)
