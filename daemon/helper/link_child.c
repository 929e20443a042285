/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/link_child.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "helper/link.h"
#include "image/cubin.h"
#include "image/image.h"
#include "image/object.h"
#include "ptx/link.h"
#include "util/alloc.h"
#include "util/macro.h"

#define CONTAINER_MAGIC 0xBA55ED50u
#define LTO_MAGIC 0x7f4e43edu
#define ARENA_MAX DS_MIB(512) /* memory for one parsed text */
#define NAME_MAX_BYTES 400

/* Texts and facts that the inputs contain. */
struct contents {
        const struct ds_link_work *work;
        const struct ds_link_file *file;
        const struct ds_link_input *inputs;
        struct ds_check_result *result;
        struct ds_ptx_link_input *texts;
        size_t n_texts, room;
        const char *name;            /* the input that is being read */
        int member;                  /* 1: it is a library */
        char no_ptx[NAME_MAX_BYTES]; /* name of the first input without PTX; empty: all have PTX */
        int lto, machine;            /* 1: an input is LTO code; machine code */
        int member_lto;              /* 1: an object of a library has LTO code only */
        int arch_specific;           /* 1: an input is for sm_90a instead of sm_90 */
        int executable;              /* 1: the last machine code that was read needs no linking */
};

static char *join(const char *a, const char *b)
{
        char name[NAME_MAX_BYTES];

        snprintf(name, sizeof(name), "%.190s%s%.190s", a, *b ? ":" : "", b);
        return ds_strdup(name);
}

static int no_memory(struct contents *c)
{
        ds_check_fail(c->result, DS_CHECK_OUT_OF_MEMORY, "no memory to link '%s'", c->name);
        return -1;
}

static int add_text(struct contents *c, const char *name, const char *text, size_t length)
{
        if (c->n_texts == c->room) {
                c->room = c->room ? 2 * c->room : 16;
                c->texts = ds_realloc(c->texts, c->room, sizeof(*c->texts));
        }
        if (!c->texts || !name)
                return no_memory(c);
        c->texts[c->n_texts++] =
                (struct ds_ptx_link_input){.name = name, .text = text, .length = length, .on_demand = c->member};
        return 0;
}

/* Records that the input has no PTX. A library may have objects that the link does not need. */
static void without_ptx(struct contents *c, const char *name)
{
        if (!c->member && !c->no_ptx[0])
                snprintf(c->no_ptx, sizeof(c->no_ptx), "%s", name);
}

static void note_machine(struct contents *c, const void *bytes, size_t size)
{
        Elf64_Half type = 0;

        if (size >= sizeof(Elf64_Ehdr))
                memcpy(&type, (const uint8_t *)bytes + offsetof(Elf64_Ehdr, e_type), sizeof(type));
        c->machine = 1;
        c->executable = type == ET_EXEC;
}

/* --- fatbins ------------------------------------------------------------------------------------------------------ */

/* Selects the entry that the device uses. PTX counts only if the machine code was made from it. */
static void choose(const struct contents *c, const ds_image *image, long *ret_ptx, long *ret_elf)
{
        const struct ds_image_entry *p, *e;
        size_t ptx, elf;

        *ret_ptx = ds_image_choose_ptx(image, c->work->cc, c->work->simulated, &ptx) ? -1 : (long)ptx;
        *ret_elf = c->work->simulated || ds_image_choose_elf(image, c->work->cc, &elf) ? -1 : (long)elf;
        if (*ret_ptx < 0 || *ret_elf < 0)
                return;
        p = ds_image_entry(image, ptx);
        e = ds_image_entry(image, elf);
        if (p->sm != e->sm || !p->arch_specific != !e->arch_specific)
                *ret_ptx = -1;
}

static int has_other(const ds_image *image)
{
        for (size_t i = 0; i < ds_image_count(image); i++)
                if (ds_image_entry(image, i)->kind == DS_IMAGE_OTHER)
                        return 1;
        return 0;
}

