# SPDX-License-Identifier: Apache-2.0
#
# Programs of the Runtime API, built as users build them. Every .cu file here is one. Each is compiled once and linked
# twice: with the shared runtime (against DetShare's library), and for GPUs with NVIDIA's static one.
#
#   NVCC_<name>        options of one program
#   PARTS_<name>       files of parts/ that it is also linked from
#   parts/lib*.cu      libraries that programs open
#   TOGETHER_<group>   programs that are compiled as one file (together.sh) and linked as one program with several names
#
# Groups save time, because the compiler spends most of its time on headers. A program that acts before or after main
# has no group.

RUNTIME := $(BUILD)/tests/runtime
runtime_names := $(basename $(notdir $(wildcard tests/programs/runtime/*.cu)))
runtime_libs := $(patsubst tests/programs/runtime/parts/%.cu,$(RUNTIME)/%.so,$(wildcard tests/programs/runtime/parts/lib*.cu))
runtime_bin := $(runtime_names:%=$(RUNTIME)/%) $(runtime_libs)
runtime_static := $(runtime_names:%=$(RUNTIME)/static/%) $(runtime_libs:$(RUNTIME)/%=$(RUNTIME)/static/%)
# No program here launches from the device. In a toolkit of Python wheels, nvcc does not find the folder of libraries.
NVCC_RUNTIME := $(NVCC) -arch=sm_90 -Xcompiler -pthread -cudadevrt none -L$(dir $(CUDART))

NVCC_per_thread_stream := --default-stream per-thread
NVCC_per_thread_copies := --default-stream per-thread
NVCC_rdc := -rdc=true
NVCC_rdc_other := -rdc=true
NVCC_templates := --extended-lambda
# Templates of the toolkit call functions of the host.
NVCC_occupancy := -diag-suppress 20013,20014,20015
PARTS_units := units_other
PARTS_rdc := rdc_other
TOGETHER_graphs := graph_clone graph_errors graph_events graph_mixed graph_nodes graph_update graph_capture capture_errors capture_info
TOGETHER_copies := copies_2d copies_3d copies_async batch_copies memsets unified_copies host_register pinned managed
TOGETHER_streams := stream_kinds legacy_stream many_streams event_times event_waits callbacks host_functions last_error error_texts launch_errors
TOGETHER_memory := memory_info memory_errors malloc_async pools out_of_memory pointer_attributes symbols
TOGETHER_kernels := atomics calls doubles matrices reduce_scan shared_memory warps grids big_arguments func_attributes
TOGETHER_processes := forked reset ipc printing faulty asserting host_threads thread_streams plugins libraries entry_points devices
TOGETHER_newer := cooperative clusters halves
groups := $(patsubst TOGETHER_%,%,$(filter TOGETHER_%,$(.VARIABLES)))

# The first program of a group is linked from the whole group; the others are further names of it.
$(foreach g,$(groups),$(eval GROUP_$(firstword $(TOGETHER_$(g))) := group/$(g)))
runtime_o = $(addprefix $(BUILD)/obj/tests/programs/runtime/,$(or $(GROUP_$(1)),$(1)).o $(PARTS_$(1):%=parts/%.o))
other_members = $(wordlist 2,99,$(TOGETHER_$(1)))
runtime_linked := $(filter-out $(foreach g,$(groups),$(call other_members,$(g))),$(runtime_names))
.SECONDARY: $(foreach n,$(runtime_linked),$(call runtime_o,$(n)))
$(BUILD)/obj/tests/programs/runtime/%.o: tests/programs/runtime/%.cu $(wildcard tests/programs/runtime/*.h)
	@mkdir -p $(@D)
	$(NVCC_RUNTIME) $(nvcc_std) $(NVCC_$(notdir $*)) -c -o $@ $<
# A group is compiled under the newer C++ standard if one of its members needs it.
define group_rule
$(BUILD)/gen/runtime/$(1).cu: tests/programs/runtime/together.sh tests/programs/runtime/runtime.mk $(TOGETHER_$(1):%=tests/programs/runtime/%.cu)
	@mkdir -p $$(@D)
	$$< $(TOGETHER_$(1)) >$$@.new && mv $$@.new $$@
$(BUILD)/obj/tests/programs/runtime/group/$(1).o: $(BUILD)/gen/runtime/$(1).cu $(wildcard tests/programs/runtime/*.h)
	@mkdir -p $$(@D)
	$(NVCC_RUNTIME) $(if $(filter newer,$(1)),,-std=c++14) -c -o $$@ $$<
$(patsubst %,$(RUNTIME)/%,$(call other_members,$(1))): $(RUNTIME)/$(firstword $(TOGETHER_$(1)))
	ln -f $$< $$@
$(patsubst %,$(RUNTIME)/static/%,$(call other_members,$(1))): $(RUNTIME)/static/$(firstword $(TOGETHER_$(1)))
	ln -f $$< $$@
endef
$(foreach g,$(groups),$(eval $(call group_rule,$(g))))
# nvcc links programs with relocatable device code, and one more to test that. The C++ compiler links the others, five
# times faster.
by_nvcc := vector_add $(patsubst NVCC_%,%,$(foreach v,$(filter NVCC_%,$(.VARIABLES)),$(if $(findstring -rdc,$($v)),$v)))
runtime_link = $(if $(filter $(by_nvcc),$(1)),$(NVCC_RUNTIME) $(NVCC_$(1)) -cudart $(2) -Xlinker -rpath-link=$(BUILD)/cuda:$(BUILD),\
	$(CXX) -pthread -Wl$(comma)-rpath-link$(comma)$(BUILD)/cuda:$(BUILD)) -o
define runtime_rule
$(RUNTIME)/$(1): $(call runtime_o,$(1)) | $(BUILD)/cuda/libcudart.so.13
	@mkdir -p $$(@D)
	$(call runtime_link,$(1),shared) $$@ $$^ -L$(BUILD)/cuda -lcudart -ldl
$(RUNTIME)/static/$(1): $(call runtime_o,$(1))
	@mkdir -p $$(@D)
	$(call runtime_link,$(1),static) $$@ $$^ -L$(dir $(CUDART)) -lcudart_static -lrt -ldl
endef
$(foreach n,$(runtime_linked),$(eval $(call runtime_rule,$(n))))
$(RUNTIME)/lib%.so: tests/programs/runtime/parts/lib%.cu | $(BUILD)/cuda/libcudart.so.13
	@mkdir -p $(@D)
	$(NVCC_RUNTIME) $(nvcc_std) -Xcompiler -fPIC -shared -cudart shared -o $@ $< -L$(BUILD)/cuda -Xlinker -rpath-link=$(BUILD)/cuda:$(BUILD)
$(RUNTIME)/static/lib%.so: tests/programs/runtime/parts/lib%.cu
	@mkdir -p $(@D)
	$(NVCC_RUNTIME) $(nvcc_std) -Xcompiler -fPIC -shared -cudart static -o $@ $<

.PHONY: runtime runtime-static # internal
# One program is also linked with the static runtime, to test what that runtime reports under DetShare.
runtime: $(runtime_bin) $(RUNTIME)/static/vector_add
runtime-static: $(runtime_static)
