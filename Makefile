# SPDX-License-Identifier: Apache-2.0
#
# The one Makefile of DetShare. `make help` lists the targets.
#
# Sources are found by folder: every .c file of a layer goes into the daemon archive, except *main.c, which are
# programs. A new file needs no line here. Variants are built beside each other: `make BUILD=build/asan
# SAN=address,undefined`.

BUILD ?= build
SAN ?=
CC ?= gcc
OPT ?= -O2
DEBUG ?= $(if $(SAN),-g1,-g)
PREFIX ?= /usr
SYSCONFDIR ?= /etc
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib/$(shell $(CC) -print-multiarch 2>/dev/null)
# Programs find the client library relative to their own path. A package says no: its libraries lie where the system
# looks.
RPATHS ?= yes
rpath = $(if $(filter yes,$(RPATHS)),-Wl$(comma)-rpath$(comma)'$(1)')
comma := ,

CUDA_INC := $(firstword $(wildcard $(addsuffix /include/cuda.h,$(CUDA_HOME) /usr/local/cuda build/cuda-toolkit/nvidia/cu13)))
CUDA_ROOT := $(patsubst %/include/cuda.h,%,$(CUDA_INC))
NVCC := $(CUDA_ROOT)/bin/nvcc

VERSION := $(shell cat VERSION)
WARN := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wpointer-arith -Wundef -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DDETSHARE_VERSION='"$(VERSION)"' -Idaemon -I. -Iclient-lib -Iclient-lib/include -I$(BUILD)/gen
CFLAGS += -std=gnu11 $(DEBUG) $(OPT) $(WARN) -fPIC -fvisibility=hidden -fno-strict-aliasing -pthread
LDFLAGS += -pthread -Wl,-z,relro,-z,now
ifneq ($(SAN),)
# Instrumentation takes information from gcc's analysis: its guesses about variables and lengths are no errors here.
CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-error=maybe-uninitialized \
	-Wno-error=format-truncation
LDFLAGS += -fsanitize=$(SAN)
# Linked into every program of a sanitized build: it delivers the reports, and commits the defects that prove the
# gate.
GATE_O := $(BUILD)/obj/tests/gate/sanitized.o
endif
# `make coverage` builds programs that count executed lines.
ifneq ($(COVERAGE),)
CFLAGS += --coverage -fprofile-update=atomic -Wno-error
LDFLAGS += --coverage
GATE_O := $(BUILD)/obj/tests/gate/coverage.o
endif

