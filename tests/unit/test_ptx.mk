# SPDX-License-Identifier: Apache-2.0
#
# PTX front end: golden pairs come from the tree, the round trip takes every kernel that nvcc compiled.

CFLAGS_test_ptx_golden := -DTEST_GOLDEN_DIR='"$(CURDIR)/tests/golden/ptx"'
CFLAGS_test_ptx_fuzz := $(CFLAGS_test_ptx_golden)
CFLAGS_test_ptx_roundtrip = -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"' -DPTXAS='"$(CUDA_ROOT)/bin/ptxas"'
$(BUILD)/tests/unit/test_ptx_roundtrip: | $(kernel_ptx)
