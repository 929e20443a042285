# SPDX-License-Identifier: Apache-2.0
#
# PTX front end: golden pairs come from the tree, the round trip takes every kernel that nvcc compiled.

CFLAGS_test_ptx_golden := -DTEST_GOLDEN_DIR='"$(CURDIR)/tests/golden/ptx"'
CFLAGS_test_ptx_fuzz := $(CFLAGS_test_ptx_golden)
CFLAGS_test_ptx_limits = -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"'
$(BUILD)/tests/unit/test_ptx_limits: | $(kernel_ptx)
ptxas_variants := $(foreach v,debug lineinfo rdc fast ftz triton,$(v)=$(PTXAS_$(v));)
CFLAGS_test_ptx_roundtrip = -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"' -DPTXAS='"$(abspath $(CUDA_ROOT))/bin/ptxas"' \
	-DPTXAS_VARIANTS='"$(subst ; ,;,$(ptxas_variants))"'
CFLAGS_test_ptx_oracle = $(CFLAGS_test_ptx_golden) -DPTXAS='"$(abspath $(CUDA_ROOT))/bin/ptxas"'
CFLAGS_test_ptx_tool = $(CFLAGS_test_ptx_golden) -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"' \
	-DPTX_TOOL='"$(abspath $(BUILD))/detshare-ptx"'
$(BUILD)/tests/unit/test_ptx_roundtrip: | $(corpus)
$(BUILD)/tests/unit/test_ptx_tool: | $(kernel_ptx) $(BUILD)/detshare-ptx
CFLAGS_test_ptx_pass = -DTEST_GOLDEN_DIR='"$(CURDIR)/tests/golden/pass"' -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"' \
	-DPTXAS='"$(abspath $(CUDA_ROOT))/bin/ptxas"'
$(BUILD)/tests/unit/test_ptx_pass: | $(kernel_ptx)
CFLAGS_test_ptx_forms = -DTEST_FORMS_DIR='"$(CURDIR)/tests/golden/forms"' -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"' \
	-DPTXAS='"$(abspath $(CUDA_ROOT))/bin/ptxas"'
$(BUILD)/tests/unit/test_ptx_forms: | $(kernel_ptx)
CFLAGS_test_ptx_colour = -DTEST_COLOUR_DIR='"$(CURDIR)/tests/golden/colour"' -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"' \
	-DTEST_TREE_DIR='"$(CURDIR)"' -DPTXAS='"$(abspath $(CUDA_ROOT))/bin/ptxas"'
$(BUILD)/tests/unit/test_ptx_colour: | $(kernel_ptx)

# On a GPU: measures the cost of colouring kernels.
$(BUILD)/tests/gpu/colour: $(BUILD)/obj/tests/gpu/colour.o $(call obj,$(wildcard serve/pack*.c) serve/arrivals.c serve/why.c) $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)
bench-gpu-build: $(BUILD)/tests/gpu/colour $(BUILD)/bench/gpu_colour.ptx
