// SPDX-License-Identifier: Apache-2.0
/* A member of a library that no link needs: its function calls one that does not exist. */
extern __device__ int linked_nowhere(int v);

__device__ int linked_unused(int v)
{
        return linked_nowhere(v);
}
