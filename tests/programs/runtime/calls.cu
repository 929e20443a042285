/* SPDX-License-Identifier: Apache-2.0 */
/* Device code with calls: recursion, pointers to device functions, virtual functions, device memory from new and
 * malloc */
#include "runtime.h"

__device__ __noinline__ int fibonacci(int n)
{
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

typedef int (*Operation)(int, int);

__device__ int add(int a, int b)
{
        return a + b;
}

__device__ int multiply(int a, int b)
{
        return a * b;
}

__device__ Operation operations[2] = {add, multiply};

struct Shape {
        __device__ virtual ~Shape() {}
        __device__ virtual int area() const = 0;
};

struct Square : Shape {
        int side;
        __device__ explicit Square(int s) : side(s) {}
        __device__ int area() const override { return side * side; }
};

struct Box : Shape {
        int width, height;
        __device__ Box(int w, int h) : width(w), height(h) {}
        __device__ int area() const override { return width * height; }
};

__global__ void call(int *out)
{
        int t = threadIdx.x;
        Shape *shape;

        out[t * 4] = fibonacci(t % 10);
        out[t * 4 + 1] = operations[t % 2](t, 3);
        if (t % 3)
                shape = new Square(t);
        else
                shape = new Box(t, 2);
        out[t * 4 + 2] = shape->area();
        delete shape;
        int *memory = (int *)malloc(16 * sizeof(int));
        for (int i = 0; i < 16; i++)
                memory[i] = t + i;
        out[t * 4 + 3] = memory[t % 16];
        free(memory);
}

int main()
{
        static const int f[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
        bool good = true;
        int *p;

        MUST(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
        MUST(cudaMalloc(&p, 64 * 4 * sizeof(int)));
        LAUNCHED(call<<<1, 64>>>(p));
        std::vector<int> got = program_download(p, 64 * 4);
        for (int t = 0; t < 64; t++) {
                good = good && got[t * 4] == f[t % 10];
                good = good && got[t * 4 + 1] == (t % 2 ? t * 3 : t + 3);
                good = good && got[t * 4 + 2] == (t % 3 ? t * t : t * 2);
                good = good && got[t * 4 + 3] == t + t % 16;
        }
        CHECK(good);
        OK(cudaFree(p));
        return program_end("calls");
}
