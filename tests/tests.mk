# SPDX-License-Identifier: Apache-2.0
#
# Tests: every tests/unit/*.c is one Criterion program, every tests/race/*.c one plain program under ThreadSanitizer,
# every tests/programs/*.c an unmodified Driver API program. nvcc compiles every tests/programs/kernels/*.cu to PTX.

ARCHS := sm_75 sm_90
kernel_cu := $(wildcard tests/programs/kernels/*.cu)
# Under the C++14 standard the compiler's own headers are half as long. Files that include C++ headers of the toolkit
# need a newer standard.
NVCC14 := $(NVCC) -std=c++14
cu17 := $(shell grep -lE '^.include <(cooperative_groups|cuda|mma|thrust|cub)' tests/programs/kernels/*.cu \
	tests/programs/kernels/corpus/*.cu tests/programs/runtime/*.cu tests/programs/runtime/parts/*.cu)
nvcc_std = $(if $(filter $<,$(cu17)),,-std=c++14)
kernel_ptx := $(foreach a,$(ARCHS),$(kernel_cu:tests/programs/kernels/%.cu=$(BUILD)/ptx/$(a)/%.ptx))

define ptx_rule
$(BUILD)/ptx/$(1)/%.ptx: tests/programs/kernels/%.cu
	@mkdir -p $$(@D)
	$(NVCC) $$(nvcc_std) -arch=$(1) -ptx -o $$@ $$<
endef
$(foreach a,$(ARCHS),$(eval $(call ptx_rule,$(a))))
# `make test` builds SHORT unless WHOLE=1. nvcc writes the same text for both targets, except for the .target line, if
# the source does not test the target: SHORT derives the second text with sed. `make test-plain` runs nvcc for both
# and compares the texts (same-text).
own_cu := $(shell grep -lE '__CUDA_ARCH__|cooperative_groups|mma|cuda/' $(kernel_cu))
same_ptx := $(patsubst tests/programs/kernels/%.cu,$(BUILD)/ptx/sm_90/%.ptx,$(filter-out $(own_cu),$(kernel_cu)))
ifneq ($(SHORT),)
$(same_ptx): $(BUILD)/ptx/sm_90/%.ptx: tests/programs/kernels/%.cu | $(BUILD)/ptx/sm_75/%.ptx
	@mkdir -p $(@D)
	sed 's/^[.]target sm_75/.target sm_90/' $(BUILD)/ptx/sm_75/$*.ptx >$@.new && mv $@.new $@
endif
.PHONY: same-text # internal
same-text: kernels
	@for ptx in $(same_ptx); do sed 's/^[.]target sm_75/.target sm_90/' $(BUILD)/ptx/sm_75/$${ptx##*/} | cmp - $$ptx || exit; done

.PHONY: kernels # internal
kernels: $(kernel_ptx)

# --- the corpus of the PTX front end: files of CUDA C by subject, and Triton kernels ----------------------------------
# A file names its targets: `// targets: sm_80 sm_90+lineinfo`. The word after + is a variant: options for nvcc and for
# ptxas. SHORT takes the first target and all variants. The build keeps the cubins of the PTX that the compilers wrote;
# a test compares them with the cubins of the same PTX after DetShare has parsed and printed it.
NVCC_debug := -G
NVCC_lineinfo := -lineinfo
NVCC_rdc := -rdc=true
NVCC_fast := --use_fast_math
NVCC_ftz := -ftz=true -prec-div=false -prec-sqrt=false -fmad=false
# The option suppresses only sections of the cubin that quote the PTX and its line numbers. The round-trip test compares
# these separately.
PTXAS_debug := -g -suppress-debug-info
PTXAS_lineinfo := -lineinfo -suppress-debug-info
PTXAS_rdc := -c
PTXAS_triton := -lineinfo -suppress-debug-info
target_arch = $(firstword $(subst +, ,$(notdir $(1))))
target_variant = $(word 2,$(subst +, ,$(notdir $(1))))

