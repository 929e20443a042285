# SPDX-License-Identifier: Apache-2.0
#
# The PTX kernels of the probe, embedded as text and, if the toolkit has an assembler, also as machine code for the
# GPU architecture of DS_BENCH_BUILT_FOR (lut/probe/bench.h).
PROBE_PTX := $(notdir $(basename $(wildcard lut/probe/*.ptx)))
PROBE_HDR := $(foreach p,$(PROBE_PTX),$(BUILD)/gen/probe_$(p).ptx.h $(BUILD)/gen/probe_$(p).cubin.h)
$(BUILD)/gen/probe_%.ptx.h: lut/probe/%.ptx
	@mkdir -p $(@D)
	{ od -An -v -tx1 $< | sed 's/ \([0-9a-f]*\)/0x\1,/g'; echo 0; } >$@.new && mv $@.new $@
$(BUILD)/gen/probe_%.cubin.h: lut/probe/%.ptx
	@mkdir -p $(@D)
	if [ -x "$(CUDA_ROOT)/bin/ptxas" ]; then $(CUDA_ROOT)/bin/ptxas -arch=sm_90 -o $@.image $<; else : >$@.image; fi
	{ od -An -v -tx1 $@.image | sed 's/ \([0-9a-f]*\)/0x\1,/g'; echo 0; } >$@.new && mv $@.new $@
$(call obj,$(wildcard lut/probe/*.c)): | $(PROBE_HDR)
