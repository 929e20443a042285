# SPDX-License-Identifier: Apache-2.0
#
# Linking in the helper: the toolkit's nvJitLink, and separately compiled code of each kind.

LINKED_DIR := $(BUILD)/ptx/sm_90/linked
CFLAGS_test_helper_link := -DTEST_DIR='"$(LINKED_DIR)"' -DTEST_PTXAS='"$(abspath $(CUDA_ROOT)/bin/ptxas)"'
$(BUILD)/tests/unit/test_helper_link: | $(addprefix $(LINKED_DIR)/,caller.ptx callee.ptx callee.fatbin caller.o callee.o libcallee.a \
	caller.cubin callee.cubin caller.ltoir callee.ltoir liblto.a linked.cubin linked.fatbin)
$(LINKED_DIR)/lto.o: tests/programs/linked/callee.cu
	@mkdir -p $(@D)
	$(NVCC14) -dc -gencode arch=compute_90,code=lto_90 -o $@ $<
$(LINKED_DIR)/liblto.a: $(LINKED_DIR)/lto.o
	rm -f $@ && ar rcs $@ $^
# Code that needs no other file.
$(LINKED_DIR)/linked.cubin $(LINKED_DIR)/linked.fatbin: $(LINKED_DIR)/linked.%: tests/programs/kernels/saxpy.cu
	@mkdir -p $(@D)
	$(NVCC14) -$* -arch=sm_90 -o $@ $<
