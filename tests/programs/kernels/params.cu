/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter layouts: every width, padding, structs, arrays in structs, a struct over 64 bytes, unused parameters. */

struct small {
        char tag;
        double value;
        short s;
};

struct shape {
        int dims[8];
        long long strides[8];
        float *data;
        unsigned char rank;
};

struct vec3 {
        float x, y, z;
};

extern "C" __global__ void params_mixed(char a, short b, int c, long long d, unsigned char e, float f, double g, bool h,
                                        long long *out)
{
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
        out[4] = e;
        out[5] = (long long)(f * 2.0f);
        out[6] = (long long)(g * 4.0);
        out[7] = h;
}

extern "C" __global__ void params_small(struct small s, double *out)
{
        out[0] = s.tag;
        out[1] = s.value;
        out[2] = s.s;
}

/* Reads the dimensions with an index that is known only at run time. */
extern "C" __global__ void params_shape(struct shape s, int index, long long *out)
{
        out[0] = s.dims[index];
        out[1] = s.strides[index];
        out[2] = s.rank;
        out[3] = 0;
        for (int i = 0; i < s.rank; i++)
                out[3] += s.dims[i] * s.strides[i];
        s.data[threadIdx.x] = threadIdx.x * 1.5f;
}

extern "C" __global__ void params_vec3(struct vec3 a, struct vec3 b, struct vec3 *out)
{
        struct vec3 c = { a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x };

        *out = c;
}

extern "C" __global__ void params_none(void)
{
}

extern "C" __global__ void params_align(float4 v, char c, int2 w, float *out)
{
        out[0] = v.x;
        out[1] = v.y;
        out[2] = v.z;
        out[3] = v.w;
        out[4] = c;
        out[5] = w.x;
        out[6] = w.y;
}
