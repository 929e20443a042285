// SPDX-License-Identifier: Apache-2.0
// Memory that kernels allocate: lists that outlive a launch, and exhaustion of the heap.
#include <stdint.h>

struct node {
        node *next;
        uint64_t value;
};

extern "C" __global__ void heap_build(node **list, int n)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        node *head = nullptr;

        for (int k = 0; k < n; k++)
                head = new node{head, (uint64_t)i * 1000 + (uint64_t)k};
        list[i] = head;
}

extern "C" __global__ void heap_sum(node **list, uint64_t *out)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        uint64_t sum = 0;

        while (node *head = list[i]) {
                sum = sum * 3 + head->value;
                list[i] = head->next;
                delete head;
        }
        out[i] = sum;
}

// Allocates all of the heap; *out: whether the amount is plausible, and whether it can be allocated again after a free
extern "C" __global__ void heap_end(uint64_t *out)
{
        void **last = nullptr;
        uint64_t first = 0, second = 0;

        out[0] = malloc((size_t)1 << 40) == nullptr;
        while (void **p = (void **)malloc(65536)) {
                *p = last;
                last = p;
                first++;
        }
        while (last) {
                void **next = (void **)*last;

                free(last);
                last = next;
        }
        while (void **p = (void **)malloc(65536)) {
                *p = last;
                last = p;
                second++;
        }
        while (last) {
                void **next = (void **)*last;

                free(last);
                last = next;
        }
        free(nullptr);
        out[1] = first >= 64 && first <= 128;
        out[2] = second + 1 >= first; // blocks may start elsewhere
}

extern "C" __global__ void heap_twice(uint64_t *out)
{
        void *p = malloc(16);

        out[0] = (uint64_t)p;
        free(p);
        free(p);
}
