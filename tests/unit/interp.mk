# SPDX-License-Identifier: Apache-2.0
# The interpreter's tests run the kernel corpus.
$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_interp_kernels_*.c tests/unit/test_interp_fuzz.c)): | $(kernel_ptx)

# tests/bench/bench_interp measures the interpreter's instructions per second; bench_cores the gain by a second core.
$(BUILD)/bench/bench_interp $(BUILD)/bench/bench_cores: $(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o $(DAEMON_A) | $(kernel_ptx)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
.PHONY: bench-interp
bench-interp: $(BUILD)/bench/bench_interp $(BUILD)/bench/bench_cores ## instructions a second of the PTX interpreter, on one core and two | 1 min
	$< $(BUILD)/ptx/sm_75
	$(BUILD)/bench/bench_cores $(BUILD)/ptx/sm_75

# On a GPU: compares every instruction with the interpreter, and the corpus with the interpreter's references.
interp_gpu := $(patsubst tests/unit/%.c,$(BUILD)/gpu/interp/%,$(wildcard tests/unit/test_interp_kernels_*.c))
$(BUILD)/gpu/interp/test_interp_%: tests/unit/test_interp_%.c $(wildcard tests/support/interp_*.h) $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DRIG_GPU $(LDFLAGS) -rdynamic -o $@ $< $(DAEMON_A) -lxxhash -lm -ldl -lcriterion
$(BUILD)/gpu/interp/%_diff: tests/gpu/%_diff.c tests/gpu/driver.h $(wildcard tests/support/interp_*.h tests/support/corpus_*.h) $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(DAEMON_A) -lxxhash -lm -ldl
.PHONY: interp-gpu # internal
interp-gpu: $(interp_gpu) $(patsubst %,$(BUILD)/gpu/interp/%_diff,interp tensor corpus) | $(kernel_ptx) $(corpus_nvcc)
CFLAGS_test_interp_rows := -DTEST_INTERP_GOLDEN='"$(CURDIR)/tests/golden/interp/h200.txt"'
CFLAGS_test_interp_tensor := -DTEST_TENSOR_GOLDEN='"$(CURDIR)/tests/golden/interp/h200_tensor.txt"'
$(BUILD)/tests/unit/test_interp_triton: | $(triton_stamp)
