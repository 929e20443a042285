/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that launch the same kernels again and again, far ahead of the GPU. Each result depends on the order of all
 * launches, and the host computes it, too.
 */
#include "program.h"

enum { LINES = 2, LAUNCHES = 2400 };

static const char step_text[] = ".version 7.0\n.target sm_60\n.address_size 64\n"
                                ".visible .entry step(.param .u64 p, .param .u32 v)\n{\n"
                                "        .reg .u64 %a;\n        .reg .u32 %x, %v;\n"
                                "        ld.param.u64 %a, [p];\n        ld.param.u32 %v, [v];\n"
                                "        ld.global.u32 %x, [%a];\n        mad.lo.u32 %x, %x, 3, %v;\n"
                                "        st.global.u32 [%a], %x;\n        ret;\n}\n";

/* A stream with the value that its launches make */
struct line {
        CUstream stream;
        CUdeviceptr word;
        uint32_t value;
};

static void step(CUfunction f, struct line *line, uint32_t v)
{
        void *params[] = {&line->word, &v};

        MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, line->stream, params, NULL));
        line->value = line->value * 3 + v;
}

static void check(const struct line *line)
{
        uint32_t value;

        MUST(cuMemcpyDtoHAsync(&value, line->word, sizeof(value), line->stream));
        MUST(cuStreamSynchronize(line->stream));
        CHECK(value == line->value);
}

/* Launches with arguments that return after `period` launches; `odd`: every so many launches one of another kind */
static void loop(CUfunction f, struct line *line, uint32_t period, uint32_t odd)
{
        for (uint32_t i = 0; i < LAUNCHES; i++) {
                if (odd && i % odd == odd - 1)
                        step(f, line, 1000 + i);
                step(f, line, i % period);
        }
}

static void loops(CUfunction f, struct line *lines)
{
        static const uint32_t periods[] = {1, 2, 7, 33, 90};

        for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
                loop(f, &lines[0], periods[i], 0);
                loop(f, &lines[1], periods[i], 777);
                check(&lines[0]);
                check(&lines[1]);
        }
}

/* Two streams whose loops alternate, with events between them */
static void together(CUfunction f, struct line *lines)
{
        CUevent event;

        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        for (int i = 0; i < LAUNCHES; i++) {
                step(f, &lines[0], 5);
                step(f, &lines[1], 6);
                if (i % 800 == 799) {
                        MUST(cuEventRecord(event, lines[0].stream));
                        MUST(cuStreamWaitEvent(lines[1].stream, event, 0));
                }
        }
        check(&lines[0]);
        check(&lines[1]);
        MUST(cuEventDestroy(event));
}

int main(int argc, char **argv)
{
        struct line lines[LINES] = {{0}};
        CUmodule module;
        CUfunction f;

        program_begin(argc, argv);
        program_context();
        for (int i = 0; i < LINES; i++) {
                MUST(cuStreamCreate(&lines[i].stream, CU_STREAM_NON_BLOCKING));
                MUST(cuMemAlloc(&lines[i].word, 4));
                MUST(cuMemsetD32(lines[i].word, 0, 1));
        }
        for (int round = 0; round < 2; round++) {
                MUST(cuModuleLoadData(&module, step_text));
                f = program_function(module, "step");
                loops(f, lines);
                together(f, lines);
                MUST(cuModuleUnload(module));
        }
        return program_end("repeats");
}
