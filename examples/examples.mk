# SPDX-License-Identifier: Apache-2.0
#
# `make examples` builds the programs of examples/ as their users would; tests/e2e/examples.sh runs all of them.

EXAMPLES := $(addprefix $(BUILD)/examples/,hello service job)
# link the shared CUDA runtime: DetShare's own libcudart.so.13 takes its place on a machine without NVIDIA's driver. nvcc
# looks for its other libraries in lib64; a toolkit that was installed by pip has lib.
$(BUILD)/examples/%: examples/%.cu | $(LIBRARIES)
	@mkdir -p $(@D)
	$(NVCC) -arch=sm_90 -cudart shared -L$(BUILD)/cuda -L$(CUDA_ROOT)/lib64 -L$(CUDA_ROOT)/lib -o $@ $<
$(BUILD)/examples/hello: examples/client/hello.c $(BUILD)/libdetshare-client.so client-lib/include/detshare/detshare.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iclient-lib/include $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' -o $@ $< -L$(BUILD) -ldetshare-client
.PHONY: examples
examples: $(EXAMPLES) ## the programs of examples/: a service, a job, a client of the library
e2e: $(EXAMPLES)
