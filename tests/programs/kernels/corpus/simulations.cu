/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: particles, fluids, rays, geometry, clustering. */
// targets: sm_86 sm_90+lineinfo
#include <cfloat>
#include <cstdint>

struct vec {
        float x, y, z;
        __device__ vec operator+(vec o) const
        {
                return {x + o.x, y + o.y, z + o.z};
        }
        __device__ vec operator-(vec o) const
        {
                return {x - o.x, y - o.y, z - o.z};
        }
        __device__ vec operator*(float s) const
        {
                return {x * s, y * s, z * s};
        }
};

__device__ float dot(vec a, vec b)
{
        return a.x * b.x + a.y * b.y + a.z * b.z;
}

__device__ vec cross(vec a, vec b)
{
        return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

extern "C" __global__ void nbody_forces(const float4 *bodies, float4 *forces, int n)
{
        __shared__ float4 tile[128];
        float4 me = bodies[blockIdx.x * 128 + threadIdx.x], f = {};

        for (int at = 0; at < n; at += 128) {
                tile[threadIdx.x] = bodies[at + threadIdx.x];
                __syncthreads();
#pragma unroll 8
                for (int k = 0; k < 128; k++) {
                        float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
                        float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f), s = tile[k].w * r * r * r;

                        f.x += dx * s, f.y += dy * s, f.z += dz * s;
                }
                __syncthreads();
        }
        forces[blockIdx.x * 128 + threadIdx.x] = f;
}

extern "C" __global__ void nbody_leapfrog(double3 *x, double3 *v, const double3 *a, double dt, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                v[i].x += a[i].x * dt, v[i].y += a[i].y * dt, v[i].z += a[i].z * dt;
                x[i].x += v[i].x * dt, x[i].y += v[i].y * dt, x[i].z += v[i].z * dt;
        }
}

extern "C" __global__ void md_lennard_jones(
        const float4 *x, const int *neighbours, const int *count, float4 *f, int most, float cut, float side)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float4 me = x[i], sum = {};

        for (int k = 0; k < count[i]; k++) {
                float4 o = x[neighbours[i * most + k]];
                float dx = me.x - o.x, dy = me.y - o.y, dz = me.z - o.z, r2, s;

                dx -= side * rintf(dx / side), dy -= side * rintf(dy / side), dz -= side * rintf(dz / side);
                r2 = dx * dx + dy * dy + dz * dz;
                if (r2 < cut * cut) {
                        float i2 = __frcp_rn(r2), i6 = i2 * i2 * i2;

                        s = 48 * i2 * i6 * (i6 - 0.5f);
                        sum.x += s * dx, sum.y += s * dy, sum.z += s * dz;
                        sum.w += 4 * i6 * (i6 - 1);
                }
        }
        f[i] = sum;
}

extern "C" __global__ void md_cells(const float4 *x, int *cell, int *count, int n, float size, int3 grid)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                int cx = (int)floorf(x[i].x / size) & (grid.x - 1), cy = (int)floorf(x[i].y / size) & (grid.y - 1),
                    cz = (int)floorf(x[i].z / size) & (grid.z - 1);

                cell[i] = (cz * grid.y + cy) * grid.x + cx;
                atomicAdd(&count[cell[i]], 1);
        }
}

extern "C" __global__ void fluid_density(const float4 *x, float *density, int n, float h)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        for (int j = 0; j < n; j++) {
                float dx = x[i].x - x[j].x, dy = x[i].y - x[j].y, dz = x[i].z - x[j].z,
                      q = h * h - dx * dx - dy * dy - dz * dz;

                sum += q > 0 ? q * q * q : 0;
        }
        density[i] = sum * 315 / (64 * 3.14159265f * powf(h, 9));
}

