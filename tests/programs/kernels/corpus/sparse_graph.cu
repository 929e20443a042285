/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: sparse matrices in the usual formats, and graphs as adjacency lists. */
// targets: sm_75
#include <climits>
#include <cstdint>

extern "C" __global__ void sp_csr_scalar(
        const int *rows, const int *columns, const float *values, const float *x, float *y, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (i >= n)
                return;
        for (int k = rows[i]; k < rows[i + 1]; k++)
                sum += values[k] * __ldg(&x[columns[k]]);
        y[i] = sum;
}

extern "C" __global__ void sp_csr_vector(
        const int *rows, const int *columns, const float *values, const float *x, float *y, int n)
{
        int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
        float sum = 0;

        if (i >= n)
                return;
        for (int k = rows[i] + lane; k < rows[i + 1]; k += 32)
                sum += values[k] * x[columns[k]];
        for (int step = 16; step; step /= 2)
                sum += __shfl_xor_sync(~0u, sum, step);
        if (lane == 0)
                y[i] = sum;
}

extern "C" __global__ void sp_ell(
        const int *columns, const double *values, const double *x, double *y, int n, int width)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        double sum = 0;

        if (i >= n)
                return;
        for (int k = 0; k < width && columns[k * n + i] >= 0; k++)
                sum += values[k * n + i] * x[columns[k * n + i]];
        y[i] = sum;
}

extern "C" __global__ void sp_coo_atomic(
        const int *row, const int *column, const float *value, const float *x, float *y, int n)
{
        for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
                atomicAdd(&y[row[k]], value[k] * x[column[k]]);
}

extern "C" __global__ void sp_dia(
        const int *offsets, const float *values, const float *x, float *y, int n, int diagonals)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (i >= n)
                return;
        for (int d = 0; d < diagonals; d++) {
                int j = i + offsets[d];

                if ((unsigned)j < (unsigned)n)
                        sum += values[d * n + i] * x[j];
        }
        y[i] = sum;
}

extern "C" __global__ void sp_bsr4(
        const int *rows, const int *columns, const float4 *blocks, const float4 *x, float4 *y)
{
        int i = blockIdx.x, r = threadIdx.x;
        float sum = 0;

        for (int k = rows[i]; k < rows[i + 1]; k++) {
                float4 a = blocks[k * 4 + r], v = x[columns[k]];

                sum += a.x * v.x + a.y * v.y + a.z * v.z + a.w * v.w;
        }
        ((float *)&y[i])[r] = sum;
}

extern "C" __global__ void sp_to_dense(
        const int *rows, const int *columns, const float *values, float *dense, int width)
{
        for (int k = rows[blockIdx.x] + threadIdx.x; k < rows[blockIdx.x + 1]; k += blockDim.x)
                dense[(size_t)blockIdx.x * width + columns[k]] = values[k];
}

extern "C" __global__ void sp_count_nonzero(const float *dense, int *counts, int width)
{
        int n = 0;

        for (int j = threadIdx.x; j < width; j += blockDim.x)
                n += __syncthreads_count(dense[blockIdx.x * width + j] != 0.0f) * (threadIdx.x == 0);
        if (threadIdx.x == 0)
                counts[blockIdx.x] = n;
}

extern "C" __global__ void graph_bfs(const int *first, const int *next, int *level, int current, int *changed, int n)
{
        int v = blockIdx.x * blockDim.x + threadIdx.x;

        if (v >= n || level[v] != current)
                return;
        for (int k = first[v]; k < first[v + 1]; k++) {
                if (atomicCAS(&level[next[k]], -1, current + 1) == -1)
                        *changed = 1;
        }
}

extern "C" __global__ void graph_bfs_queue(
        const int *first, const int *next, unsigned *seen, const int *from, int n, int *to, int *count)
{
        __shared__ int local[512], tail, base;
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (threadIdx.x == 0)
                tail = 0;
        __syncthreads();
        if (i < n) {
                for (int k = first[from[i]]; k < first[from[i] + 1]; k++) {
                        int v = next[k];

                        if (!(atomicOr(&seen[v / 32], 1u << v % 32) >> v % 32 & 1)) {
                                int at = atomicAdd(&tail, 1);

                                if (at < 512)
                                        local[at] = v;
                                else
                                        to[atomicAdd(count, 1)] = v;
                        }
                }
        }
        __syncthreads();
        tail = min(tail, 512);
        if (threadIdx.x == 0)
                base = atomicAdd(count, tail);
        __syncthreads();
        for (int k = threadIdx.x; k < tail; k += blockDim.x)
                to[base + k] = local[k];
}

