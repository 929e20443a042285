# SPDX-License-Identifier: Apache-2.0
#
# Fuzzing: every tests/fuzz/fuzz_NAME.c is one target, tests/fuzz/corpus/NAME its corpus, tests/fuzz/NAME.dict its
# words.
#
#   make fuzz SECONDS=60       every target for that long under libFuzzer, with address and undefined-behaviour sanitizers
#   make fuzz-afl SECONDS=60   the same targets under AFL++, which this installs
#   make fuzz-coverage         lines of the parsers that the corpus reaches
#
# `make test` runs the corpus through the sanitized targets (tests/fuzz/replay.sh). FUZZ=NAME,NAME... leaves these
# targets out.

SECONDS ?= 60
FUZZ ?=
# Object with the main function of the targets; empty if -fsanitize=fuzzer brings its own.
FUZZ_MAIN ?= $(BUILD)/obj/tests/fuzz/replay_main.o
FUZZ_ENGINE ?=
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
fuzz_bin := $(fuzz_src:tests/fuzz/%.c=$(BUILD)/tests/fuzz/%)
# The shim lets fuzz targets use worker_harness.h without Criterion.
$(BUILD)/obj/tests/fuzz/%.o: CPPFLAGS := -Itests/fuzz/shim $(CPPFLAGS)

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $(DAEMON_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(FUZZ_ENGINE) -rdynamic -o $@ $^ $(DAEMON_LIBS) $(SUPERVISOR_LIBS)

# The client core is linked into one target, and the target itself answers the core's system calls.
fuzz_wrap := socket connect setsockopt poll clock_gettime nanosleep clock_nanosleep syscall sendmsg recvmsg fwrite
$(BUILD)/tests/fuzz/fuzz_reply: $(BUILD)/obj/tests/fuzz/fuzz_reply.o $(FUZZ_MAIN) $(core_obj) $(BUILD)/obj/daemon/util/log.o $(BUILD)/obj/daemon/util/text.o $(proto_obj)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(FUZZ_ENGINE) $(fuzz_wrap:%=-Wl,--wrap=%) -o $@ $^ -lprotobuf-c

.PHONY: fuzz-targets # internal
.PHONY: fuzz fuzz-afl fuzz-coverage
fuzz-targets: $(fuzz_bin)
# In a sanitized build the fuzz targets belong to the tests.
ifneq ($(SAN),)
unit: fuzz-targets
endif

# Instrumented code causes warnings that plain code does not. `make lint` checks the plain build.
fuzz_build = $(MAKE) --no-print-directory -s -j2 BUILD=$(1) OPT=-O1 WARN=-Wno-unknown-warning-option FUZZ_MAIN= \
	FUZZ_ENGINE=-fsanitize=fuzzer
fuzz: deps ## libFuzzer on every parser, each for SECONDS=60 (FUZZ=NAME,...) | 15 min
	@$(call fuzz_build,$(BUILD)/fuzz) CC=clang SAN=fuzzer-no-link,address,undefined fuzz-targets
	@tests/fuzz/run.sh $(BUILD)/fuzz $(SECONDS) $(FUZZ)

fuzz-afl: deps ## the same targets under AFL++, which this installs | root or sudo, if it is missing
	@tests/fuzz/afl.sh deps
	@AFL_QUIET=1 $(call fuzz_build,$(BUILD)/fuzz-afl) CC=afl-clang-fast SAN=address,undefined fuzz-targets
	@tests/fuzz/afl.sh $(BUILD)/fuzz-afl $(SECONDS) $(FUZZ)

fuzz-coverage: deps ## which lines of the parsers the corpus reaches | 3 min
	@$(MAKE) --no-print-directory -s -j2 BUILD=$(BUILD)/fuzz-coverage CC='clang -fprofile-instr-generate -fcoverage-mapping' \
		OPT=-O1 WARN=-Wno-unknown-warning-option fuzz-targets
	@tests/fuzz/coverage.sh $(BUILD)/fuzz-coverage