extern "C" __global__ void fluid_lattice_boltzmann(
        const float *in, float *out, const unsigned char *wall, int w, int h, float omega)
{
        const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1},
                  back[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, n = w * h, at = y * w + x;
        float f[9], rho = 0, ux = 0, uy = 0;

        for (int k = 0; k < 9; k++) {
                f[k] = in[k * n + (y - cy[k] + h) % h * w + (x - cx[k] + w) % w];
                rho += f[k];
                ux += f[k] * cx[k];
                uy += f[k] * cy[k];
        }
        ux /= rho;
        uy /= rho;
        for (int k = 0; k < 9; k++) {
                float cu = 3 * (cx[k] * ux + cy[k] * uy), weight = k == 0 ? 4 / 9.0f : k < 5 ? 1 / 9.0f : 1 / 36.0f;
                float e = weight * rho * (1 + cu + 0.5f * cu * cu - 1.5f * (ux * ux + uy * uy));

                out[k * n + at] = wall[at] ? f[back[k]] : f[k] + omega * (e - f[k]);
        }
}

extern "C" __global__ void fluid_advect(const float2 *velocity, const float *in, float *out, int w, int h, float dt)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        float u = fminf(fmaxf(x - dt * velocity[y * w + x].x, 0), w - 1.001f),
              v = fminf(fmaxf(y - dt * velocity[y * w + x].y, 0), h - 1.001f);
        int i = (int)u, j = (int)v;

        u -= i;
        v -= j;
        out[y * w + x] = (1 - v) * ((1 - u) * in[j * w + i] + u * in[j * w + i + 1]) +
                         v * ((1 - u) * in[(j + 1) * w + i] + u * in[(j + 1) * w + i + 1]);
}

extern "C" __global__ void plasma_deposit(const float2 *position, const float *charge, float *grid, int n, int w)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float fx = floorf(position[i].x), fy = floorf(position[i].y), u = position[i].x - fx, v = position[i].y - fy;
        float *cell = grid + (int)fy * w + (int)fx;

        atomicAdd(cell, charge[i] * (1 - u) * (1 - v));
        atomicAdd(cell + 1, charge[i] * u * (1 - v));
        atomicAdd(cell + w, charge[i] * (1 - u) * v);
        atomicAdd(cell + w + 1, charge[i] * u * v);
}

extern "C" __global__ void magnet_ising(signed char *spins, const float *random, int w, int h, float beta, int colour)
{
        int y = blockIdx.y, x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + ((y + colour) & 1), at = y * w + x, sum;

        sum = spins[(y + 1) % h * w + x] + spins[(y + h - 1) % h * w + x] + spins[y * w + (x + 1) % w] +
              spins[y * w + (x + w - 1) % w];
        if (random[at] < __expf(-2 * beta * sum * spins[at]))
                spins[at] = -spins[at];
}

extern "C" __global__ void ray_spheres(const float4 *spheres, int n, float *depth, int *which, int w, int h)
{
        int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y, hit = -1;
        vec d = {2.0f * px / w - 1, 2.0f * py / h - 1, 1};
        float best = FLT_MAX;

        d = d * rsqrtf(dot(d, d));
        for (int i = 0; i < n; i++) {
                vec c = {spheres[i].x, spheres[i].y, spheres[i].z};
                float b = dot(d, c), q = b * b - dot(c, c) + spheres[i].w * spheres[i].w;

                if (q >= 0 && b - sqrtf(q) > 0 && b - sqrtf(q) < best) {
                        best = b - sqrtf(q);
                        hit = i;
                }
        }
        depth[py * w + px] = best;
        which[py * w + px] = hit;
}

extern "C" __global__ void ray_triangle(
        const vec *corners, const vec *origin, const vec *direction, float4 *hits, int triangles)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        vec o = origin[i], d = direction[i];
        float4 best = {FLT_MAX, 0, 0, __int_as_float(-1)};

        for (int t = 0; t < triangles; t++) {
                vec a = corners[3 * t], e1 = corners[3 * t + 1] - a, e2 = corners[3 * t + 2] - a, p = cross(d, e2),
                    s = o - a, q = cross(s, e1);
                float f = 1 / dot(e1, p), u = f * dot(s, p), v = f * dot(d, q), at = f * dot(e2, q);

                if (u >= 0 && v >= 0 && u + v <= 1 && at > 1e-6f && at < best.x)
                        best = make_float4(at, u, v, __int_as_float(t));
        }
        hits[i] = best;
}