corpus_cu := $(wildcard tests/programs/kernels/corpus/*.cu)
corpus_names := $(shell awk '/^\/\/ targets:/ { n = FILENAME; sub(".*/", "", n); sub("[.]cu$$", ".ptx", n); \
	for (i = 3; i <= NF; i++) if ($(if $(SHORT),i == 3 || $$i ~ /[+]/,1)) print $$i "/" n }' $(corpus_cu) /dev/null)
corpus_nvcc := $(corpus_names:%=$(BUILD)/ptx/corpus/%)
.SECONDARY: $(corpus_nvcc)
define corpus_rule
$(BUILD)/ptx/corpus/$(1)/%.ptx: tests/programs/kernels/corpus/%.cu
	@mkdir -p $$(@D)
	$(NVCC) $$(nvcc_std) -arch=$(call target_arch,$(1)) $(NVCC_$(call target_variant,$(1))) -ptx -o $$@ $$<
endef
$(foreach t,$(sort $(patsubst %/,%,$(dir $(corpus_names)))),$(eval $(call corpus_rule,$(t))))

# Triton kernels: one process compiles and assembles all of them; their sources name the targets. SHORT compiles each
# kernel for one of its targets, unless the whole set exists already.
TRITON := build/triton
triton_whole := $(BUILD)/ptx/corpus/triton.stamp
triton_stamp := $(if $(SHORT),$(or $(wildcard $(triton_whole)),$(BUILD)/ptx/corpus/triton-short.stamp),$(triton_whole))
$(triton_stamp): $(wildcard tests/programs/triton/*.py)
	@[ -f $(TRITON)/complete ] || { echo "no Triton compiler in $(TRITON): run .ci/deps.sh triton" >&2; exit 1; }
	@mkdir -p $(@D)
	PYTHONPATH=$(TRITON) PYTHONDONTWRITEBYTECODE=1 python3 tests/programs/triton/compile.py $(@D) \
		$(abspath $(CUDA_ROOT))/bin/ptxas $(PTXAS_triton) $(if $(filter %-short.stamp,$@),-O0 --short)
	@touch $@

# The assembler writes the names of its text and its cubin into a cubin with debug information. It therefore works in a
# directory of its own, where the names are X.ptx and X.cubin; X.O0.cubin and X.cubin of one text never touch each
# other. SHORT does not optimise, which halves the assembler's time.
define ptxas
@cd $(@D) && rm -rf $(@F).dir && mkdir $(@F).dir && ln -s ../$(<F) $(@F).dir/$(<F) && cd $(@F).dir && \
	{ $(abspath $(CUDA_ROOT))/bin/ptxas -arch=$(call target_arch,$(@D)) $(PTXAS_$(call target_variant,$(@D))) $(1) \
	-o $(<F:.ptx=.cubin) $(<F) >log 2>&1 || { cat log >&2; cd ..; rm -rf $(@F).dir; exit 1; }; } && \
	cd .. && mv $(@F).dir/$(<F:.ptx=.cubin) $(@F) && rm -rf $(@F).dir
endef
$(BUILD)/ptx/%.O0.cubin: $(BUILD)/ptx/%.ptx
	$(call ptxas,-O0)
$(BUILD)/ptx/%.cubin: $(BUILD)/ptx/%.ptx
	$(call ptxas)
corpus := $(patsubst %.ptx,%$(if $(SHORT),.O0).cubin,$(filter-out $(if $(SHORT),$(same_ptx)),$(kernel_ptx)) $(corpus_nvcc)) $(same_ptx) $(triton_stamp)
.PHONY: corpus corpus-load
corpus: $(corpus) ## PTX and cubins that the tests of the PTX front end read | 5 min; CUDA toolkit, Triton
# Lists which kernels of the corpus the simulated device loads, and which it refuses, by instruction.
$(BUILD)/bench/corpus_load: $(BUILD)/obj/tests/bench/corpus_load.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
corpus-load: $(BUILD)/bench/corpus_load $(corpus) ## what of the corpus the simulated device loads, and what it refuses | as corpus
	@find $(BUILD)/ptx/ -name '*.ptx' | sort | xargs $<

# --- a libcuda.so.1 on the simulated device: a test tool, never installed ---------------------------------------------
FAKE_CUDA := $(BUILD)/fake_cuda/libcuda.so.1
fake_cuda_obj := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/fake_cuda/*.c))
fake_cuda_sim := $(call obj,$(filter-out %main.c,$(foreach l,util image ptx ptx/interp ptx/pass device/sim,$(wildcard daemon/$(l)/*.c))))
# LeakSanitizer crashes where it guesses the place of thread-local storage of a library that was loaded late; that of this
# model is not allocated late
$(fake_cuda_obj): CPPFLAGS += -I$(CUDA_ROOT)/include -ftls-model=initial-exec
$(FAKE_CUDA): $(fake_cuda_obj) $(fake_cuda_sim) tests/support/fake_cuda/fake.sym
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -Wl,--version-script=tests/support/fake_cuda/fake.sym \
		-o $@ $(fake_cuda_obj) $(fake_cuda_sim) -lzstd -llz4 -lxxhash -ldl -lm
# CUDA_HOME can point to this folder: the helper then compiles with the assembler that belongs to the fake driver.
FAKE_PTXAS := $(BUILD)/fake_cuda/bin/ptxas
$(FAKE_PTXAS): tests/support/fake_cuda/ptxas
	@mkdir -p $(@D)
	printf '#!/bin/sh\nDETSHARE_REAL_PTXAS=%s exec %s "$$@"\n' $(CUDA_ROOT)/bin/ptxas $(abspath $<) >$@
	chmod 755 $@
# A library for LD_PRELOAD whose calls fail on request, in unmodified programs.
FAULTS := $(BUILD)/faults/faults.so
$(FAULTS): tests/support/faults/faults.c tests/support/faults/faults.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -std=gnu11 -g -O1 $(WARN) -fPIC -fvisibility=hidden -shared -o $@ $< -ldl
e2e: $(FAULTS)
.PHONY: fake-cuda # internal
fake-cuda: $(FAKE_CUDA) $(FAKE_PTXAS)

# --- unit tests -----------------------------------------------------------------------------------------------------------
unit_src := $(wildcard tests/unit/*.c)
unit_bin := $(unit_src:tests/unit/%.c=$(BUILD)/tests/unit/%)
$(unit_bin): $(GATE_O)
# gold takes half the time of binutils' other linker, and there are many programs.
FAST_LD := $(if $(shell command -v ld.gold),-fuse-ld=gold)
ifneq ($(SAN),)
LDFLAGS += $(FAST_LD)
else
$(unit_bin): private LDFLAGS += $(FAST_LD)
endif
# Criterion loads libgit2 to show differences. This stub loads it only when there is one to show
# (tests/support/late/late_git.c).
CRITERION_GIT := $(shell ldd "$$($(CC) -print-file-name=libcriterion.so)" 2>/dev/null | sed -n 's/.*libgit2[^ ]* => \([^ ]*\).*/\1/p')
ifneq ($(CRITERION_GIT),)
LATE_GIT := $(BUILD)/tests/late/$(notdir $(CRITERION_GIT))
$(LATE_GIT): tests/support/late/late_git.c
	@mkdir -p $(@D)
	$(CC) $(filter-out -fsanitize=% -fno-sanitize=% --coverage,$(CFLAGS)) -fvisibility=default -DLATE_GIT='"$(CRITERION_GIT)"' -shared \
		-Wl,-soname,$(@F) -o $@ $< -ldl
$(unit_bin): | $(LATE_GIT)
$(unit_bin): private LDFLAGS += -Wl,--push-state,--no-as-needed $(LATE_GIT) -Wl,--pop-state,-rpath,'$$ORIGIN/../late'
endif
$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS) -lcriterion $(SUPERVISOR_LIBS)

# Tests of the client core call the library's exported functions, against a daemon inside the test.
support_obj := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))
$(BUILD)/tests/unit/test_core_%: $(BUILD)/obj/tests/unit/test_core_%.o $(support_obj) $(proto_obj) $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -Wl,-rpath,'$$ORIGIN/../..' -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -lprotobuf-c -lcriterion

