/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the program loads itself: kernels, variables, lists of them, missing names */
#include "runtime.h"

static const char ptx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 word = 5;
.visible .entry twice(.param .u64 p)
{
        .reg .b64 %a;
        .reg .b32 %x, %y;
        ld.param.u64 %a, [p];
        ld.global.u32 %x, [%a];
        ld.global.u32 %y, [word];
        mad.lo.u32 %x, %x, 2, %y;
        st.global.u32 [%a], %x;
        ret;
}
.visible .entry nothing()
{
        ret;
}
)";

static void use(cudaLibrary_t library)
{
        int *p = program_upload(std::vector<int>(1, 20)), v = 100;
        cudaKernel_t kernel = nullptr, all[3] = {};
        unsigned int count = 0;
        size_t bytes = 0;
        void *word = nullptr, *args[] = {&p};

        OK(cudaLibraryGetKernel(&kernel, library, "twice"));
        OK(cudaLaunchKernel((const void *)kernel, 1, 1, args, 0, 0));
        CHECK(program_download(p, 1)[0] == 45);
        OK(cudaLibraryGetGlobal(&word, &bytes, library, "word"));
        CHECK(bytes == 4 && word);
        OK(cudaMemcpy(word, &v, sizeof(v), cudaMemcpyHostToDevice));
        OK(cudaLaunchKernel((const void *)kernel, 1, 1, args, 0, 0));
        CHECK(program_download(p, 1)[0] == 190);
        OK(cudaLibraryGetKernelCount(&count, library));
        CHECK(count == 2);
        OK(cudaLibraryEnumerateKernels(all, 2, library));
        CHECK(all[0] && all[1] && all[0] != all[1] && (all[0] == kernel || all[1] == kernel));
        OK(cudaFree(p));
}

int main()
{
        cudaLibrary_t one, two;
        cudaKernel_t kernel;
        size_t bytes;
        void *p;

        MUST(cudaLibraryLoadData(&one, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
        MUST(cudaLibraryLoadData(&two, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
        use(one);
        use(two);
        EXPECT(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&kernel, one, "none"));
        EXPECT(cudaErrorSymbolNotFound, cudaLibraryGetGlobal(&p, &bytes, one, "none"));
        EXPECT(cudaErrorFileNotFound, cudaLibraryLoadFromFile(&one, "/nonexistent.cubin", nullptr, nullptr, 0, nullptr, nullptr, 0));
        cudaGetLastError();
        OK(cudaLibraryUnload(one));
        OK(cudaLibraryUnload(two));
        return program_end("libraries");
}
