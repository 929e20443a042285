# SPDX-License-Identifier: Apache-2.0
#
# Fatbins of every shape that nvcc writes: zstd (default), LZ4 (speed), all compressed (size), stored (none), and a cubin.

IMAGE_DIR := $(BUILD)/fatbin
image_files := $(foreach a,sm_75 sm_90 sm_90a,$(foreach m,balance speed size none,$(IMAGE_DIR)/$(a).$(m).fatbin)) \
	$(IMAGE_DIR)/sm_75.cubin $(IMAGE_DIR)/sm_90.cubin $(IMAGE_DIR)/code_only.fatbin

$(IMAGE_DIR)/code_only.fatbin: $(IMAGE_PTX)/two.sm_90.ptx
	@mkdir -p $(@D)
	$(NVCC) -fatbin -gencode arch=compute_90,code=sm_90 -o $@ $<
# These rules do what nvcc -fatbin does. For a target with an architecture-specific feature set (sm_90a) it also
# writes the text of the older target.
define image_rules
$(IMAGE_DIR)/$(1).%.fatbin: $(IMAGE_PTX)/two.$(1).ptx $(IMAGE_DIR)/$(1).cubin $(IMAGE_PTX)/two.$(1:a=).ptx
	@mkdir -p $$(@D)
	$(dir $(NVCC))fatbinary --create=$$@ -64 --compress-mode=$$* $(if $(1:%a=),,"--image3=kind=ptx,sm=$(1:sm_%a=%),file=$$(lastword $$^)") \
		"--image3=kind=elf,sm=$(1:sm_%=%),file=$$(word 2,$$^)" "--image3=kind=ptx,sm=$(1:sm_%=%),file=$$<"
$(IMAGE_DIR)/$(1).cubin: $(IMAGE_PTX)/two.$(1).ptx
	@mkdir -p $$(@D)
	$(NVCC) -cubin -arch=$(1) -o $$@ $$<
endef
$(foreach a,sm_75 sm_90 sm_90a,$(eval $(call image_rules,$(a))))

CFLAGS_test_image := -DTEST_IMAGE_DIR='"$(IMAGE_DIR)"'
CFLAGS_test_sim_device := $(CFLAGS_test_image)
$(BUILD)/tests/unit/test_image $(BUILD)/tests/unit/test_sim_device: | $(image_files)
