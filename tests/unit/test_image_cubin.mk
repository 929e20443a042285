# SPDX-License-Identifier: Apache-2.0
#
# Cubins of every architecture with a header of its own, and of every case that ds_cubin distinguishes.

CUBIN_DIR := $(BUILD)/cubin
cubin_files := $(foreach a,sm_75 sm_80 sm_86 sm_90 sm_90a sm_100,$(CUBIN_DIR)/$(a).plain.cubin) \
	$(foreach a,sm_75 sm_90 sm_100,$(CUBIN_DIR)/$(a).talks.cubin) $(foreach k,0 1 2,$(CUBIN_DIR)/sm_90.variables.$(k).cubin)

$(CUBIN_DIR)/sm_90.variables.%.cubin: tests/data/image/variables.cu
	@mkdir -p $(@D)
	$(NVCC14) -cubin -arch=sm_90 -DKIND=$* -o $@ $<
# The text of an older target is also assembled for newer ones.
define cubin_rule
$(CUBIN_DIR)/$(2).$(1).cubin: $(IMAGE_PTX)/$(1).sm_75.ptx
	@mkdir -p $$(@D)
	$(NVCC) -cubin -arch=$(2) -o $$@ $$<
endef
$(foreach f,plain talks,$(foreach a,sm_75 sm_80 sm_86 sm_90 sm_90a sm_100,$(eval $(call cubin_rule,$(f),$(a)))))

CFLAGS_test_image_cubin := -DTEST_CUBIN_DIR='"$(CUBIN_DIR)"'
$(BUILD)/tests/unit/test_image_cubin: | $(cubin_files)
