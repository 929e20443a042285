// SPDX-License-Identifier: Apache-2.0
// Compiled as relocatable code: functions are in sections of their own. Names as in waits.cu.
#include <stdio.h>

__device__ __noinline__ void wait_for(volatile int *p)
{
        while (!*p)
                ;
}

extern "C" __global__ void wait_linked(int *p)
{
        wait_for(p);
        p[1] = 3;
}

extern "C" __global__ void run_linked(int *p)
{
        p[1] = 3;
}
