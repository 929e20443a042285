/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdetshare-client: tensors that lie in some of the GPU's memory channels only
 *
 * A GPU spreads memory over its channels in pieces of a few hundred bytes, so work of two classes meets in all of them.
 * Where the daemon keeps a pool of memory whose channels it knows ([channels] in its configuration), a program can have
 * tensors that lie in sectors of the best-effort channels only, or of the other ones only, and kernels that find them
 * there.
 *
 * Such a tensor has a *logical* address: a linear range in which nothing is mapped. Only coloured forms of kernels can
 * use it, and the functions below. A coloured form has the parameters of its kernel, the coloured ones being logical
 * addresses, and one more behind them: a struct detshare_coloured_parameter. Its results are those of the kernel on
 * linear memory to the last bit. How it is used, with the driver API:
 *
 *   struct detshare_coloured_kernel want = {.name = "add", .mask = 1 << 0 | 1 << 2};
 *   detshare_coloured_image(ptx, strlen(ptx), &want, 1, &image, &bytes);  // an image for cuModuleLoadData
 *   cuModuleLoadData(&module, image);            // made and compiled here: may stop the device as any loading of code
 *   detshare_coloured_name("add", want.mask, name, sizeof(name));
 *   cuModuleGetFunction(&add, module, name);
 *   detshare_coloured_alloc(n * 4, DETSHARE_COLOUR_BE, &x);
 *   detshare_coloured_parameter(&parameter);
 *   cuLaunchKernel(add, ..., (void *[]){&x, &y, &out, &parameter}, NULL);
 *
 * Loading is what a program waits for; launches are launches like all others, also in graphs and captures.
 * cuModuleLoadDataEx gives the reason, with its line, in its error log when a kernel cannot be coloured (a pointer that
 * is stored, compared with something else, mixed with another ...), and so does detshare_last_error().
 *
 * What a session has of the pool it has in slabs (info.slab_bytes), which are its own: nobody else's bytes are in them,
 * its memory limit counts them as wholes, and what a class cannot use of a slab another tensor of the session may. They
 * are cleared before another session gets them, and outlive the device's process as other memory does.
 *
 * Functions return 0 or a negative DETSHARE_E_ code as those of detshare.h; DETSHARE_E_UNSUPPORTED: the daemon keeps no
 * pool (info.why says why). They may be called from any thread. stream: a CUstream of the drop-in libcuda, NULL the
 * legacy default stream.
 */
#ifndef DETSHARE_COLOURED_H
#define DETSHARE_COLOURED_H

#include "detshare/detshare.h"

#ifdef __cplusplus
extern "C" {
#endif

enum detshare_colour {
        DETSHARE_COLOUR_BE = 0,  /* sectors that lie wholly in best effort's channels */
        DETSHARE_COLOUR_LS = 1,  /* sectors that lie wholly in the others */
        DETSHARE_COLOUR_ALL = 2, /* sectors in order, whatever their channels: the same kernels without colours */
};

#define DETSHARE_COLOURS 3

struct detshare_coloured_info {
        uint32_t size;         /* in: sizeof(struct detshare_coloured_info); out: how much of it was filled */
        uint32_t on;           /* 1: there is a pool */
        uint32_t simulated;    /* 1: the channels are a simulated device's */
        uint32_t sector_bytes; /* what a tensor is made of, a power of two */
        uint32_t granule_bytes;
        uint32_t channels;    /* of the GPU */
        uint32_t be_channels; /* of them best effort's */
        uint32_t slabs, slabs_free;
        uint64_t slab_bytes;
        uint64_t be_set[4]; /* bit i: channel i is best effort's */
        /* of a slab, on average: sectors of each colour, by enum detshare_colour; those of BE and LS do not add up to
         * all where sectors lie in channels of both */
        uint32_t sectors[DETSHARE_COLOURS];
        char why[128];        /* on 0: why there is no pool */
        char provenance[128]; /* where the channels are known from */
};

/* What is to be coloured of a kernel: bit i of mask is its i-th parameter, which must be a pointer. */
struct detshare_coloured_kernel {
        const char *name;
        uint64_t mask;
};

/* The last parameter of coloured forms; the same for all launches of a session. */
struct detshare_coloured_parameter {
        uint64_t word[2];
};

int detshare_coloured_info(struct detshare_coloured_info *info);

/*
 * A tensor of so many bytes: *ret_address is a multiple of 256 and in no other memory. Its content is not defined.
 * DETSHARE_E_NO_MEMORY: the pool or the session's limit has no room, _QUOTA: the user's.
 */
int detshare_coloured_alloc(uint64_t bytes, enum detshare_colour colour, uint64_t *ret_address);
/* Waits for all that the session has submitted. DETSHARE_E_NO_SUCH: no tensor begins there. */
int detshare_coloured_free(uint64_t address);
/* DETSHARE_E_NO_SUCH: there is no tensor yet. */
int detshare_coloured_parameter(struct detshare_coloured_parameter *ret);

/*
 * An image for cuModuleLoadData that is made of another one with PTX (text, or a fatbin of `size` bytes): with its
 * kernels as they are, and coloured forms of `n` of them (1 to 64). *ret_image is to be freed with free(). Nothing of
 * it is looked at here.
 */
int detshare_coloured_image(const void *image, size_t size, const struct detshare_coloured_kernel *kernels, size_t n,
        void **ret_image, size_t *ret_size);
/* The name of a coloured form in its module. DETSHARE_E_INVALID: the buffer is too small, or the mask 0. */
int detshare_coloured_name(const char *kernel, uint64_t mask, char *buffer, size_t size);

/*
 * Ordered in the stream like cuMemcpyAsync and cuMemsetD8Async. dst and src of a copy may each be logical or device
 * memory. write: the host's bytes may be reused on return; read: complete on return.
 */
int detshare_coloured_write(void *stream, uint64_t dst, const void *src, uint64_t bytes);
int detshare_coloured_read(void *stream, void *dst, uint64_t src, uint64_t bytes);
int detshare_coloured_copy(void *stream, uint64_t dst, uint64_t src, uint64_t bytes);
int detshare_coloured_memset(void *stream, uint64_t dst, uint8_t value, uint64_t bytes);

/*
 * 1: sessions of the other class have work that was submitted and has not ended, so that channels are shared; 0: they
 * have none, and tensors may lie over all channels. As the daemon saw it last; no request is made for it. For programs
 * that hold a tensor in two places.
 */
int detshare_coloured_beside(void);

#ifdef __cplusplus
}
#endif
#endif
