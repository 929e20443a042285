# SPDX-License-Identifier: Apache-2.0
$(BUILD)/tests/unit/test_sim_print: | $(kernel_ptx)
CFLAGS_test_sim_print := -DTEST_PTX_DIR='"$(abspath $(BUILD))/ptx"'
