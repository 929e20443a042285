/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdetshare-client: tensors in some of the GPU's memory channels only
 *
 * A GPU spreads memory over its channels in pieces of a few hundred bytes, so the work of two classes meets in all
 * channels. The daemon can keep a pool of memory whose channels it knows ([channels] in its configuration). From that
 * pool a program allocates tensors that lie only in the channels of best-effort work, or only in the others, and runs
 * kernels that find them there.
 *
 * Such a tensor has a *logical* address: a linear range in which nothing is mapped. Only the functions below and
 * coloured forms of kernels can use it. A coloured form takes the parameters of its kernel, with logical addresses for
 * the coloured ones, and one more at the end: a struct detshare_coloured_parameter. Its results are bit-identical to
 * those of the kernel on linear memory. Use with the driver API:
 *
 *   struct detshare_coloured_kernel want = {.name = "add", .mask = 1 << 0 | 1 << 2};
 *   detshare_coloured_image(ptx, strlen(ptx), &want, 1, &image, &bytes);  // an image for cuModuleLoadData
 *   cuModuleLoadData(&module, image);            // makes and compiles the forms; may stop the device
 *   detshare_coloured_name("add", want.mask, name, sizeof(name));
 *   cuModuleGetFunction(&add, module, name);
 *   detshare_coloured_alloc(n * 4, DETSHARE_COLOUR_BE, &x);
 *   detshare_coloured_parameter(&parameter);
 *   cuLaunchKernel(add, ..., (void *[]){&x, &y, &out, &parameter}, NULL);
 *
 * Loading takes long; launches cost what other launches cost, also in graphs and captures. A kernel cannot be coloured
 * if it stores a coloured pointer, compares it with something else, or mixes it with another one. Then loading fails,
 * and the error log of cuModuleLoadDataEx and detshare_last_error() give the reason with its line.
 *
 * The daemon lends the pool in slabs (info.slab_bytes). A slab belongs to one session; the session's memory limit
 * counts whole slabs. Parts of a slab that one colour cannot use serve tensors of another colour of the same session.
 * The daemon clears a slab before another session gets it. Tensors survive when the daemon's worker process is
 * replaced, as other memory does.
 *
 * Functions return 0 or a negative DETSHARE_E_ code, as those of detshare.h. DETSHARE_E_UNSUPPORTED: the daemon keeps
 * no pool (info.why has the reason). They may be called from any thread. stream: a CUstream of the drop-in libcuda;
 * NULL is the legacy default stream.
 */
#ifndef DETSHARE_COLOURED_H
#define DETSHARE_COLOURED_H

#include "detshare/detshare.h"

#ifdef __cplusplus
extern "C" {
#endif

enum detshare_colour {
        DETSHARE_COLOUR_BE = 0, /* sectors that lie wholly in channels of best-effort work */
        DETSHARE_COLOUR_LS = 1, /* sectors that lie wholly in the other channels */
        /* sectors in the order of their addresses, whatever their channels; for comparison: the same kernels without
         * colours */
        DETSHARE_COLOUR_ALL = 2,
};

#define DETSHARE_COLOURS 3

struct detshare_coloured_info {
        uint32_t size;         /* in: sizeof(struct detshare_coloured_info); out: bytes that were filled */
        uint32_t on;           /* 1: the daemon keeps a pool */
        uint32_t simulated;    /* 1: the channels are those of a simulated device */
        uint32_t sector_bytes; /* unit of a tensor, bytes, a power of two */
        uint32_t granule_bytes;
        uint32_t channels;    /* number of channels of the GPU */
        uint32_t be_channels; /* number of channels of best-effort work */
        uint32_t slabs, slabs_free;
        uint64_t slab_bytes;
        uint64_t be_set[4]; /* bit i: channel i is one of best-effort work */
        /* average number of sectors per slab that each colour can use, by enum detshare_colour; BE and LS together
         * are fewer than ALL, because some sectors lie in channels of both */
        uint32_t sectors[DETSHARE_COLOURS];
        char why[128];        /* reason why there is no pool; "" if there is one */
        char provenance[128]; /* source of the channel table */
};

/* The parameters of a kernel to colour: bit i of mask is its i-th parameter, which must be a pointer. */
struct detshare_coloured_kernel {
        const char *name;
        uint64_t mask;
};

/* The last parameter of coloured forms. All launches of a session pass the same one. */
struct detshare_coloured_parameter {
        uint64_t word[2];
};

int detshare_coloured_info(struct detshare_coloured_info *info);

/*
 * Allocates a tensor of so many bytes. *ret_address: its logical address, a multiple of 256, which no other memory has;
 * the content is undefined. DETSHARE_E_NO_MEMORY: the pool is full, or the session's limit is reached;
 * DETSHARE_E_QUOTA: the user's limit is reached.
 */
int detshare_coloured_alloc(uint64_t bytes, enum detshare_colour colour, uint64_t *ret_address);
/* Frees the tensor that begins at the address, after all work that the session has submitted. DETSHARE_E_NO_SUCH: no
 * tensor begins there. */
int detshare_coloured_free(uint64_t address);
/* Fills the last parameter of coloured forms. DETSHARE_E_NO_SUCH: the session has no tensor yet. */
int detshare_coloured_parameter(struct detshare_coloured_parameter *ret);

/*
 * Makes an image for cuModuleLoadData from an image with PTX (text, or a fatbin of `size` bytes). It contains the
 * image's kernels, and coloured forms of `n` of them (1 to 64). The caller frees *ret_image with free(). The PTX is
 * checked only when the image is loaded.
 */
int detshare_coloured_image(const void *image, size_t size, const struct detshare_coloured_kernel *kernels, size_t n,
        void **ret_image, size_t *ret_size);
/* Writes to `buffer` the name that a coloured form has in its module. DETSHARE_E_INVALID: the buffer is too small,
 * or the mask is 0. */
int detshare_coloured_name(const char *kernel, uint64_t mask, char *buffer, size_t size);

/*
 * Copies and memset, ordered in the stream like cuMemcpyAsync and cuMemsetD8Async. dst and src of
 * detshare_coloured_copy() may each be a logical or a device address. detshare_coloured_write(): the caller may reuse
 * the host buffer when it returns. detshare_coloured_read(): the bytes are in the host buffer when it returns.
 */
int detshare_coloured_write(void *stream, uint64_t dst, const void *src, uint64_t bytes);
int detshare_coloured_read(void *stream, void *dst, uint64_t src, uint64_t bytes);
int detshare_coloured_copy(void *stream, uint64_t dst, uint64_t src, uint64_t bytes);
int detshare_coloured_memset(void *stream, uint64_t dst, uint8_t value, uint64_t bytes);

/*
 * 1: sessions of the other class have unfinished work, so both classes use memory channels at the same time. 0: they
 * have none, and tensors may lie in all channels. The value is the daemon's last one; the call makes no request. For
 * programs that keep a tensor both with and without colours and choose one.
 */
int detshare_coloured_beside(void);

#ifdef __cplusplus
}
#endif
#endif