static int read_machine(struct contents *c, const ds_image *image, size_t index)
{
        void *bytes;
        size_t size;

        if (ds_image_elf(image, index, c->result->message, sizeof(c->result->message), &bytes, &size)) {
                c->result->status = DS_CHECK_INVALID_IMAGE;
                return -1;
        }
        c->arch_specific |= ds_image_entry(image, index)->arch_specific != 0;
        note_machine(c, bytes, size);
        return 0;
}

static int read_entries(struct contents *c, const ds_image *image, const char *name)
{
        char holds[512], *text;
        size_t length;
        long ptx, elf;

        choose(c, image, &ptx, &elf);
        if (elf >= 0 && read_machine(c, image, (size_t)elf))
                return -1;
        if (ptx >= 0) {
                c->arch_specific |= ds_image_entry(image, (size_t)ptx)->arch_specific != 0;
                if (!ds_image_ptx(image, (size_t)ptx, c->result->message, sizeof(c->result->message), &text, &length))
                        return add_text(c, name, text, length);
                c->result->status = DS_CHECK_INVALID_IMAGE;
                return -1;
        }
        without_ptx(c, name);
        if (elf < 0 && has_other(image))
                *(c->member ? &c->member_lto : &c->lto) = 1;
        if (elf >= 0 || c->member || has_other(image))
                return 0;
        ds_image_describe(image, holds, sizeof(holds));
        ds_check_fail(c->result, DS_CHECK_NO_BINARY, "'%s' has no code for this GPU (sm_%u): it holds %s", name,
                c->work->cc, holds);
        return -1;
}

