/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to, from and between coloured tensors
 *
 * Coloured forms of a kernel of this library do the copying, so that no other code needs to know where a tensor's
 * sectors lie. Host bytes pass through device memory that is allocated for the call.
 */
#include "core/coloured.h"
#include "core/coloured_kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "detshare/coloured.h"
#pragma GCC visibility pop

#define STAGE_BYTES (UINT64_C(16) << 20)
#define THREADS 256u
#define BLOCKS_MAX 1024u

static _Atomic(dsc_stream_fn) stream_of;

void dsc_streams(dsc_stream_fn fn)
{
        atomic_store(&stream_of, fn);
}

static int find_stream(void *stream, uint32_t *ret)
{
        const dsc_stream_fn fn = atomic_load(&stream_of);
        *ret = 0;
        if (fn)
                return fn(stream, ret);
        if (!stream)
                return 0;
        dsc__message("the process has no streams of the drop-in libcuda");
        return DSC__INVALID_HANDLE;
}

/* --- the kernels -------------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        unsigned masks; /* bit m: the kernel has a form for mask m (1 dst coloured, 2 src coloured, 3 both) */
} rows[_DSC__COLOURED_KERNELS] = {
        [DSC__COPY16] = {"detshare_copy16", 1u << 1 | 1u << 2 | 1u << 3},
        [DSC__COPY1] = {"detshare_copy1", 1u << 1 | 1u << 2 | 1u << 3},
        [DSC__FILL16] = {"detshare_fill16", 1u << 1},
        [DSC__FILL1] = {"detshare_fill1", 1u << 1},
};

/* 1: the kernel has exactly the parameters that launch() packs, in this order. */
static int kernel_fits(const struct dsc_kernel *kernel)
{
        const struct dsc_param *p = kernel->params;
        return kernel->n_params == 4 && p[0].offset == 0 && p[1].offset == 8 && p[2].offset == 16 &&
               p[3].offset == 24 && p[3].size == 16;
}

static int find_kernel(dsc_session *s, uint64_t module, const char *name, uint64_t mask, uint64_t *ret)
{
        struct dsc_kernel kernel = {0};
        char form[128];
        if (detshare_coloured_name(name, mask, form, sizeof(form)))
                return DSC__UNKNOWN;
        int r = dsc_kernel_get(s, module, form, &kernel);
        if (r)
                return r;
        *ret = kernel.id;
        r = kernel_fits(&kernel) ? 0 : DSC__UNKNOWN;
        dsc_kernel_clear(&kernel);
        return r;
}

static int load_module(dsc_session *s, const struct dsc__coloured *c, uint64_t *ret)
{
        struct ds_coloured_want *wants = calloc(_DSC__COLOURED_KERNELS * DSC__COLOURED_MASKS, sizeof(*wants));
        void *image = NULL;
        size_t n = 0, size;
        if (!wants)
                return DSC__OUT_OF_MEMORY;
        for (size_t k = 0; k < _DSC__COLOURED_KERNELS; k++)
                for (uint64_t mask = 1; mask < DSC__COLOURED_MASKS; mask++)
                        if (rows[k].masks >> mask & 1) {
                                wants[n].mask = mask;
                                snprintf(wants[n++].name, sizeof(wants[0].name), "%s", rows[k].name);
                        }
        int r = dsc__coloured_pack(c, dsc__coloured_ptx, sizeof(dsc__coloured_ptx) - 1, wants, n, &image, &size);
        if (!r)
                r = dsc_module_load(s, image, size, NULL, 0, ret);
        free(image);
        free(wants);
        return r;
}

static int need_kernels(dsc_session *s, struct dsc__coloured *c)
{
        uint64_t module = 0;
        if (c->module)
                return 0;
        int r = load_module(s, c, &module);
        for (size_t k = 0; !r && k < _DSC__COLOURED_KERNELS; k++)
                for (uint64_t mask = 1; !r && mask < DSC__COLOURED_MASKS; mask++)
                        if (rows[k].masks >> mask & 1)
                                r = find_kernel(s, module, rows[k].name, mask, &c->kernels[k][mask]);
        if (r && module)
                dsc_module_unload(s, module);
        if (!r)
                c->module = module;
        return r;
}

