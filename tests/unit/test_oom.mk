# SPDX-License-Identifier: Apache-2.0
#
# Programs in which allocations fail: calls from their own objects go through tests/unit/fail_alloc.h. The flags are
# private, because prerequisites are linked without them.

OOM_WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
$(BUILD)/tests/unit/test_oom_supervisor: private LDFLAGS += $(OOM_WRAP)
$(BUILD)/tests/unit/test_oom_reload: private LDFLAGS += $(OOM_WRAP),--wrap=fdopen,--wrap=scandirat,--wrap=getpwnam

# The parts of the client library, and the code that unpacks its replies, are linked into the program, so that their
# allocations can fail.
CFLAGS_test_oom_client := -I$(CUDA_ROOT)/include
$(BUILD)/tests/unit/test_oom_client: $(BUILD)/obj/tests/unit/test_oom_client.o $(support_obj) $(proto_obj) $(core_obj) $(cudaface_obj)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(OOM_WRAP),--wrap=strdup,--wrap=reallocarray,--wrap=pthread_atfork -rdynamic -o $@ $^ \
		-Wl,-Bstatic -lprotobuf-c -Wl,-Bdynamic -lcriterion