extern "C" __global__ void graph_relax(const int2 *edges, const int *weight, int *distance, int *changed, int n)
{
        int k = blockIdx.x * blockDim.x + threadIdx.x;

        if (k < n && distance[edges[k].x] != INT_MAX) {
                int d = distance[edges[k].x] + weight[k];

                if (atomicMin(&distance[edges[k].y], d) > d)
                        atomicExch(changed, 1);
        }
}

extern "C" __global__ void graph_floyd(int *d, int n, int k)
{
        int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
        __shared__ int through;

        if (threadIdx.x == 0)
                through = d[i * n + k];
        __syncthreads();
        if (j < n && through != INT_MAX && d[k * n + j] != INT_MAX)
                d[i * n + j] = min(d[i * n + j], through + d[k * n + j]);
}

extern "C" __global__ void graph_pagerank(
        const int *first, const int *from, const float *rank, const int *degree, float *out, float damping, int n)
{
        int v = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (v >= n)
                return;
        for (int k = first[v]; k < first[v + 1]; k++)
                sum += rank[from[k]] / degree[from[k]];
        out[v] = (1 - damping) / n + damping * sum;
}

extern "C" __global__ void graph_hook(const int2 *edges, int *parent, int n)
{
        int k = blockIdx.x * blockDim.x + threadIdx.x;

        if (k < n) {
                int a = parent[edges[k].x], b = parent[edges[k].y];

                while (a != b) {
                        int high = max(a, b), low = min(a, b), old = atomicCAS(&parent[high], high, low);

                        if (old == high || old == low)
                                break;
                        a = old;
                        b = low;
                }
        }
}

extern "C" __global__ void graph_compress(int *parent, int n)
{
        int v = blockIdx.x * blockDim.x + threadIdx.x;

        if (v < n) {
                while (parent[v] != parent[parent[v]])
                        parent[v] = parent[parent[v]];
        }
}

extern "C" __global__ void graph_triangles(const int *first, const int *next, unsigned long long *count, int n)
{
        int v = blockIdx.x * blockDim.x + threadIdx.x;
        unsigned long long found = 0;

        for (int a = v < n ? first[v] : 0; v < n && a < first[v + 1]; a++) {
                int u = next[a], i = a + 1, j = first[u];

                while (i < first[v + 1] && j < first[u + 1]) {
                        int d = next[i] - next[j];

                        found += d == 0;
                        i += d <= 0;
                        j += d >= 0;
                }
        }
        if (found)
                atomicAdd(count, found);
}

extern "C" __global__ void graph_colour(
        const int *first, const int *next, const unsigned *random, int *colour, int current, int n)
{
        int v = blockIdx.x * blockDim.x + threadIdx.x;

        if (v >= n || colour[v] >= 0)
                return;
        for (int k = first[v]; k < first[v + 1]; k++) {
                int u = next[k];

                if (u != v && (colour[u] < 0 || colour[u] == current) && random[u] >= random[v])
                        return;
        }
        colour[v] = current;
}

extern "C" __global__ void graph_core(
        const int *first, const int *next, int *degree, const unsigned char *alive, int k, int n)
{
        int v = blockIdx.x * blockDim.x + threadIdx.x;

        if (v < n && alive[v] && degree[v] < k)
                for (int i = first[v]; i < first[v + 1]; i++)
                        atomicDec((unsigned *)&degree[next[i]], 0x7fffffff);
}

extern "C" __global__ void graph_mst_lightest(
        const int2 *edges, const unsigned *weight, const int *component, unsigned long long *best, int n)
{
        int k = blockIdx.x * blockDim.x + threadIdx.x;

        if (k < n) {
                int a = component[edges[k].x], b = component[edges[k].y];
                unsigned long long key = (unsigned long long)weight[k] << 32 | k;

                if (a != b) {
                        atomicMin(&best[a], key);
                        atomicMin(&best[b], key);
                }
        }
}
