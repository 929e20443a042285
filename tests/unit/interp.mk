# SPDX-License-Identifier: Apache-2.0
# The interpreter's tests run the kernel corpus.
$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_interp_kernels_*.c)): | $(kernel_ptx)

# tests/bench/bench_interp: what the interpreter does per second
$(BUILD)/bench/bench_interp: $(BUILD)/obj/tests/bench/bench_interp.o $(DAEMON_A) | $(kernel_ptx)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
.PHONY: bench-interp
bench-interp: $(BUILD)/bench/bench_interp
	$< $(BUILD)/ptx/sm_75
