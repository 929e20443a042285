# SPDX-License-Identifier: Apache-2.0
CFLAGS_test_cuda_driver := -I$(CUDA_ROOT)/include -DTEST_FAKE_CUDA='"$(abspath $(FAKE_CUDA))"' \
	-DTEST_DROPIN='"$(abspath $(BUILD)/cuda/libcuda.so.1)"'
$(BUILD)/tests/unit/test_cuda_driver: | $(FAKE_CUDA) $(BUILD)/cuda/libcuda.so.1