/* Launches a kernel with its three parameters: dst; src or the value; number of pieces (of 16 bytes, or of 1). */
static int launch(dsc_session *s, const struct dsc__coloured *c, uint32_t stream, uint64_t kernel, uint64_t dst,
        uint64_t second, uint64_t n)
{
        const uint64_t params[5] = {dst, second, n, c->word[0], c->word[1]};
        const uint64_t blocks = (n + THREADS - 1) / THREADS;
        const struct dsc_launch ask = {
                .kernel = kernel,
                .grid = {(uint32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), 1, 1},
                .block = {THREADS, 1, 1},
                .params = params,
                .params_size = sizeof(params),
        };
        return dsc_launch(s, stream, &ask);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* *ret_coloured: 1 if the bytes lie in a coloured tensor, 0 if in other memory. Error: they lie in both. */
static int side(const struct dsc__coloured *c, uint64_t address, uint64_t bytes, bool *ret_coloured)
{
        *ret_coloured = dsc__coloured_is(c, address);
        if (!*ret_coloured || dsc__coloured_find(c, address, bytes))
                return 0;
        dsc__message("%" PRIu64 " bytes at %#" PRIx64 " do not lie in a coloured tensor", bytes, address);
        return DSC__INVALID_VALUE;
}

static int plain_copy(dsc_session *s, uint32_t stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
        const struct dsc_copy copy = {.kind = DSC_DTOD,
                .dst = dst,
                .src = src,
                .width = bytes,
                .height = 1,
                .dst_pitch = bytes,
                .src_pitch = bytes};
        return dsc_copy(s, stream, &copy);
}

static int copy_locked(
        dsc_session *s, struct dsc__coloured *c, uint32_t stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
        bool to, from;
        int r = side(c, dst, bytes, &to);
        if (!r)
                r = side(c, src, bytes, &from);
        if (r || !bytes)
                return r;
        if (!to && !from)
                return plain_copy(s, stream, dst, src, bytes);
        r = need_kernels(s, c);
        if (r)
                return r;
        const uint64_t mask = (to ? 1 : 0) | (from ? 2 : 0);
        const bool wide = (dst | src | bytes) % 16 == 0;
        return launch(
                s, c, stream, c->kernels[wide ? DSC__COPY16 : DSC__COPY1][mask], dst, src, wide ? bytes / 16 : bytes);
}

static int fill_locked(
        dsc_session *s, struct dsc__coloured *c, uint32_t stream, uint64_t dst, uint8_t value, uint64_t bytes)
{
        const bool wide = (dst | bytes) % 16 == 0;
        bool to;
        int r = side(c, dst, bytes, &to);
        if (!r && bytes && !to) {
                const struct dsc_memset set = {
                        .dst = dst, .value = value, .element_size = 1, .width = bytes, .height = 1, .pitch = bytes};
                return dsc_memset(s, stream, &set);
        }
        if (!r && bytes)
                r = need_kernels(s, c);
        if (r || !bytes)
                return r;
        return launch(s, c, stream, c->kernels[wide ? DSC__FILL16 : DSC__FILL1][1], dst, value * UINT32_C(0x01010101),
                wide ? bytes / 16 : bytes);
}

/* --- functions of detshare/coloured.h ----------------------------------------------------------------------------- */

static int stream_error(int r)
{
        return r == DSC__INVALID_HANDLE ? DETSHARE_E_INVALID : dsc__fold(r);
}

/* Begins a copy or memset: finds session and stream, takes the lock. NULL: *ret_error is the error for the program. */
static struct dsc__coloured *begin(void *stream, dsc_session **ret_session, uint32_t *ret_stream, int *ret_error)
{
        struct dsc__coloured *c;
        int r = find_stream(stream, ret_stream);
        if (r) {
                *ret_error = stream_error(r);
                return NULL;
        }
        c = dsc__coloured_lock(ret_session, &r);
        *ret_error = dsc__fold(r);
        return c;
}

static int end(int r)
{
        dsc__coloured_unlock();
        return dsc__fold(r);
}

/* *ret: the session. Error: there is none, or the bytes lie in the window of logical addresses but in no tensor. */
static int look(uint64_t address, uint64_t bytes, dsc_session **ret)
{
        bool coloured;
        int r;
        struct dsc__coloured *c = dsc__coloured_lock(ret, &r);
        if (!c)
                return r;
        r = side(c, address, bytes, &coloured);
        dsc__coloured_unlock();
        return r;
}

/*
 * Copies one piece, at most the size of the device buffer: host to tensor (in), or tensor to host (out); the other
 * pointer is NULL. Holds no lock while it waits for the GPU, so other threads can copy meanwhile.
 */
static int carry_piece(dsc_session *s, uint32_t stream, uint64_t tensor, const uint8_t *in, uint8_t *out, uint64_t n)
{
        struct dsc__coloured *c = NULL;
        uint64_t stage = 0;
        int r = dsc_mem_alloc(s, n, &stage);
        if (!r && in)
                r = dsc_write(s, stream, stage, n, in, n, n, 1);
        if (!r)
                c = dsc__coloured_lock(&s, &r);
        if (c) {
                r = in ? copy_locked(s, c, stream, tensor, stage, n) : copy_locked(s, c, stream, stage, tensor, n);
                dsc__coloured_unlock();
        }
        if (!r && out)
                r = dsc_read(s, stream, out, n, stage, n, n, 1);
        if (stage)
                dsc_mem_free_later(s, stage);
        return r;
}

static int carry(void *stream, uint64_t tensor, const uint8_t *in, uint8_t *out, uint64_t bytes)
{
        dsc_session *s = NULL;
        uint32_t slot;
        int r;
        if (bytes && !in && !out)
                return DETSHARE_E_INVALID;
        r = find_stream(stream, &slot);
        if (r)
                return stream_error(r);
        r = look(tensor, bytes, &s);
        for (uint64_t at = 0, n; !r && at < bytes; at += n) {
                n = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
                r = carry_piece(s, slot, tensor + at, in ? in + at : NULL, out ? out + at : NULL, n);
        }
        return dsc__fold(r);
}

int detshare_coloured_write(void *stream, uint64_t dst, const void *src, uint64_t bytes)
{
        return carry(stream, dst, src, NULL, bytes);
}

int detshare_coloured_read(void *stream, void *dst, uint64_t src, uint64_t bytes)
{
        return carry(stream, src, NULL, dst, bytes);
}

int detshare_coloured_copy(void *stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
        dsc_session *s;
        uint32_t slot;
        int r;
        struct dsc__coloured *c = begin(stream, &s, &slot, &r);
        return c ? end(copy_locked(s, c, slot, dst, src, bytes)) : r;
}

int detshare_coloured_memset(void *stream, uint64_t dst, uint8_t value, uint64_t bytes)
{
        dsc_session *s;
        uint32_t slot;
        int r;
        struct dsc__coloured *c = begin(stream, &s, &slot, &r);
        return c ? end(fill_locked(s, c, slot, dst, value, bytes)) : r;
}
