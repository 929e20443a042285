# SPDX-License-Identifier: Apache-2.0
CFLAGS_test_worker_graph_cuda := -I$(CUDA_ROOT)/include -DTEST_FAKE_CUDA='"$(abspath $(FAKE_CUDA))"' \
	-DTEST_PTXAS='"$(abspath tests/support/fake_cuda/ptxas)"'
$(BUILD)/tests/unit/test_worker_graph_cuda: | $(FAKE_CUDA) $(BUILD)/tests/policies/fifo.so $(BUILD)/tests/policies/static.so
