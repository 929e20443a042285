# SPDX-License-Identifier: Apache-2.0
CFLAGS_test_worker_repeat := -I$(CUDA_ROOT)/include -DTEST_FAKE_CUDA='"$(abspath $(FAKE_CUDA))"' \
	-DTEST_PTXAS='"$(abspath tests/support/fake_cuda/ptxas)"'
$(BUILD)/tests/unit/test_worker_repeat: | $(FAKE_CUDA) $(BUILD)/tests/policies/fifo.so
