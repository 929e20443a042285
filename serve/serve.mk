# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve, the runner of model packs, and its tests. serve/*.c but main.c is what tests link.

serve_src := $(filter-out serve/main.c serve/options.c,$(wildcard serve/*.c))
serve_obj := $(call obj,$(serve_src) $(addprefix daemon/util/,alloc.c fd.c sha256.c))
SERVE := $(BUILD)/detshare-serve
$(BUILD)/obj/serve/%.o $(BUILD)/obj/tests/serve/%.o $(BUILD)/obj/tests/fuzz/fuzz_pack.o: CPPFLAGS += -I$(CUDA_ROOT)/include

# the driver is found at run time
$(SERVE): $(call obj,serve/main.c serve/options.c) $(serve_obj) $(BUILD)/libdetshare-client.so
	$(CC) $(LDFLAGS) $(call rpath,$$ORIGIN:$$ORIGIN/..$(LIBDIR:$(PREFIX)%=%)) -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -ldl -lm