static int read_container(void *user, const char *member, const uint8_t *bytes, size_t size)
{
        struct contents *c = user;
        const char *name = join(c->name, member);
        ds_image *image;
        int r;

        if (!name)
                return no_memory(c);
        r = ds_image_open(bytes, size, c->result->message, sizeof(c->result->message), &image);
        if (r < 0)
                return no_memory(c);
        if (r) {
                c->result->status = DS_CHECK_INVALID_IMAGE;
                return -1;
        }
        return read_entries(c, image, name);
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static uint32_t magic_of(const void *bytes, size_t size)
{
        uint32_t magic = 0;

        memcpy(&magic, bytes, DS_MIN(size, sizeof(magic)));
        return magic;
}

/* Whether the bytes can be text: PTX has no NUL and no other control characters before its first line ends. */
static int is_text(const char *bytes, size_t size)
{
        for (size_t i = 0; i < size && bytes[i] != '\n'; i++)
                if ((unsigned char)bytes[i] < '\t')
                        return 0;
        return size > 0;
}

static int read_text(struct contents *c, const char *text, size_t size)
{
        size = strnlen(text, size);
        if (!is_text(text, size)) {
                ds_check_fail(c->result, DS_CHECK_INVALID_PTX, "'%s' is not PTX text", c->name);
                return -1;
        }
        return add_text(c, c->name, text, size);
}

static int read_object(struct contents *c, const uint8_t *bytes, size_t size)
{
        const size_t texts = c->n_texts;
        int r;

        c->member = ds_object_is_archive(bytes, size);
        r = ds_object_walk(bytes, size, read_container, c, c->result->message, sizeof(c->result->message));
        if (r > 0)
                c->result->status = DS_CHECK_INVALID_IMAGE;
        if (!r && !c->member && c->n_texts == texts)
                without_ptx(c, c->name);
        return r;
}

static int read_cubin(struct contents *c, const uint8_t *bytes, size_t size)
{
        struct ds_cubin cubin;

        if (ds_cubin_read(bytes, size, &cubin)) {
                ds_check_fail(
                        c->result, DS_CHECK_INVALID_IMAGE, "'%s' is damaged: %s", c->name, ds_cubin_why(bytes, size));
                return -1;
        }
        if (!c->work->simulated && !ds_cubin_runs_on(&cubin, c->work->cc)) {
                ds_check_fail(c->result, DS_CHECK_NO_BINARY,
                        "'%s' is machine code for sm_%u%s and does not run on this GPU (sm_%u)", c->name, cubin.cc,
                        cubin.family ? "a" : "", c->work->cc);
                return -1;
        }
        c->arch_specific |= cubin.family != 0;
        note_machine(c, bytes, size);
        without_ptx(c, c->name);
        return 0;
}

static int read_input(struct contents *c, const struct ds_link_input *input)
{
        const uint8_t *bytes = (const uint8_t *)c->file + input->offset;
        const size_t size = input->size;
        const uint32_t magic = magic_of(bytes, size);

        c->name = input->name;
        c->member = 0;
        if (input->kind == DS_LINK_PTX)
                return read_text(c, (const char *)bytes, size);
        if (ds_cubin_is(bytes, size))
                return read_cubin(c, bytes, size);
        if (magic == CONTAINER_MAGIC)
                return read_container(c, "", bytes, size);
        if (ds_object_is_archive(bytes, size) || ds_object_is_host(bytes, size))
                return read_object(c, bytes, size);
        if (magic == LTO_MAGIC || input->kind == DS_LINK_LTO) {
                c->lto = 1;
                without_ptx(c, c->name);
                return 0;
        }
        if (input->kind == DS_LINK_ANY)
                return read_text(c, (const char *)bytes, size);
        ds_check_fail(c->result, DS_CHECK_INVALID_IMAGE, "'%s' is no cubin, fatbin, host object, library or LTO code",
                c->name);
        return -1;
}

/* --- the two ways ------------------------------------------------------------------------------------------------- */

/* Whether the device defines the function itself: printf, assert and the heap. */
static bool is_builtin(const char *name)
{
        static const char *const names[] = {"vprintf", "malloc", "free", "__assertfail"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

static const void *link_texts(struct contents *c, size_t *ret_size)
{
        static const int statuses[] = {
                [DS_PTX_LINK_E_INVALID] = DS_CHECK_INVALID_PTX,
                [DS_PTX_LINK_E_DUPLICATE] = DS_CHECK_INVALID_SOURCE,
                [DS_PTX_LINK_E_UNDEFINED] = DS_CHECK_UNKNOWN,
                [DS_PTX_LINK_E_APART] = DS_CHECK_INVALID_PTX,
        };
        char *text = NULL;
        int r = ds_ptx_link(c->texts, c->n_texts, ARENA_MAX, is_builtin, c->result->message, sizeof(c->result->message),
                &text, ret_size);

        if (r < 0)
                ds_check_fail(c->result, DS_CHECK_OUT_OF_MEMORY, "the inputs are too large to be linked");
        else
                c->result->status = r ? statuses[r] : 0;
        return text;
}

/* The kind as which nvJitLink reads an input: that of its bytes, whatever the client says. PTX stays PTX. */
static enum ds_link_kind kind_of(const struct ds_link_input *input, const void *bytes)
{
        if (input->kind == DS_LINK_PTX)
                return DS_LINK_PTX;
        if (magic_of(bytes, input->size) == LTO_MAGIC)
                return DS_LINK_LTO;
        if (magic_of(bytes, input->size) == CONTAINER_MAGIC)
                return DS_LINK_FATBIN;
        if (ds_cubin_is(bytes, input->size))
                return DS_LINK_CUBIN;
        if (ds_object_is_archive(bytes, input->size))
                return DS_LINK_LIBRARY;
        return ds_object_is_host(bytes, input->size) ? DS_LINK_OBJECT : (enum ds_link_kind)input->kind;
}

/* Links with nvJitLink. lto: some of the code is LTO code. ptx: the result is PTX. */
static void *run_library(struct contents *c, int lto, int ptx, size_t *ret_size)
{
        const uint32_t n = c->file->n_inputs;
        struct ds_nvjitlink_input *inputs = ds_alloc0(n, sizeof(*inputs));
        const struct ds_nvjitlink_options options = {.cc = c->work->cc,
                .arch_specific = c->arch_specific,
                .lto = lto,
                .ptx = ptx,
                .flags = c->file->flags,
                .max_registers = c->file->max_registers,
                .optimization = c->file->optimization};

        c->result->status = 0;
        c->result->message[0] = 0;
        if (!inputs) {
                no_memory(c);
                return NULL;
        }
        for (uint32_t i = 0; i < n; i++) {
                const struct ds_link_input *input = &c->inputs[i];
                const uint8_t *bytes = (const uint8_t *)c->file + input->offset;

                inputs[i] = (struct ds_nvjitlink_input){
                        .name = input->name, .bytes = bytes, .size = input->size, .kind = kind_of(input, bytes)};
        }
        return ds_nvjitlink_run(c->work->library, &options, inputs, n, c->work->words_fd, c->result, ret_size);
}

/*
 * Links machine code. LTO code alone becomes PTX if possible. nvJitLink refuses the option for LTO code in a link without
 * such code, so a library with LTO code is tried with that option only if the first attempt fails.
 */
static const void *link_machine(struct contents *c, size_t *ret_size)
{
        const void *image = NULL;

        if (c->lto && !c->machine && !c->n_texts)
                image = run_library(c, 1, 1, ret_size);
        if (!image && !c->work->simulated)
                image = run_library(c, c->lto, 0, ret_size);
        if (!image && !c->work->simulated && c->member_lto && !c->lto)
                image = run_library(c, 1, 0, ret_size);
        return image;
}

static const void *refuse_simulated(struct contents *c)
{
        ds_check_fail(c->result, DS_CHECK_NO_BINARY,
                "'%s' has no PTX, which the simulated GPU executes: link PTX, or compile it with nvcc -gencode "
                "arch=compute_NN,code=compute_NN",
                c->no_ptx);
        return NULL;
}

/* Whether the only input is linked code already. */
static int is_linked(const struct contents *c)
{
        return c->file->n_inputs == 1 && c->machine && c->executable && c->n_texts <= 1 &&
               !(c->inputs[0].kind == DS_LINK_OBJECT || c->inputs[0].kind == DS_LINK_LIBRARY);
}

static const void *link_contents(struct contents *c, size_t *ret_size)
{
        const int only_lto = c->lto && !c->machine && !c->n_texts;
        const void *image;
        int status;

        if (!c->work->simulated && is_linked(c)) {
                *ret_size = c->inputs[0].size;
                return (const uint8_t *)c->file + c->inputs[0].offset;
        }
        if (c->no_ptx[0] && c->work->simulated && !only_lto)
                return refuse_simulated(c);
        if (c->no_ptx[0] || !c->n_texts)
                return link_machine(c, ret_size);
        image = link_texts(c, ret_size);
        status = c->result->status;
        /* nvJitLink has the device runtime's own names, and accepts texts that cannot be one text or are too large */
        if (image || c->work->simulated || status == DS_CHECK_INVALID_SOURCE || !c->work->library->path[0])
                return image;
        return link_machine(c, ret_size);
}

const void *ds_link_work_do(const struct ds_link_work *work, struct ds_check_result *result, size_t *ret_size)
{
        uint32_t n;
        struct contents c = {.work = work, .file = work->bytes, .result = result};

        result->status = 0;
        result->message[0] = 0;
        c.inputs = ds_link_inputs(work->bytes, &n);
        for (uint32_t i = 0; i < n; i++)
                if (read_input(&c, &c.inputs[i]))
                        return NULL;
        result->message[0] = 0;
        if (!work->only_read)
                return link_contents(&c, ret_size);
        if (work->simulated && c.no_ptx[0] && !c.lto)
                return refuse_simulated(&c);
        *ret_size = strlen("read");
        return "read";
}