struct node {
        float low[3], high[3];
        int left, count;
};

extern "C" __global__ void ray_tree(const node *nodes, const vec *origin, const vec *inverse, int *visited)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, stack[32], top = 0, n = 0;
        float o[3] = {origin[i].x, origin[i].y, origin[i].z}, d[3] = {inverse[i].x, inverse[i].y, inverse[i].z};

        stack[top++] = 0;
        while (top) {
                const node *at = &nodes[stack[--top]];
                float near = 0, far = FLT_MAX;

                for (int k = 0; k < 3; k++) {
                        float a = (at->low[k] - o[k]) * d[k], b = (at->high[k] - o[k]) * d[k];

                        near = fmaxf(near, fminf(a, b));
                        far = fminf(far, fmaxf(a, b));
                }
                if (near > far)
                        continue;
                if (at->count) {
                        n += at->count;
                } else if (top < 31) {
                        stack[top++] = at->left;
                        stack[top++] = at->left + 1;
                }
        }
        visited[i] = n;
}

__device__ __noinline__ float scene(vec p)
{
        float bulb = sqrtf(dot(p, p)) - 1, qx = fabsf(p.x) - 0.7f, qy = fabsf(p.y) - 0.7f, qz = fabsf(p.z) - 0.7f;
        float box = fminf(fmaxf(qx, fmaxf(qy, qz)), 0) + norm3df(fmaxf(qx, 0), fmaxf(qy, 0), fmaxf(qz, 0));

        return fmaxf(box, -bulb);
}

extern "C" __global__ void ray_march(float *out, int w)
{
        vec d = {2.0f * threadIdx.x / w - 1, 2.0f * blockIdx.x / w - 1, 1.5f}, p = {0, 0, -3};
        float far = 0;

        d = d * rnorm3df(d.x, d.y, d.z);
        for (int i = 0; i < 64; i++) {
                float step = scene(p + d * far);

                if (step < 1e-3f || far > 10)
                        break;
                far += step;
        }
        out[blockIdx.x * w + threadIdx.x] = far;
}

extern "C" __global__ void geometry_rotate(const float4 *quaternions, vec *points, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float4 q = quaternions[i];
                vec u = {q.x, q.y, q.z}, t = cross(u, points[i]) * 2;

                points[i] = points[i] + t * q.w + cross(u, t);
        }
}

extern "C" __global__ void geometry_inside_polygon(
        const float2 *polygon, int corners, const float2 *points, unsigned *inside, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        bool in = false;

        for (int a = 0, b = corners - 1; i < n && a < corners; b = a++) {
                if ((polygon[a].y > points[i].y) != (polygon[b].y > points[i].y) &&
                        points[i].x < (polygon[b].x - polygon[a].x) * (points[i].y - polygon[a].y) /
                                                      (polygon[b].y - polygon[a].y) +
                                              polygon[a].x)
                        in = !in;
        }
        unsigned mask = __ballot_sync(~0u, in);

        if (threadIdx.x % 32 == 0)
                inside[i / 32] = mask;
}

extern "C" __global__ void geometry_haversine(const double2 *a, const double2 *b, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                double s = sin((b[i].x - a[i].x) / 2), t = sin((b[i].y - a[i].y) / 2),
                       h = s * s + cos(a[i].x) * cos(b[i].x) * t * t;

                out[i] = 2 * 6371.0 * asin(sqrt(fmin(h, 1.0)));
        }
}

