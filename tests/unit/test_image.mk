# SPDX-License-Identifier: Apache-2.0
#
# Fatbins of every shape that nvcc writes: zstd (default), LZ4 (speed), all compressed (size), stored (none), and a cubin.

IMAGE_DIR := $(BUILD)/fatbin
image_files := $(foreach a,sm_75 sm_90 sm_90a,$(foreach m,balance speed size none,$(IMAGE_DIR)/$(a).$(m).fatbin)) \
	$(IMAGE_DIR)/sm_75.cubin $(IMAGE_DIR)/sm_90.cubin $(IMAGE_DIR)/code_only.fatbin

$(IMAGE_DIR)/code_only.fatbin: tests/data/image/two.cu
	@mkdir -p $(@D)
	$(NVCC14) -fatbin -gencode arch=compute_90,code=sm_90 -o $@ $<
$(IMAGE_DIR)/%.fatbin: tests/data/image/two.cu
	@mkdir -p $(@D)
	$(NVCC14) -fatbin -arch=$(basename $*) --compress-mode=$(patsubst .%,%,$(suffix $*)) -o $@ $<
$(IMAGE_DIR)/%.cubin: tests/data/image/two.cu
	@mkdir -p $(@D)
	$(NVCC14) -cubin -arch=$* -o $@ $<

CFLAGS_test_image := -DTEST_IMAGE_DIR='"$(IMAGE_DIR)"'
CFLAGS_test_sim_device := $(CFLAGS_test_image)
$(BUILD)/tests/unit/test_image $(BUILD)/tests/unit/test_sim_device: | $(image_files)
