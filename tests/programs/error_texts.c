/* SPDX-License-Identifier: Apache-2.0 */
/* Prints names and texts of all error codes: equal under NVIDIA's driver and under DetShare */
#include "program.h"

int main(int argc, char **argv)
{
        const char *name, *text;

        program_begin(argc, argv);
        for (int code = 0; code < 1100; code++) {
                CUresult r = cuGetErrorName((CUresult)code, &name);

                EXPECT(r, cuGetErrorString((CUresult)code, &text));
                CHECK((r == CUDA_SUCCESS) == (name != NULL) && (name != NULL) == (text != NULL));
                if (r == CUDA_SUCCESS)
                        printf("%d %s: %s\n", code, name, text);
        }
        return program_end("error_texts");
}
