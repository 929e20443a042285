# SPDX-License-Identifier: Apache-2.0
# Programs that use NVIDIA's libraries: they link the static runtime and the shared libraries of this machine.
# tests/tests.mk includes this file. A toolkit that lacks a library's header (compilers only) builds none of its
# programs.
LIBS_DIRS := $(wildcard $(CUDA_ROOT)/lib64 $(CUDA_ROOT)/lib)
LIBS_OF_blas := cublas
LIBS_OF_blaslt := cublasLt
LIBS_OF_dnn := cudnn
LIBS_OF_rand := curand
LIBS_OF_sparse := cusparse
LIBS_OF_solver := cusolver
LIBS_OF_nvrtc := nvrtc
LIBS_OF_jitlink := nvJitLink nvrtc
LIBS_OF_fft := cufft
LIBS_OF_nccl := nccl
# Programs whose libraries exist on this machine, so that they can be linked.
libs_has = $(foreach l,$(LIBS_OF_$(1)),$(if $(wildcard $(addsuffix /lib$(l).so,$(LIBS_DIRS))),,no))
LIBS_NAMES := $(foreach n,blas blaslt dnn rand sparse solver nvrtc jitlink fft nccl,$(if $(strip $(call libs_has,$(n))),,$(n)))
LIBS_STATIC := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(LIBS_DIRS))))
LIBS_PROGRAMS := $(if $(LIBS_STATIC),$(LIBS_NAMES:%=$(BUILD)/gpu/libs/%))

# Warnings in NVIDIA's headers are not errors.
$(BUILD)/obj/tests/gpu/libs/%.o: CPPFLAGS += -isystem $(CUDA_ROOT)/include
$(LIBS_PROGRAMS): $(BUILD)/gpu/libs/%: $(BUILD)/obj/tests/gpu/libs/%.o $(BUILD)/obj/tests/gpu/libs/libs.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,--as-needed -o $@ $^ $(addprefix -L,$(LIBS_DIRS)) $(addprefix -Wl$(comma)-rpath-link$(comma),$(LIBS_DIRS)) \
		$(addprefix -l,$(LIBS_OF_$*)) $(LIBS_STATIC) $(CUDA_STUB) -ldl -lrt -lpthread -lm -lstdc++

.PHONY: gpu-libs # internal
gpu-libs: $(LIBS_PROGRAMS)
