# SPDX-License-Identifier: Apache-2.0
CFLAGS_test_cuda_launcher := -I$(CUDA_ROOT)/include -DTEST_FAKE_CUDA='"$(abspath $(FAKE_CUDA))"' \
	-DTEST_PTXAS='"$(abspath tests/support/fake_cuda/ptxas)"'
$(BUILD)/tests/unit/test_cuda_launcher: | $(FAKE_CUDA)
