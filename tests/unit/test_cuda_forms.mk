# SPDX-License-Identifier: Apache-2.0
CFLAGS_test_cuda_forms := -I$(CUDA_ROOT)/include -DTEST_FAKE_CUDA='"$(abspath $(FAKE_CUDA))"' \
	-DTEST_PTXAS='"$(abspath tests/support/fake_cuda/ptxas)"'
$(BUILD)/tests/unit/test_cuda_forms: | $(FAKE_CUDA)

# On a GPU: measures the cost of the forms of kernels.
$(BUILD)/tests/gpu/forms: $(BUILD)/obj/tests/gpu/forms.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)
