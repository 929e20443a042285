/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: one address for host and device, which alternate with a wait between them */
#include "runtime.h"

struct node {
        node *next;
        int value;
};

__global__ void double_all(int *p, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] *= 2;
}

__global__ void walk(node *n, int *sum)
{
        for (; n; n = n->next) {
                *sum += n->value;
                n->value = -n->value;
        }
}

static void arrays()
{
        const int n = 3000;
        bool good = true;
        int *p;

        MUST(cudaMallocManaged(&p, n * sizeof(int)));
        for (int i = 0; i < n; i++)
                p[i] = i;
        for (int turn = 1; turn <= 3; turn++) {
                LAUNCHED(double_all<<<(n + 127) / 128, 128>>>(p, n));
                OK(cudaDeviceSynchronize());
                for (int i = 0; i < n; i++)
                        p[i] += 1;
        }
        for (int i = 0; i < n; i++)
                good = good && p[i] == i * 8 + 7;
        CHECK(good);
        OK(cudaMemset(p, 0, n * sizeof(int)));
        OK(cudaDeviceSynchronize());
        CHECK(p[0] == 0 && p[n - 1] == 0);
        OK(cudaFree(p));
}

/* Pointers inside of managed memory are valid on both sides. */
static void list()
{
        node *nodes;
        int *sum;

        MUST(cudaMallocManaged(&nodes, 10 * sizeof(node)));
        MUST(cudaMallocManaged(&sum, sizeof(int), cudaMemAttachGlobal));
        for (int i = 0; i < 10; i++)
                nodes[i] = {i < 9 ? &nodes[i + 1] : NULL, i + 1};
        *sum = 100;
        LAUNCHED(walk<<<1, 1>>>(nodes, sum));
        OK(cudaStreamSynchronize(0));
        CHECK(*sum == 155);
        CHECK(nodes[9].value == -10);
        OK(cudaFree(nodes));
        OK(cudaFree(sum));
}

static void asked()
{
        cudaPointerAttributes a;
        cudaMemLocation here = {};
        int concurrent = 0;
        char *p;

        MUST(cudaMallocManaged(&p, 1 << 16));
        OK(cudaPointerGetAttributes(&a, p + 10));
        CHECK(a.type == cudaMemoryTypeManaged && a.devicePointer == p + 10 && a.hostPointer == p + 10);
        OK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
        here.type = cudaMemLocationTypeDevice;
        /* prefetching needs a device that can access managed memory at the same time as the host */
        if (concurrent)
                OK(cudaMemPrefetchAsync(p, 1 << 16, here, 0, 0));
        OK(cudaDeviceSynchronize());
        OK(cudaFree(p));
        EXPECT(cudaErrorInvalidValue, cudaMallocManaged((void **)&p, 16, 0));
        EXPECT(cudaErrorInvalidValue, cudaMallocManaged((void **)&p, 16, 8));
}

int main()
{
        arrays();
        list();
        asked();
        return program_end("managed");
}