# tests/unit/plain.txt lists the tests that `make test` also builds and runs plain, or only plain.
unit_when = $(patsubst %.c,%,$(wildcard $(patsubst %,tests/unit/%.c,$(shell awk '!/^\#/ && $$2 ~ /$(1)/ { print $$1 }' tests/unit/plain.txt))))
.PHONY: unit unit-plain # internal
unit: $(if $(SAN),$(filter-out $(patsubst tests/%,$(BUILD)/tests/%,$(call unit_when,^only$$)),$(unit_bin)),$(unit_bin))
unit-plain: $(patsubst tests/%,$(BUILD)/tests/%,$(call unit_when,.))

# Images in files of their own. The front end takes most of nvcc's time, so a source passes it once per target; all
# images of that target are made from the text.
IMAGE_PTX := $(BUILD)/cubin/ptx
define image_ptx_rule
$(IMAGE_PTX)/%.$(1).ptx: tests/data/image/%.cu
	@mkdir -p $$(@D)
	$(NVCC14) -ptx -arch=$(1) -o $$@ $$<
endef
$(foreach a,sm_75 sm_90 sm_90a,$(eval $(call image_ptx_rule,$(a))))
.SECONDARY: $(foreach n,two.sm_75 two.sm_90 two.sm_90a waits.sm_75 waits.sm_90 plain.sm_75 plain.sm_90a talks.sm_75,$(IMAGE_PTX)/$(n).ptx)

