// SPDX-License-Identifier: Apache-2.0
// Compiled as relocatable code: the loop is in the kernel; the function that reads memory is in its own section. Names
// as in waits.cu.
__device__ __noinline__ int ask(volatile int *p)
{
        return *p;
}

extern "C" __global__ void wait_asking(int *p)
{
        while (!ask(p))
                ;
        p[1] = 3;
}

extern "C" __global__ void run_asking_once(int *p)
{
        p[1] = ask(p);
}
