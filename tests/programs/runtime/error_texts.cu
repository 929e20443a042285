/* SPDX-License-Identifier: Apache-2.0 */
/* Prints names and texts of all error codes: equal under NVIDIA's runtime and under DetShare's */
#include "runtime.h"

int main()
{
        for (int code = 0; code < 1100; code++) {
                const char *name = cudaGetErrorName((cudaError_t)code), *text = cudaGetErrorString((cudaError_t)code);

                CHECK(name && text);
                if (strcmp(name, "unrecognized error code") != 0 || strcmp(text, name) != 0)
                        printf("%d %s: %s\n", code, name, text);
        }
        return program_end("error_texts");
}
