# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve, the runner of model packs, and its tests. Tests link serve/*.c without main.c and options.c.

serve_src := $(filter-out serve/main.c serve/options.c,$(wildcard serve/*.c))
serve_obj := $(call obj,$(serve_src) $(addprefix daemon/util/,alloc.c fd.c sha256.c))
SERVE := $(BUILD)/detshare-serve
$(BUILD)/obj/serve/%.o $(BUILD)/obj/tests/serve/%.o $(BUILD)/obj/tests/fuzz/fuzz_pack.o: CPPFLAGS += -I$(CUDA_ROOT)/include

# detshare-serve loads the driver at run time.
$(SERVE): $(call obj,serve/main.c serve/options.c) $(serve_obj) $(BUILD)/libdetshare-client.so
	$(CC) $(LDFLAGS) $(call rpath,$$ORIGIN:$$ORIGIN/..$(LIBDIR:$(PREFIX)%=%)) -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -ldl -lm

# --- tests: unit tests beside the others, a pack of our own kernels for tests/e2e/serve.sh ----------------------------
serve_tests := $(patsubst tests/serve/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/serve/test_serve_*.c))
$(serve_tests): $(GATE_O)
$(BUILD)/obj/tests/serve/%.o: override OPT := -O0
$(BUILD)/tests/unit/test_serve_%: $(BUILD)/obj/tests/serve/test_serve_%.o $(serve_obj) $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -Wl,-rpath,'$$ORIGIN/../..' -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -ldl -lm -lcriterion
unit: $(serve_tests)

$(BUILD)/e2e/tiny.ptx: tests/serve/tiny.cu
	@mkdir -p $(@D)
	$(NVCC) -arch=sm_75 -ptx -o $@ $<
e2e: $(BUILD)/e2e/tiny.ptx

# The target that fuzzes pack files is linked as fuzz.mk links the others. fuzz.mk is read later, and the archive must
# follow these objects.
serve_fuzz_main = $(if $(filter undefined,$(origin FUZZ_MAIN)),$(BUILD)/obj/tests/fuzz/replay_main.o,$(FUZZ_MAIN))
$(BUILD)/tests/fuzz/fuzz_pack: $(BUILD)/obj/tests/fuzz/fuzz_pack.o $(serve_fuzz_main) \
		$(call obj,$(wildcard serve/pack*.c) serve/arrivals.c serve/why.c) $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(FUZZ_ENGINE) -rdynamic -o $@ $^ $(DAEMON_LIBS)

# detshare-serve's threads under ThreadSanitizer, over a driver that the test provides.
serve_race_src := $(serve_src) $(addprefix daemon/util/,alloc.c fd.c sha256.c)
$(BUILD)/tests/race/serve_race: race_extra := $(serve_race_src) -I$(CUDA_ROOT)/include -ldl -lm
$(BUILD)/tests/race/serve_race: $(serve_race_src) $(wildcard serve/*.h)