# Data files and defines that only one test needs, in a file per test.
-include $(wildcard tests/unit/*.mk)
include tests/fuzz/fuzz.mk

# Test programs are not optimised.
$(foreach d,unit e2e programs,$(BUILD)/obj/tests/$(d)/%.o): override OPT := -O0
# asserts.h shortens Criterion's assertions, which would be half of each object.
$(BUILD)/obj/tests/unit/%.o $(BUILD)/obj/tests/serve/%.o: CPPFLAGS += -include tests/support/asserts.h
# In a test's own code the compiler checks addresses but not arithmetic, and no reads or writes: these checks would
# take as long to compile as those of the whole daemon. The product has its own guards around what a test hands to it.
# Tests that include product source have all checks.
ifneq ($(findstring undefined,$(SAN)),)
whole_src := $(shell grep -l '^#include "[a-z]*/.*[.]c"' $(unit_src))
$(BUILD)/obj/tests/unit/%.o $(BUILD)/obj/tests/programs/%.o: CFLAGS += $(if $(filter $<,$(whole_src)),,-fno-sanitize=undefined \
	$(if $(findstring clang,$(CC)),,--param asan-instrument-reads=0 --param asan-instrument-writes=0))
endif

# The parts of the interpreter that take long to compile: instructions that use only the registers of a warp.
arithmetic := $(patsubst %,daemon/ptx/interp/%.c,tensor int select half float bits cvt)

# --- the sanitizer gate and its proof ---------------------------------------------------------------------------------
# Compiled CUDA files and generated sources are the same for every variant of the build (plain, asan), so a variant uses
# those of the plain build through links. JOBS is one more than the processors, because compilers sometimes wait for
# files.
JOBS := $(or $(shell echo $$(($$(nproc) + 1))),3)
shared := gen ptx e2e fatbin cubin compile
share = @mkdir -p $(1) $(shared:%=$(BUILD)/%); \
	for d in $(shared); do [ -L $(1)/$$d ] || rm -rf $(1)/$$d; ln -sfn ../$$d $(1)/$$d; done
ASAN := $(BUILD)/asan
# Compiling instrumented code takes longer than running it. So a check of an address is a call, not inlined; the
# processor finds null pointers, and guards find wrong lengths of objects. tensor.c is inlined many times: optimising
# it with instrumentation costs 35 s of compile time and saves its test 6 s. `make fuzz` has all checks.
ASAN_OPT := -O1 --param asan-instrumentation-with-call-threshold=0
ASAN_LESS := null,object-size,pointer-overflow
ifneq ($(LESS),)
CFLAGS += -fno-sanitize=$(LESS)
# Lanes are aligned by their type, and the interpreter checks each access of a kernel. Sanitized tests spend their
# time there, so its checks are inlined.
$(BUILD)/obj/daemon/ptx/interp/%.o: CFLAGS += -fno-sanitize=alignment --param asan-instrumentation-with-call-threshold=7000
# Inlined address checks also for policies and the scheduler, which tests call thousands of times, for simulated time,
# and for the learner, which reads a million measurements.
often := $(wildcard policies/*.c policies/*/*.c daemon/sched/*.c lut/learn/*.c) lut/match.c $(patsubst %,daemon/device/sim/%.c,blocks clock room share)
$(often:%.c=$(BUILD)/obj/%.o): CFLAGS += --param asan-instrumentation-with-call-threshold=7000
# Arithmetic on a warp's registers: its loops stay vectorised with checks of overflows and shifts; checks of addresses
# would make them ten times slower.
$(arithmetic:%.c=$(BUILD)/obj/%.o): CFLAGS += -O1 -ftree-vectorize -fvect-cost-model=dynamic -fno-sanitize=address,bounds
endif
.PHONY: asan
asan: ## the sanitized build of the tests into build/asan | 5 min
	$(call share,$(ASAN))
	@$(MAKE) --no-print-directory -s BUILD=$(ASAN) SAN=address,undefined LESS=$(ASAN_LESS) OPT='$(ASAN_OPT)' CFLAGS_tensor=-O0 all unit e2e-sanitized programs $(ASAN)/tests/gate/proof
$(BUILD)/tests/gate/proof: $(BUILD)/obj/tests/gate/proof.o $(GATE_O)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcriterion
$(BUILD)/tests/gate/race_proof: tests/gate/race_proof.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -O1 -fsanitize=thread -o $@ $<

# --- race programs: the client core is compiled into the program, all of it under ThreadSanitizer ---------------------
TSAN_OPT := -O0
TSAN_FLAGS = -g1 $(TSAN_OPT) -fsanitize=thread
race_src := $(wildcard tests/race/*.c)
race_bin := $(race_src:tests/race/%.c=$(BUILD)/tests/race/%)
$(BUILD)/tests/race/libcuda_race: race_extra := $(cudaface_src) $(filter %.c,$(cudaface_gen)) -I$(CUDA_ROOT)/include
$(BUILD)/tests/race/libcuda_race: $(cudaface_src) $(wildcard client-lib/cuda/*.h) $(cudaface_gen)
# The race program of the Runtime API's table of kernel names, over a driver that the test provides.
cudart_race_src := $(addprefix client-lib/cudart/,register.c init.c error.c)
$(BUILD)/tests/race/cudart_race: race_extra := $(cudart_race_src) -I$(CUDA_ROOT)/include
$(BUILD)/tests/race/cudart_race: $(cudart_race_src) $(wildcard client-lib/cudart/*.h)
core_tsan := $(patsubst %.c,$(BUILD)/tsan/%.o,$(core_src) $(wildcard tests/support/*.c))
$(core_tsan): | $(proto_hdr)
-include $(core_tsan:.o=.d)
$(BUILD)/tests/race/%: tests/race/%.c $(core_tsan) $(proto_obj)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(TSAN_FLAGS) -o $@ $< $(race_extra) $(core_tsan) $(proto_obj) -lprotobuf-c

# Objects of the devices and everything below them under ThreadSanitizer. Two parts are built without it: arithmetic,
# which shares no data between threads, and the readers of images, which run before any other thread has the image.
unshared := $(arithmetic) \
	$(filter-out %main.c,$(foreach l,image ptx ptx/pass,$(wildcard daemon/$(l)/*.c)))
tsan_src := $(filter-out %main.c $(unshared),$(foreach l,util ptx/interp device device/sim device/cuda,$(wildcard daemon/$(l)/*.c)))
tsan_obj := $(tsan_src:%.c=$(BUILD)/tsan/%.o) $(unshared:%.c=$(BUILD)/obj/%.o)
# Code that computes is optimised. Code that waits is not: that would double the compile time.
$(BUILD)/tsan/daemon/ptx/interp/%.o $(BUILD)/tsan/daemon/device/sim/%.o $(BUILD)/tests/race/device_race: private TSAN_OPT := -O1
$(BUILD)/tsan/daemon/device/cuda/%.o: CPPFLAGS += -I$(CUDA_ROOT)/include
$(BUILD)/tsan/daemon/device/cuda/gpcs.o: $(BUILD)/gen/cuda_gpcs.h
$(BUILD)/tsan/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(if $(findstring clang,$(CC)),,-Wno-tsan) $(TSAN_FLAGS) -MMD -MP -c -o $@ $<
-include $(tsan_src:%.c=$(BUILD)/tsan/%.d)
# pages.c is the only part of the worker that has a thread.
$(BUILD)/tsan/daemon/worker/pages.o: | $(proto_hdr)
-include $(BUILD)/tsan/daemon/worker/pages.d
$(BUILD)/tests/race/pages_race: $(BUILD)/tsan/daemon/worker/pages.o
# The supervisor's threads, which close descriptors that clients sent.
foreign_tsan := $(patsubst %,$(BUILD)/tsan/daemon/supervisor/%.o,foreign charge deadline rate rules spin turns)
$(foreign_tsan): | $(proto_hdr)
-include $(foreign_tsan:.o=.d)
$(BUILD)/tests/race/foreign_race: $(foreign_tsan)
$(BUILD)/tests/race/device_flush_race $(BUILD)/tests/race/device_launcher_race: CPPFLAGS += -I$(CUDA_ROOT)/include
$(filter $(BUILD)/tests/race/device_% $(BUILD)/tests/race/pages_% $(BUILD)/tests/race/foreign_%,$(race_bin)): $(BUILD)/tests/race/%: tests/race/%.c $(tsan_obj)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(TSAN_FLAGS) -o $@ $^ $(DAEMON_LIBS)

.PHONY: race
race: $(race_bin) ## the tests under ThreadSanitizer into build/tests/race | 1 min

# --- end to end: programs that start a daemon of their own ----------------------------------------------------------------
e2e_src := $(filter-out %/harness.c,$(wildcard tests/e2e/*.c))
e2e_bin := $(e2e_src:tests/e2e/%.c=$(BUILD)/tests/e2e/%)
$(e2e_bin): $(GATE_O)
$(BUILD)/e2e/%.ptx: tests/e2e/%.cu
	@mkdir -p $(@D)
	$(NVCC14) -arch=sm_75 -ptx -o $@ $<
$(BUILD)/tests/e2e/%: $(BUILD)/obj/tests/e2e/%.o $(BUILD)/obj/tests/e2e/harness.o $(proto_obj) $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -lprotobuf-c

# A program that plays systemd's part.
TEST_MANAGER := $(BUILD)/tests/manager
$(TEST_MANAGER): $(BUILD)/obj/tests/support/manager/manager.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^

# Tests that kill processes share the load of their clients.
load_obj := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/e2e/load/*.c))
$(BUILD)/tests/e2e/client_kills $(BUILD)/tests/e2e/daemon_kills $(BUILD)/tests/e2e/kernel_kills: $(load_obj)

# --- defects that show only after a while: `make soak MINUTES=60` -----------------------------------------------------
$(BUILD)/tests/soak: $(BUILD)/obj/tests/soak/soak.o $(BUILD)/obj/tests/e2e/harness.o $(load_obj) $(proto_obj) $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -lprotobuf-c
MINUTES ?= 60
.PHONY: soak
soak: deps ## random load, kills and restarts, for MINUTES=60 | an hour
	@$(MAKE) --no-print-directory -s -j2 all e2e $(BUILD)/tests/soak
	@tests/soak.sh $(BUILD) $(MINUTES)

# The service under a booted systemd. Once the root exists, `make test` boots it too.
BOOT_ROOT := $(BUILD)/boot-root
.PHONY: test-boot-run # internal
.PHONY: test-boot
test-boot-run: all man programs $(BUILD)/tests/examples/hold
	@tests/systemd/make-root.sh $(BOOT_ROOT)
	@tests/systemd/boot.sh $(BUILD) $(BOOT_ROOT)
test-boot: deps ## the service under a booted systemd, in a Debian root that this makes | root; 3 min
	@.ci/deps.sh debootstrap systemd-container
	@$(MAKE) --no-print-directory -s -j2 test-boot-run

# A user of the public interface has only the installed header and the library.
example_bin := $(patsubst tests/examples/%.c,$(BUILD)/tests/examples/%,$(wildcard tests/examples/*.c))
$(BUILD)/tests/examples/%: tests/examples/%.c $(BUILD)/libdetshare-client.so client-lib/include/detshare/detshare.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iclient-lib/include $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' -o $@ $< -L$(BUILD) -ldetshare-client

.PHONY: e2e # internal
e2e: man $(example_bin) $(e2e_bin) $(TEST_MANAGER) $(BUILD)/tests/gpu/sandbox $(BUILD)/e2e/death.ptx fake-cuda $(FAKE_CUDA) \
	$(BUILD)/gpu/interp/corpus_diff $(addprefix $(BUILD)/tests/policies/,cells.so slow.so chaos.so) | $(corpus_nvcc)

# --- driver-API programs: linked as users link them, against the toolkit's stub library if there is one ---------------
program_bin := $(patsubst tests/programs/%.c,$(BUILD)/tests/programs/%,$(wildcard tests/programs/*.c))
$(program_bin): $(GATE_O)
CUDA_STUB := $(firstword $(wildcard $(CUDA_ROOT)/lib64/stubs/libcuda.so) $(BUILD)/cuda/libcuda.so.1)
$(BUILD)/tests/programs/%: $(BUILD)/obj/tests/programs/%.o | $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_STUB) -Wl,-rpath-link,$(BUILD) -lm
# The containers that nvcc writes: zstd by default, LZ4 for speed.
program_fatbins := $(foreach a,$(ARCHS),$(BUILD)/ptx/$(a)/prog_basic.fatbin $(BUILD)/ptx/$(a)/prog_basic.lz4.fatbin)
$(BUILD)/ptx/%/prog_basic.fatbin: tests/programs/kernels/prog_basic.cu
	@mkdir -p $(@D)
	$(NVCC14) -fatbin -arch=$* -o $@ $<
$(BUILD)/ptx/%/prog_basic.lz4.fatbin: tests/programs/kernels/prog_basic.cu
	@mkdir -p $(@D)
	$(NVCC14) -fatbin -arch=$* --compress-mode=speed -o $@ $<
# Separately compiled code for the linker, of each kind that nvcc writes. Machine code: for the GPU of `make test-gpu`.
linked_files := $(foreach a,$(ARCHS),$(addprefix $(BUILD)/ptx/$(a)/linked/,caller.ptx callee.ptx callee.fatbin caller.o callee.o libcallee.a)) \
	$(addprefix $(BUILD)/ptx/sm_90/linked/,caller.cubin callee.cubin caller.ltoir callee.ltoir)
define linked_rule
$(BUILD)/ptx/$(1)/linked/%.ptx: tests/programs/linked/%.cu
	@mkdir -p $$(@D)
	$(NVCC14) -dc -ptx -arch=$(1) -o $$@ $$<
$(BUILD)/ptx/$(1)/linked/%.fatbin: tests/programs/linked/%.cu
	@mkdir -p $$(@D)
	$(NVCC14) -dc -fatbin -arch=$(1) -o $$@ $$<
$(BUILD)/ptx/$(1)/linked/%.cubin: tests/programs/linked/%.cu
	@mkdir -p $$(@D)
	$(NVCC14) -dc -cubin -arch=$(1) -o $$@ $$<
$(BUILD)/ptx/$(1)/linked/%.ltoir: tests/programs/linked/%.cu
	@mkdir -p $$(@D)
	$(NVCC14) -dc -dlto -ltoir -arch=$(1) -o $$@ $$<
$(BUILD)/ptx/$(1)/linked/%.o: tests/programs/linked/%.cu
	@mkdir -p $$(@D)
	$(NVCC14) -dc -arch=$(1) -o $$@ $$<
$(BUILD)/ptx/$(1)/linked/libcallee.a: $(BUILD)/ptx/$(1)/linked/unused.o $(BUILD)/ptx/$(1)/linked/callee.o
	rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach a,$(ARCHS),$(eval $(call linked_rule,$(a))))
.PHONY: programs # internal
programs: $(program_bin) $(program_fatbins) $(linked_files) kernels
include tests/programs/runtime/runtime.mk

# --- the demo -------------------------------------------------------------------------------------------------------------
DEMO_BIN := $(BUILD)/demo/ls_service $(BUILD)/demo/be_job
# A program that continues while the daemon restarts.
e2e: $(DEMO_BIN) $(BUILD)/demo/kernels.ptx $(BUILD)/e2e/handover.ptx $(TEST_MANAGER)
$(BUILD)/demo/kernels.ptx: tests/demo/kernels.cu
	@mkdir -p $(@D)
	$(NVCC14) -arch=sm_75 -ptx -o $@ $<
$(BUILD)/obj/tests/demo/%.o $(BUILD)/obj/tests/programs/%.o: CPPFLAGS += -I$(CUDA_ROOT)/include
# Driver API programs that read the device clock through detshare.h. They find libcuda at run time through
# LD_LIBRARY_PATH.
$(BUILD)/demo/%: $(BUILD)/obj/tests/demo/%.o | $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -L$(BUILD)/cuda -lcuda -L$(BUILD) -ldetshare-client -Wl,-rpath-link,$(BUILD)

# A program that uses the Driver API and detshare/coloured.h.
COLOURED := $(BUILD)/tests/channels/coloured
$(BUILD)/obj/tests/channels/%.o: CPPFLAGS += -I$(CUDA_ROOT)/include
$(COLOURED): $(BUILD)/obj/tests/channels/coloured.o $(GATE_O) | $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -L$(BUILD)/cuda -lcuda -L$(BUILD) -ldetshare-client -Wl,-rpath,'$$ORIGIN/../..' -Wl,-rpath-link,$(BUILD)
$(addprefix $(BUILD)/tests/channels/,truth measured): $(BUILD)/tests/channels/%: $(BUILD)/obj/tests/channels/%.o $(DAEMON_A) $(GATE_O)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
e2e: $(COLOURED) $(addprefix $(BUILD)/tests/channels/,truth measured)

# The tests of tests/e2e/sanitized.txt, and the programs that these run.
sanitized := $(shell awk '!/^\#/ { print $$1 }' tests/e2e/sanitized.txt)
.PHONY: e2e-sanitized # internal
e2e-sanitized: $(filter $(sanitized:%=$(BUILD)/tests/e2e/%),$(e2e_bin)) $(example_bin) $(BUILD)/examples/hello $(TEST_MANAGER) $(BUILD)/demo/be_job \
	$(BUILD)/demo/kernels.ptx $(BUILD)/e2e/death.ptx $(BUILD)/e2e/handover.ptx fake-cuda

.PHONY: demo-build test-build # internal
.PHONY: demo test test-gpu
demo-build: all $(DEMO_BIN) $(BUILD)/demo/kernels.ptx
# Environment for the runs below: with it the daemon also finds ptxas in a toolkit that `make deps` has fetched.
WITH_TOOLKIT := CUDA_HOME="$${CUDA_HOME:-$(abspath $(CUDA_ROOT))}"
.PHONY: demo-run # internal
demo-run: demo-build
	@$(WITH_TOOLKIT) tests/demo/demo.py --build $(BUILD)
demo: deps ## a service beside a job under DetShare and without, on a GPU or simulated | 2 min
	@$(MAKE) --no-print-directory -s -j2 demo-run
.PHONY: demo-tables demo-spread
demo-tables: ## the demo's tables in README.md and docs/gpu/measured.md, from docs/data/demo*.json | 1 s
	@tests/demo/tables.py --write README.md docs/gpu/measured.md
RUNS ?= 5
demo-spread: demo-build ## how much the figures of RUNS=5 runs of the demo differ | 7 min
	@mkdir -p $(BUILD)/demo/spread
	@for i in $$(seq $(RUNS)); do for part in kernels packs; do $(WITH_TOOLKIT) tests/demo/demo.py $$part --build $(BUILD) \
		--json $(BUILD)/demo/spread/$$part.$$i.json >$(BUILD)/demo/spread/log || exit 1; done; done
	@for part in kernels packs; do echo "$$part:"; tests/demo/spread.py $(BUILD)/demo/spread/$$part.*.json || exit 1; done

test-build: demo-build kernels unit-plain race programs runtime e2e $(BUILD)/tests/gate/race_proof
# `make deps` runs first, in a make of its own: the packages that it installs decide what the next make finds. WHOLE=1
# adds everything that SHORT leaves out, and the long forms of tests.
test: SHORT_OR_WHOLE := $(if $(WHOLE),,SHORT=1 DEBUG=-g1)
test: deps ## every test that needs no GPU (WHOLE=1: the long forms too) | 10 min on two cores
	@.ci/deps.sh triton
	@$(MAKE) --no-print-directory -s -j$(JOBS) $(SHORT_OR_WHOLE) test-build
	@$(MAKE) --no-print-directory -s -j$(JOBS) $(SHORT_OR_WHOLE) asan
	@$(if $(WHOLE),DETSHARE_TEST_WHOLE=1) tests/run.sh $(BUILD)
# Runs every unit test on the plain build, with all random rounds and the whole corpus.
.PHONY: test-plain
test-plain: deps ## every unit test on the plain build, with all random rounds and the whole corpus | 20 min
	@.ci/deps.sh triton
	@$(MAKE) --no-print-directory -s -j$(JOBS) all kernels programs unit same-text
	@DETSHARE_TEST_WHOLE=1 tests/run.sh $(BUILD) unit

# Checks that the order of builds does not matter: tests/e2e/orders.sh, whose short form is part of `make test`.
.PHONY: test-orders
test-orders: deps ## the builds of test, gpu-build and corpus in three orders: none may break another | an hour
	@.ci/deps.sh triton
	@tests/e2e/orders.sh $(BUILD) full

# --- coverage: which lines the tests execute, with a lower bound ------------------------------------------------------
FLOOR ?= 85
COV := $(BUILD)/cov
.PHONY: coverage-build # internal
.PHONY: coverage
coverage-build:
	$(call share,$(COV))
	@$(MAKE) --no-print-directory -s BUILD=$(COV) COVERAGE=1 OPT=-O0 all unit e2e programs
coverage: ## which lines the tests execute; fails below FLOOR=85 percent | 20 min; gcovr
	@.ci/deps.sh triton gcovr
	@$(MAKE) --no-print-directory -s -j$(JOBS) kernels programs runtime e2e demo-build
	@$(MAKE) --no-print-directory -s -j$(JOBS) coverage-build
	@tests/coverage.sh $(BUILD) $(FLOOR)

# --- benchmarks -----------------------------------------------------------------------------------------------------------
$(BUILD)/bench/bench: $(BUILD)/obj/tests/bench/bench.o $(BUILD)/obj/tests/bench/bench_bare.o $(BUILD)/obj/tests/e2e/harness.o $(proto_obj) $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -lprotobuf-c

# Measures the speed at which detshare-replay plays profiles.
$(BUILD)/bench/bench_sim: $(BUILD)/obj/tests/bench/bench_sim.o $(DAEMON_A) | $(POLICIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)

# Runs all policies over the scenarios of tests/eval on simulated GPUs (docs/evaluation/simulated.md), then the sweep of
# fixed settings (docs/evaluation/frontier-sim.md); both also write a CSV file
.PHONY: replay-policies
replay-policies: $(BUILD)/detshare-replay $(POLICIES) ## all policies on simulated GPUs, and their frontier, into docs/evaluation | 20 min
	@mkdir -p $(BUILD)/eval
	@tests/eval/replay.py --build $(BUILD) --jobs $(JOBS) --out $(BUILD)/eval/simulated.csv --doc docs/evaluation/simulated.md
	@rm -f $(BUILD)/eval/frontier-sim.csv
	@tests/eval/frontier.py replay --build $(BUILD) --jobs $(JOBS) --out $(BUILD)/eval/frontier-sim.csv
	@tests/eval/frontier.py page --from $(BUILD)/eval/frontier-sim.csv --keep docs/evaluation/frontier-sim.csv.xz --doc docs/evaluation/frontier-sim.md
	@echo "with kernels that can be evicted, and without (docs/policies.md):"
	@for t in --transform ""; do $(BUILD)/detshare-replay $$t --profiled --duration 2s --compare detshare,sgdrc,multistream \
		--ls resnet34-b1@poisson:100 --be tests/data/replay/slabs.profile || exit 1; done

# Writes the measurements on GPUs as pages of tables, with a plot per group; takes a minute or two
EVAL_STATE := docs/evaluation/h200.csv.xz
FRONTIER := docs/evaluation/frontier.csv.xz
FRONTIER_DOC := docs/evaluation/frontier.md
FRONTIER_NOTE := 'H200s, driver 580, CUDA 13.0, 2026-11-28. Three pairs were swept at loads of 25, 50 and 75%: `bert` with `bert-b64`, `resnet34` with \
	`resnet152-train`, and `mobilenetv3` with `bert-b64`. Their round 1 has `detshare` and six fixed settings. Rounds 2 and 3, on two other H200s, have `detshare`, `native` and \
	`static` with a half of the SMs. Round 4 has `detshare` without an objective, `native`, and the four other fixed settings: at 25 and 50% on two H200s of one host, and at 75% on \
	four H200s of one host. The other pairs, and the loads of 5 and 10%, have three rounds with `detshare` and `native`. Round 1 is from the two H200s of round 4. It lacks 13 \
	settings, because the time there ended. Rounds 2 and 3 are from the four H200s and have all settings. Round 3 also has `orion`, `multistream` and `static` with a half of the SMs: at 5 and 10%, and \
	at 50% for `bert` and `mobilenetv3` beside `resnet152-train`. In round 1 of the three pairs at 75% the policy measured parts of the SMs (`policies/detshare/sharing.c`) less often than today.'
.PHONY: eval-tables worth frontier
eval-tables: ## the measurements on GPUs as pages of tables and plots, into docs/evaluation | 2 min
	tests/eval/analyse.py $(EVAL_STATE) --tables docs/evaluation --device 'H200s, driver 580.159, CUDA 13.0, 2026-11-23'
# Writes the table and the plots of these measurements that README.md and docs/evaluation.md show
worth: ## the table and the plots of them in README.md and docs/evaluation.md | 1 min
	tests/eval/worth.py --state $(FRONTIER)

# Writes the page of a sweep of fixed settings on a GPU: make frontier FRONTIER=FILE.csv
frontier: ## a sweep of fixed settings on a GPU (FRONTIER=FILE.csv) as a page, into docs/evaluation | 1 min
	tests/eval/frontier.py page --from $(FRONTIER) --doc $(FRONTIER_DOC) --command 'make frontier' --note $(FRONTIER_NOTE)

# Write the pictures of the documents, and the tables of parameters in docs/policies.md
.PHONY: pictures parameters
EBB := docs/pictures/ebb.csv
pictures: worth $(BUILD)/detshare-replay $(POLICIES) ## the pictures of the documents | 2 min
	docs/pictures/architecture.py
	docs/pictures/rule.py
	docs/pictures/ebb.py $(EBB)
	docs/pictures/policies.py --build $(BUILD)
parameters: $(POLICIES) ## the tables of parameters in docs/policies.md
	docs/parameters.py --build $(BUILD)

# A program of the evaluation that needs no PyTorch
EVAL_JOB := $(BUILD)/eval/job $(BUILD)/eval/job.ptx
$(BUILD)/eval/job.ptx: tests/eval/job.cu
	@mkdir -p $(@D)
	$(NVCC14) -arch=sm_75 -ptx -o $@ $<
$(BUILD)/obj/tests/eval/%.o: CPPFLAGS += -I$(CUDA_ROOT)/include
$(BUILD)/eval/job: $(BUILD)/obj/tests/eval/job.o | $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_STUB) -Wl,-rpath-link,$(BUILD)
e2e: $(EVAL_JOB)
.PHONY: eval-build # internal
eval-build: all $(EVAL_JOB)

# Lists the kernels of libraries that wait for other blocks: make sass-scan SM=90
# FILES=/usr/local/cuda/lib64/libcublas.so
SM ?= 90
$(BUILD)/bench/sass_scan: $(BUILD)/obj/tests/bench/sass_scan.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
.PHONY: sass-scan
sass-scan: $(BUILD)/bench/sass_scan ## which kernels of FILES= wait for other blocks (SM=90)
	@$< $(SM) $(FILES)

# Measures the speed at which PTX is parsed and printed, and whether time grows linearly with its size.
$(BUILD)/bench/bench_ptx: $(BUILD)/obj/tests/bench/bench_ptx.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)

# The last step runs model packs under policies, on a GPU if there is one. gemini is left out: its turns of 100 ms and
# more take a simulated GPU minutes.
BENCH_POLICIES := fifo,temporal,multistream,static,antman,tgs,reef,orion,tally,paella,krisp,sgdrc-static,sgdrc,detshare
.PHONY: bench
bench: deps ## cost of a request, of replaying, of reading PTX; packs under policies | 10 min
	@$(MAKE) --no-print-directory -s -j2 all $(BUILD)/bench/bench $(BUILD)/bench/bench_sim $(BUILD)/bench/bench_ptx $(BUILD)/e2e/death.ptx
	@$(BUILD)/bench/bench $(BUILD)
	@$(BUILD)/bench/bench_sim $(BUILD)
	@$(BUILD)/bench/bench_ptx $(BUILD)
	@$(WITH_TOOLKIT) tests/demo/demo.py packs --build $(BUILD) --policies $(BENCH_POLICIES) --json $(BUILD)/bench/packs.json

# Modules of 1, 100, 200 and 10,000 small kernels for tests/bench/first_times.py; compressed, since 16 MiB of code become
# 0.4 MiB. ptxas takes 40 s for the largest one.
FIRST_KERNELS := $(patsubst %,$(BUILD)/bench/first_%.fatbin,1 100 200 10000)
$(BUILD)/bench/first_%.fatbin: tests/bench/first_kernels.py
	@mkdir -p $(@D)
	PYTHONDONTWRITEBYTECODE=1 python3 $< $* >$@.ptx
	$(CUDA_ROOT)/bin/ptxas -arch=sm_90 -o $@.cubin $@.ptx
	$(CUDA_ROOT)/bin/fatbinary --64 --compress-all --create=$@ --image3=kind=elf,sm=90,file=$@.cubin
	@rm -f $@.ptx $@.cubin

# Benchmarks with Driver API programs, run natively and under DetShare. Their kernels lie beside them.
GPU_BENCH := $(addprefix $(BUILD)/bench/gpu_,calls figures first graph load kernels.fatbin kernels.cubin kernels.ptx globals.fatbin) $(FIRST_KERNELS)
$(BUILD)/bench/%.fatbin: tests/bench/%.cu
	@mkdir -p $(@D)
	$(NVCC) -fatbin -gencode arch=compute_90,code=sm_90 -gencode arch=compute_75,code=compute_75 -o $@ $<
$(BUILD)/bench/%.cubin: tests/bench/%.cu
	@mkdir -p $(@D)
	$(NVCC) -cubin -arch=sm_90 -o $@ $<
$(BUILD)/bench/%.ptx: tests/bench/%.cu
	@mkdir -p $(@D)
	$(NVCC) -ptx -arch=compute_75 -o $@ $<
$(BUILD)/obj/tests/bench/gpu_%.o: CPPFLAGS += -I$(CUDA_ROOT)/include
$(BUILD)/bench/gpu_%: $(BUILD)/obj/tests/bench/gpu_%.o | $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_STUB) -Wl,-rpath-link,$(BUILD)

# Writes docs/performance.md and its plots from the figures in docs/performance, and the section `eager` of README.md
.PHONY: performance-page
performance-page: ## docs/performance.md and its plots, from the figures in docs/performance
	tests/bench/performance.py

e2e: $(BUILD)/bench/gpu_first $(addprefix $(BUILD)/bench/gpu_,figures load kernels.fatbin kernels.cubin kernels.ptx)
$(BUILD)/bench/copy_sweep: $(BUILD)/obj/tests/bench/copy_sweep.o $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' -o $@ $< -L$(BUILD) -ldetshare-client
.PHONY: bench-gpu-build bench-gpu-run # internal
.PHONY: bench-gpu
bench-gpu-build: all $(GPU_BENCH) $(BUILD)/bench/copy_sweep $(BUILD)/tests/gpu/forms
bench-gpu-run: bench-gpu-build
	@status=0; $(WITH_TOOLKIT) tests/bench/gpu.sh $(BUILD) || status=$$?; \
		[ $$status = 3 ] || tests/bench/performance.py --from "$${BENCH_OUT:-$(BUILD)/bench/out}" || [ $$? = 3 ] || status=1; exit $$status
bench-gpu: deps ## the same natively and under DetShare; writes docs/performance.md | a GPU
	@$(MAKE) --no-print-directory -s -j2 bench-gpu-run

# --- on a GPU ---------------------------------------------------------------------------------------------------------
# The programs of this section need no package: only libc and files of the build.
SANDBOX := $(BUILD)/tests/gpu/sandbox
$(SANDBOX): $(BUILD)/obj/tests/gpu/sandbox.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^
GPU_TESTS := $(addprefix $(BUILD)/tests/gpu/,device_cuda faults idle sandbox) $(BUILD)/gpu/faults.ptx $(BUILD)/tests/policies/evictor.so
$(BUILD)/gpu/faults.ptx: tests/gpu/faults.cu
	@mkdir -p $(@D)
	$(NVCC14) -arch=sm_75 -ptx -o $@ $<
$(BUILD)/tests/gpu/device_cuda: $(BUILD)/obj/tests/gpu/device_cuda.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)
$(BUILD)/tests/gpu/faults: $(BUILD)/obj/tests/gpu/faults.o $(BUILD)/obj/tests/e2e/harness.o $(proto_obj) $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client -lprotobuf-c
$(BUILD)/obj/tests/gpu/idle.o: CPPFLAGS += -I$(CUDA_ROOT)/include
$(BUILD)/tests/gpu/idle: $(BUILD)/obj/tests/gpu/idle.o | $(LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_STUB) -Wl,-rpath-link,$(BUILD)

include tests/gpu/libs/libs.mk
.PHONY: test-gpu-run # internal
.PHONY: gpu-build
gpu-build: all kernels programs runtime runtime-static e2e interp-gpu demo-build gpu-libs $(GPU_TESTS) $(LATE_GIT) ## what `make test-gpu` runs, for tests/gpu/pack.sh | 10 min
test-gpu-run: gpu-build
	@$(WITH_TOOLKIT) tests/gpu/run.sh $(BUILD)
test-gpu: deps ## the tests on the GPU of this machine | a GPU; 15 min
	@$(MAKE) --no-print-directory -s -j2 test-gpu-run
