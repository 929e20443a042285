# SPDX-License-Identifier: Apache-2.0
#
# The fake driver, and the assembler that makes its cubins.

fake_cuda_tests := test_fake_cuda test_cuda_device
$(foreach t,$(fake_cuda_tests),$(eval CFLAGS_$(t) := -I$(CUDA_ROOT)/include \
	-DTEST_FAKE_CUDA='"$(abspath $(FAKE_CUDA))"' -DTEST_PTXAS='"$(CUDA_ROOT)/bin/ptxas"' \
	-DTEST_FAKE_PTXAS='"$(abspath tests/support/fake_cuda/ptxas)"'))
$(fake_cuda_tests:%=$(BUILD)/tests/unit/%): | $(FAKE_CUDA)
