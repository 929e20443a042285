# SPDX-License-Identifier: Apache-2.0
#
# Tests of the drop-in libcuda.so.1: one opens the library as a program does, one links its parts.

LIBCUDA := $(BUILD)/cuda/libcuda.so.1
CFLAGS_test_cuda_exports := -DDOCUMENT='"$(abspath docs/compatibility.md)"' -DLIBCUDA='"$(abspath $(LIBCUDA))"' -DDATA='"$(abspath tests/data/cuda)"' -I$(CUDA_ROOT)/include
CFLAGS_test_cuda_parts := -DDATA='"$(abspath tests/data/cuda)"' -I$(CUDA_ROOT)/include
CFLAGS_test_cuda_occupancy := $(CFLAGS_test_cuda_parts)
CFLAGS_test_cuda_graphs := $(CFLAGS_test_cuda_parts)
CFLAGS_test_cuda_memory := $(CFLAGS_test_cuda_parts)
$(BUILD)/obj/tests/unit/test_cuda_exports.o: | $(BUILD)/gen/cuda/cuda_names.h
$(BUILD)/tests/unit/test_cuda_exports: | $(LIBCUDA)
$(addprefix $(BUILD)/tests/unit/test_cuda_,parts occupancy graphs memory): $(cudaface_obj) $(BUILD)/libdetshare-client.so
$(addprefix $(BUILD)/tests/unit/test_cuda_,parts memory): $(BUILD)/obj/tests/support/fake_daemon.o
$(addprefix $(BUILD)/tests/unit/test_cuda_,parts occupancy graphs memory): LDFLAGS += -Wl,-rpath,'$$ORIGIN/../..'

# The daemon inside the test needs the messages, which come before it in an archive.
$(BUILD)/tests/unit/test_cuda_memory: private LDFLAGS += -Wl,-u,detshare__reply__descriptor

# A library that takes the place of NVIDIA's driver in tests.
STANDIN := $(BUILD)/tests/standin/libcuda.so.1
$(STANDIN): tests/support/standin/standin.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -Wall -Wextra -Werror -shared -fPIC -Wl,-soname,libcuda.so.1 -o $@ $<
CFLAGS_test_cuda_fallback := -DLIBCUDA='"$(abspath $(LIBCUDA))"' -DSTANDIN='"$(abspath $(STANDIN))"' -I$(CUDA_ROOT)/include
$(BUILD)/tests/unit/test_cuda_fallback: | $(LIBCUDA) $(STANDIN)
