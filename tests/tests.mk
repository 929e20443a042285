# SPDX-License-Identifier: Apache-2.0
#
# Tests: every tests/unit/*.c is one Criterion program, every tests/race/*.c one plain program run under TSan,
# every tests/programs/*.c an unmodified Driver API program, every tests/kernels .cu is compiled to PTX by nvcc.

ARCHS := sm_75 sm_90
kernel_cu := $(wildcard tests/programs/kernels/*.cu)
kernel_ptx := $(foreach a,$(ARCHS),$(kernel_cu:tests/programs/kernels/%.cu=$(BUILD)/ptx/$(a)/%.ptx))

define ptx_rule
$(BUILD)/ptx/$(1)/%.ptx: tests/programs/kernels/%.cu
	@mkdir -p $$(@D)
	$(NVCC) -arch=$(1) -ptx -o $$@ $$<
endef
$(foreach a,$(ARCHS),$(eval $(call ptx_rule,$(a))))

.PHONY: kernels
kernels: $(kernel_ptx)

unit_src := $(wildcard tests/unit/*.c)
unit_bin := $(unit_src:tests/unit/%.c=$(BUILD)/tests/unit/%)
$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS) -lcriterion

.PHONY: unit
unit: $(unit_bin)

# what a test needs beside its source: data files to build, defines
-include $(wildcard tests/unit/*.mk)
