# SPDX-License-Identifier: Apache-2.0
# The interpreter's tests run the kernel corpus.
$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_interp_kernels_*.c)): | $(kernel_ptx)