# --- layers, lowest first -------------------------------------------------------------------------------------------
LAYERS := util image ptx ptx/pass ptx/interp ptx/tool device device/sim device/cuda sched replay worker helper supervisor
daemon_src := $(filter-out %main.c,$(foreach l,$(LAYERS),$(wildcard daemon/$(l)/*.c)) $(wildcard lut/*.c lut/learn/*.c lut/probe/*.c lut/tool/*.c))
core_src := $(wildcard client-lib/core/*.c)
cudaface_src := $(wildcard client-lib/cuda/*.c)
cudart_src := $(wildcard client-lib/cudart/*.c)
cudart_twice := $(wildcard client-lib/cudart/streamed/*.c)
ctl_src := $(wildcard client-lib/ctl/*.c)
# A policy is one file policies/NAME.c, or all files of a folder policies/NAME/.
policy_src := $(wildcard policies/*.c)
policy_dirs := $(patsubst policies/%/,%,$(sort $(dir $(wildcard policies/*/*.c))))
proto_names := $(basename $(notdir $(wildcard proto/*.proto)))
proto_src := $(proto_names:%=$(BUILD)/gen/%.pb-c.c)
proto_hdr := $(proto_names:%=$(BUILD)/gen/%.pb-c.h)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(patsubst $(BUILD)/%,%,$(1)))
daemon_obj := $(call obj,$(daemon_src))
proto_obj := $(proto_names:%=$(BUILD)/obj/gen/%.pb-c.o)
core_obj := $(call obj,$(core_src))
cudaface_obj := $(call obj,$(cudaface_src))
cudart_obj := $(call obj,$(cudart_src) $(cudart_twice)) $(cudart_twice:%.c=$(BUILD)/obj/%.perthread.o)
# detsharectl contains the probe of memory channels and the reader of their tables, which need little of the daemon.
ctl_obj := $(call obj,$(ctl_src) lut/table.c lut/match.c lut/sectors.c $(filter-out lut/probe/bench_open.c lut/probe/paper.c,$(wildcard lut/probe/*.c)) \
	$(addprefix daemon/util/,alloc.c error.c fd.c log.c sha256.c text.c))

DAEMON_A := $(BUILD)/libdetshare-daemon.a
DAEMON_LIBS := -luv -lprotobuf-c -lzstd -llz4 -lxxhash -linih -ldl -lm
# Libraries of the supervisor only.
SUPERVISOR_LIBS := -Wl,--as-needed -lsystemd -lsqlite3

PROGRAMS := $(BUILD)/detshared $(BUILD)/libexec/detshare-worker $(BUILD)/libexec/detshare-helper $(BUILD)/detsharectl \
	$(BUILD)/detshare-ptx $(BUILD)/detshare-replay $(BUILD)/detshare-lut $(BUILD)/detshare-serve
LIBRARIES := $(BUILD)/libdetshare-client.so $(BUILD)/cuda/libcuda.so.1 $(BUILD)/cuda/libcudart.so.13
POLICIES := $(policy_src:policies/%.c=$(BUILD)/policies/%.so) $(policy_dirs:%=$(BUILD)/policies/%.so)

# A recipe that fails leaves no partial target behind.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all
.PHONY: all help
all: $(PROGRAMS) $(LIBRARIES) $(POLICIES) ## programs, libraries and policies into build/ (plain `make`) | 2 min

# A target's line in the table of `make help` is the text after `##`: `## text | time or need`. tests/tree/help.sh
# requires one for every .PHONY target, or `# internal` at the end of its .PHONY line.
help: ## this table
	@awk -f .ci/help.awk $(filter %Makefile %.mk,$(MAKEFILE_LIST))

# --- generated protocol code ------------------------------------------------------------------------------------------
$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h: proto/%.proto $(wildcard proto/*.proto)
	@mkdir -p $(BUILD)/gen
	protoc-c -Iproto --c_out=$(BUILD)/gen proto/$*.proto

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c | $(proto_hdr)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-error -Wno-shadow -Wno-missing-prototypes -c -o $@ $<

# --- objects ----------------------------------------------------------------------------------------------------------
$(BUILD)/obj/%.o: %.c | $(proto_hdr)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(notdir $(basename $<))) -MMD -MP -c -o $@ $<

# Names, lookup table and per-thread entries of libcuda.so.1, from the toolkit's headers.
cudaface_gen := $(addprefix $(BUILD)/gen/cuda/cuda_,stubs.c perthread.c procs.c jumps.S rename.txt names.h)
cudaface_obj += $(patsubst $(BUILD)/gen/%.c,$(BUILD)/obj/gen/%.o,$(filter %.c,$(cudaface_gen)))
$(cudaface_gen) &: client-lib/cuda/gen/generate.py $(CUDA_INC)
	python3 client-lib/cuda/gen/generate.py "$(CC)" $(CUDA_ROOT)/include $(BUILD)/gen/cuda
$(cudaface_obj): CPPFLAGS += -I$(CUDA_ROOT)/include

# Names of libcudart.so.13, from the toolkit's library. Functions that use the default stream are compiled twice: for
# the legacy one and for the per-thread one.
CUDART := $(firstword $(wildcard $(addsuffix /libcudart.so.13,$(CUDA_ROOT)/lib64 $(CUDA_ROOT)/lib)))
cudart_gen := $(BUILD)/gen/cudart/cudart_stubs.c
cudart_obj += $(BUILD)/obj/gen/cudart/cudart_stubs.o
$(cudart_gen): client-lib/cudart/gen/generate.py $(CUDART)
	python3 client-lib/cudart/gen/generate.py $(CUDART) $(BUILD)/gen/cudart
$(BUILD)/obj/%.perthread.o: %.c | $(proto_hdr)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM -MMD -MP -c -o $@ $<
$(cudart_obj): CPPFLAGS += -I$(CUDA_ROOT)/include
# The cuda device calls the driver through the toolkit's headers. It links no part of the toolkit.
$(BUILD)/obj/daemon/device/cuda/%.o: CPPFLAGS += -I$(CUDA_ROOT)/include
# The kernel of the cuda device: machine code if nvcc exists, because compiling text costs each start 80 ms; otherwise
# text.
$(BUILD)/gen/cuda_gpcs.h: daemon/device/cuda/gpcs.ptx
	@mkdir -p $(@D)
	if [ -x "$(NVCC)" ]; then $(NVCC) -gencode 'arch=compute_90,code=[sm_90,compute_90]' -fatbin -o $@.image $<; \
		else cp $< $@.image; fi
	{ od -An -v -tx1 $@.image | sed 's/ \([0-9a-f]*\)/0x\1,/g'; echo 0; } >$@.new && mv $@.new $@
$(BUILD)/obj/daemon/device/cuda/gpcs.o: $(BUILD)/gen/cuda_gpcs.h
# The simulated GPU spends its time in the interpreter's lane loops. These options vectorise them: as fast as gcc's
# -O3, at two thirds of its compile time. Coverage counts without locks here, which would multiply the time.
LANES := $(if $(findstring clang,$(CC)),-O3,-O2 -fvect-cost-model=dynamic)
$(BUILD)/obj/daemon/ptx/interp/%.o: CFLAGS += $(if $(SAN),,$(if $(COVERAGE),-O1 -fprofile-update=single,$(LANES))) -fno-math-errno -ffp-contract=off

$(DAEMON_A): $(daemon_obj) $(proto_obj)
	@rm -f $@
	$(AR) rcs $@ $^

# --- programs ---------------------------------------------------------------------------------------------------------
$(PROGRAMS): $(GATE_O)
$(BUILD)/detshared: $(BUILD)/obj/daemon/supervisor/main.o $(DAEMON_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS) $(SUPERVISOR_LIBS)
$(BUILD)/libexec/detshare-worker: $(BUILD)/obj/daemon/worker/main.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)
$(BUILD)/libexec/detshare-helper: $(BUILD)/obj/daemon/helper/main.o $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
$(BUILD)/detshare-ptx: $(BUILD)/obj/daemon/ptx/tool/main.o $(DAEMON_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)
$(BUILD)/detshare-replay: $(BUILD)/obj/daemon/replay/main.o $(DAEMON_A)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)
$(BUILD)/detshare-lut: $(BUILD)/obj/lut/tool/main.o $(DAEMON_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)

$(BUILD)/libdetshare-client.so: $(core_obj) $(proto_obj) client-lib/core/libdetshare-client.sym
	$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,-soname,libdetshare-client.so.0 -Wl,--version-script=client-lib/core/libdetshare-client.sym \
		-Wl,-z,nodelete -Wl,--exclude-libs,ALL -o $@ $(core_obj) $(proto_obj) -Wl,-Bstatic -lprotobuf-c -Wl,-Bdynamic
	ln -sf libdetshare-client.so $@.0
# The exported symbols of libcuda.so.1 are jumps to its own functions. objcopy renames these functions for that.
cudaface_procs := $(BUILD)/obj/gen/cuda/cuda_procs.o
$(BUILD)/obj/gen/cuda/face.o: $(filter-out $(cudaface_procs),$(cudaface_obj)) | $(cudaface_gen)
	$(CC) -nostdlib -r -o $@.all $(filter-out $(cudaface_procs),$(cudaface_obj))
	objcopy --redefine-syms=$(BUILD)/gen/cuda/cuda_rename.txt $@.all $@
	@rm -f $@.all
$(BUILD)/obj/gen/cuda/jumps.o: | $(cudaface_gen)
	$(CC) -c -fPIC -o $@ $(BUILD)/gen/cuda/cuda_jumps.S
$(BUILD)/cuda/libcuda.so.1: $(addprefix $(BUILD)/obj/gen/cuda/,face.o jumps.o) $(cudaface_procs) client-lib/cuda/libcuda.sym $(BUILD)/libdetshare-client.so
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-soname,libcuda.so.1 -Wl,--version-script=client-lib/cuda/libcuda.sym \
		$(call rpath,$$ORIGIN/..) -o $@ $(filter %.o,$^) -L$(BUILD) -ldetshare-client
	ln -sf libcuda.so.1 $(@D)/libcuda.so
# libcudart.so.13 always lies beside libcuda.so.1, and programs often find it without LD_LIBRARY_PATH.
$(BUILD)/cuda/libcudart.so.13: $(cudart_obj) client-lib/cudart/libcudart.sym $(BUILD)/cuda/libcuda.so.1
	$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-soname,libcudart.so.13 \
		-Wl,--version-script=client-lib/cudart/libcudart.sym -Wl,-rpath,'$$ORIGIN' -o $@ $(cudart_obj) \
		-L$(@D) -lcuda -Wl,-rpath-link,$(BUILD)
	ln -sf libcudart.so.13 $(@D)/libcudart.so
$(BUILD)/detsharectl: $(ctl_obj) $(BUILD)/libdetshare-client.so
	$(CC) $(LDFLAGS) $(call rpath,$$ORIGIN:$$ORIGIN/..$(LIBDIR:$(PREFIX)%=%)) -o $@ $(ctl_obj) $(GATE_O) -L$(BUILD) -ldetshare-client -lsmartcols -lm -lstdc++
# The daemon refuses policies that others may write. The mode does not depend on the umask of the build.
$(POLICIES):
	@install -d -m 755 $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ $^
	@chmod go-w $@
$(policy_src:policies/%.c=$(BUILD)/policies/%.so): $(BUILD)/policies/%.so: $(BUILD)/obj/policies/%.o
$(foreach name,$(policy_dirs),$(eval $(BUILD)/policies/$(name).so: $(call obj,$(wildcard policies/$(name)/*.c))))

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

include serve/serve.mk
include lut/probe/probe.mk
include offline/offline.mk
include tests/tests.mk
include examples/examples.mk

# --- manual pages, units ------------------------------------------------------------------------------------------------
MAN := $(patsubst docs/man/%.scd,$(BUILD)/man/%,$(wildcard docs/man/*.scd))
# UNITS_IN contain paths of programs, which `make install` fills in. The socket unit contains none.
UNITS_IN := detshared.service detshare-devices.service
UNITS := $(UNITS_IN) detshared.socket
UNIT_DIR = $(DESTDIR)$(PREFIX)/lib/systemd/system
# The installed documents keep the layout of the tree, README.md beside docs/, so their links stay valid.
DOCUMENTS := $(wildcard README.md SECURITY.md CHANGELOG.md) $(shell find docs -name '*.md' -o -name '*.svg')
DOC_DIR = $(DESTDIR)$(PREFIX)/share/doc/detshare
PC_FILES := client-lib/detshare.pc.in policies/detshare-policy.pc.in
PC_DIR = $(DESTDIR)$(LIBDIR)/pkgconfig
# detshare-pack looks for its module beside the file to which the link in bin/ points.
PACK_DIR = $(DESTDIR)$(PREFIX)/share/detshare/offline
.PHONY: man
man: $(MAN) ## manual pages into build/man | scdoc
$(BUILD)/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	scdoc <$< >$@.new && mv $@.new $@

# places in which the shells look for completions
COMPLETIONS := bash-completion/completions/detsharectl zsh/vendor-completions/_detsharectl fish/vendor_completions.d/detsharectl.fish
.PHONY: deps lint install uninstall clean
deps: ## install what the build and the tests need and this machine lacks | root or sudo, if a package is missing
	.ci/deps.sh

lint: ## two compilers' warnings as errors, cppcheck, clang-format, direction of includes | 5 min
	.ci/lint.sh

# detshared finds the worker, the helper and the policies relative to its own path, so a staged tree works in place.
install: all man ## into DESTDIR, PREFIX (/usr), LIBDIR, SYSCONFDIR (/etc) | root, unless DESTDIR is yours
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/detshare \
		$(DESTDIR)$(LIBDIR)/detshare/policies $(DESTDIR)$(PREFIX)/include/detshare
	install $(BUILD)/detshared $(DESTDIR)$(PREFIX)/sbin/
	install $(BUILD)/detsharectl $(BUILD)/detshare-ptx $(BUILD)/detshare-replay $(BUILD)/detshare-lut $(BUILD)/detshare-serve \
		$(DESTDIR)$(PREFIX)/bin/
	install $(BUILD)/libexec/detshare-worker $(BUILD)/libexec/detshare-helper $(DESTDIR)$(PREFIX)/libexec/detshare/
	install -m 644 $(BUILD)/libdetshare-client.so $(DESTDIR)$(LIBDIR)/libdetshare-client.so.0.$(VERSION)
	ln -sf libdetshare-client.so.0.$(VERSION) $(DESTDIR)$(LIBDIR)/libdetshare-client.so.0
	ln -sf libdetshare-client.so.0 $(DESTDIR)$(LIBDIR)/libdetshare-client.so
	install -m 644 $(BUILD)/cuda/libcuda.so.1 $(DESTDIR)$(LIBDIR)/detshare/
	ln -sf libcuda.so.1 $(DESTDIR)$(LIBDIR)/detshare/libcuda.so
	install -m 644 $(BUILD)/cuda/libcudart.so.13 $(DESTDIR)$(LIBDIR)/detshare/
	ln -sf libcudart.so.13 $(DESTDIR)$(LIBDIR)/detshare/libcudart.so
	install -m 644 $(POLICIES) $(DESTDIR)$(LIBDIR)/detshare/policies/
	install -d $(DESTDIR)$(PREFIX)/share/detshare/lut
	install -m 644 $(wildcard lut/tables/*.lut) $(DESTDIR)$(PREFIX)/share/detshare/lut/
	install -m 644 client-lib/include/detshare/detshare.h client-lib/include/detshare/coloured.h policies/detshare_policy.h $(DESTDIR)$(PREFIX)/include/detshare/
	install -d $(PC_DIR)
	for pc in $(PC_FILES); do \
		to=$${pc##*/} && sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|; s|@VERSION@|$(VERSION)|' \
			$$pc >$(PC_DIR)/$${to%.in} && chmod 644 $(PC_DIR)/$${to%.in} || exit; done
	for document in $(DOCUMENTS); do install -D -m 644 $$document $(DOC_DIR)/$$document || exit; done
	install -d $(PACK_DIR)/detpack
	install -m 755 offline/detshare-pack $(PACK_DIR)/
	install -m 644 offline/requirements.txt $(PACK_DIR)/
	install -m 644 $(wildcard offline/detpack/*.py) $(PACK_DIR)/detpack/
	ln -sf ../share/detshare/offline/detshare-pack $(DESTDIR)$(PREFIX)/bin/
	install -d $(addprefix $(DESTDIR)$(PREFIX)/lib/,systemd/system sysusers.d tmpfiles.d) $(DESTDIR)$(SYSCONFDIR)/detshare/conf.d
	install -m 755 systemd/detshare-devices.sh $(DESTDIR)$(PREFIX)/libexec/detshare/detshare-devices
	for unit in $(UNITS_IN); do \
		sed 's|@PREFIX@|$(PREFIX)|g' systemd/$$unit.in >$(UNIT_DIR)/$$unit && chmod 644 $(UNIT_DIR)/$$unit || exit; done
	install -m 644 systemd/detshared.socket $(UNIT_DIR)/
	install -m 644 systemd/sysusers.d/detshare.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/
	install -m 644 systemd/tmpfiles.d/detshare.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/
	[ -e $(DESTDIR)$(SYSCONFDIR)/detshare/detshared.conf ] || \
		install -m 644 systemd/detshared.conf $(DESTDIR)$(SYSCONFDIR)/detshare/
	for file in $(COMPLETIONS); do \
		mkdir -p $(DESTDIR)$(PREFIX)/share/$${file%/*} && LD_LIBRARY_PATH=$(BUILD) $(BUILD)/detsharectl completion \
			$$(echo $$file | sed 's/[-/].*//') >$(DESTDIR)$(PREFIX)/share/$$file || exit; done
	for page in $(MAN); do \
		install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}; done

# Removes every installed file except the configuration.
uninstall: ## remove what `make install` has put there; the configuration stays | as install
	rm -f $(addprefix $(UNIT_DIR)/,$(UNITS))
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/detshare.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/detshare.conf
	rm -f $(DESTDIR)$(PREFIX)/sbin/detshared $(addprefix $(DESTDIR)$(PREFIX)/bin/,detsharectl detshare-ptx detshare-replay detshare-lut detshare-serve)
	rm -f $(DESTDIR)$(LIBDIR)/libdetshare-client.so*
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/,$(COMPLETIONS))
	rm -f $(foreach p,$(notdir $(MAN)),$(DESTDIR)$(PREFIX)/share/man/man$(lastword $(subst ., ,$(p)))/$(p))
	rm -f $(addprefix $(PC_DIR)/,detshare.pc detshare-policy.pc) $(DESTDIR)$(PREFIX)/bin/detshare-pack
	rm -rf $(DOC_DIR) $(PACK_DIR) $(DESTDIR)$(PREFIX)/libexec/detshare $(DESTDIR)$(PREFIX)/share/detshare/lut $(DESTDIR)$(LIBDIR)/detshare $(DESTDIR)$(PREFIX)/include/detshare

# Debian packages in build/deb, checked by lintian. Installs the packages that building them needs.
.PHONY: deb-run # internal
.PHONY: deb
deb: ## Debian packages into build/deb, checked by lintian | 3 min; root or sudo, if a package is missing
	.ci/deps.sh debhelper dpkg-dev lintian fakeroot
	@$(MAKE) --no-print-directory deb-run
deb-run:
	systemd/build-deb.sh $(BUILD) $(CUDA_ROOT)

clean: ## remove build/
	rm -rf $(BUILD)