extern "C" __global__ void cluster_assign(
        const float *points, const float *centres, int *nearest, int *moved, int n, int k, int d)
{
        extern __shared__ float c[];
        int i = blockIdx.x * blockDim.x + threadIdx.x, at = 0;
        float best = FLT_MAX;

        for (int e = threadIdx.x; e < k * d; e += blockDim.x)
                c[e] = centres[e];
        __syncthreads();
        if (i >= n)
                return;
        for (int j = 0; j < k; j++) {
                float sum = 0;

                for (int e = 0; e < d; e++)
                        sum += (points[e * n + i] - c[j * d + e]) * (points[e * n + i] - c[j * d + e]);
                if (sum < best) {
                        best = sum;
                        at = j;
                }
        }
        if (nearest[i] != at)
                atomicAdd(moved, 1);
        nearest[i] = at;
}

extern "C" __global__ void cluster_means(
        const float *points, const int *nearest, float *sums, int *counts, int n, int d)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                for (int e = 0; e < d; e++)
                        atomicAdd(&sums[nearest[i] * d + e], points[e * n + i]);
                atomicInc((unsigned *)&counts[nearest[i]], ~0u);
        }
}

extern "C" __global__ void cluster_nearest(const float4 *points, const float4 *queries, int *out, int n)
{
        __shared__ float4 tile[64];
        float4 q = queries[blockIdx.x * 64 + threadIdx.x];
        unsigned long long best = ~0ull;

        for (int base = 0; base < n; base += 64) {
                tile[threadIdx.x] = points[base + threadIdx.x];
                __syncthreads();
                for (int k = 0; k < 64; k++) {
                        float dx = tile[k].x - q.x, dy = tile[k].y - q.y, dz = tile[k].z - q.z;

                        best = min(best,
                                (unsigned long long)__float_as_uint(dx * dx + dy * dy + dz * dz) << 32 | (base + k));
                }
                __syncthreads();
        }
        out[blockIdx.x * 64 + threadIdx.x] = (int)best;
}

extern "C" __global__ void ode_runge_kutta(double3 *state, double dt, int steps)
{
        double3 s = state[threadIdx.x];

        for (int i = 0; i < steps; i++) {
                double3 k[4], p = s;

                for (int j = 0; j < 4; j++) {
                        double h = j == 3 ? dt : dt / 2;

                        k[j] = make_double3(10 * (p.y - p.x), p.x * (28 - p.z) - p.y, p.x * p.y - 8.0 / 3 * p.z);
                        p = make_double3(s.x + h * k[j].x, s.y + h * k[j].y, s.z + h * k[j].z);
                }
                s.x += dt / 6 * (k[0].x + 2 * k[1].x + 2 * k[2].x + k[3].x);
                s.y += dt / 6 * (k[0].y + 2 * k[1].y + 2 * k[2].y + k[3].y);
                s.z += dt / 6 * (k[0].z + 2 * k[1].z + 2 * k[2].z + k[3].z);
        }
        state[threadIdx.x] = s;
}

extern "C" __global__ void cloth_springs(vec *position, vec *before, int w, float rest)
{
        __shared__ vec s[16][17];
        int x = threadIdx.x, y = threadIdx.y;

        s[y][x] = position[y * w + x];
        for (int round = 0; round < 8; round++) {
                for (int phase = 0; phase < 4; phase++) {
                        int dx = phase < 2, dy = phase >= 2, a = dx ? x : y;

                        __syncthreads();
                        if ((a & 1) == (phase & 1) && x + dx < 16 && y + dy < 16) {
                                vec d = s[y + dy][x + dx] - s[y][x];
                                float pull = 0.5f * (1 - rest * rsqrtf(dot(d, d)));

                                s[y][x] = s[y][x] + d * pull;
                                s[y + dy][x + dx] = s[y + dy][x + dx] - d * pull;
                        }
                }
        }
        __syncthreads();
        before[y * w + x] = position[y * w + x];
        position[y * w + x] = s[y][x];
}
