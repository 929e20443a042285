/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading NVIDIA's driver library
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "cuda/genuine.h"

#define LIBRARY "libcuda.so.1"
#define NOTE_OWNER "DetShare"
#define NOTES_MAX 4096
#define SEGMENTS_MAX 64

static const char *const folders[] = {
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/usr/lib/wsl/lib",
};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static void *library;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int started;
static CUresult start_result;

/* 1: the ELF notes include this library's note. */
static int notes_are_ours(const char *notes, size_t size)
{
        Elf64_Nhdr note;
        size_t at = 0;

        while (size - at >= sizeof(note)) {
                size_t name, content;

                memcpy(&note, notes + at, sizeof(note));
                at += sizeof(note);
                name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
                content = ((size_t)note.n_descsz + 3) & ~(size_t)3;
                if (name > size - at || content > size - at - name)
                        return 0;
                if (note.n_namesz == sizeof(NOTE_OWNER) && !memcmp(notes + at, NOTE_OWNER, sizeof(NOTE_OWNER)))
                        return 1;
                at += name + content;
        }
        return 0;
}

static int segment_is_ours(int fd, off_t at)
{
        char notes[NOTES_MAX];
        Elf64_Phdr segment;
        ssize_t n;

        if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment) || segment.p_type != PT_NOTE)
                return 0;
        n = pread(fd, notes, segment.p_filesz < sizeof(notes) ? segment.p_filesz : sizeof(notes),
                (off_t)segment.p_offset);
        return n > 0 && notes_are_ours(notes, (size_t)n);
}

/* 1: the file is an ELF library without this library's note. */
static int is_genuine(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ours = 0;
        Elf64_Ehdr header;

        if (fd < 0)
                return 0;
        if (pread(fd, &header, sizeof(header), 0) != sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
                header.e_phentsize != sizeof(Elf64_Phdr)) {
                close(fd);
                return 0;
        }
        for (unsigned i = 0; i < header.e_phnum && i < SEGMENTS_MAX && !ours; i++)
                ours = segment_is_ours(fd, (off_t)(header.e_phoff + i * sizeof(Elf64_Phdr)));
        close(fd);
        return !ours;
}

static void *load_file(const char *path)
{
        return is_genuine(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *load_from(const char *folder, size_t length)
{
        char path[4096];
        int n = snprintf(path, sizeof(path), "%.*s/" LIBRARY, (int)length, folder);

        return length > 0 && n > 0 && (size_t)n < sizeof(path) ? load_file(path) : NULL;
}

static void load(void)
{
        const char *named = getenv("DETSHARE_LIBCUDA"), *path = getenv("LD_LIBRARY_PATH");

        if (named && named[0]) {
                library = load_file(named);
                return;
        }
        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && !library; i++)
                library = load_from(folders[i], strlen(folders[i]));
        while (path && !library) {
                size_t length = strcspn(path, ":");

                library = load_from(path, length);
                path = path[length] ? path + length + 1 : NULL;
        }
}

void *dcu_genuine_symbol(const char *name)
{
        pthread_once(&load_once, load);
        return library ? dlsym(library, name) : NULL;
}

int dcu_genuine_version(void)
{
        CUresult (*get)(int *);
        void *symbol = dcu_genuine_symbol("cuDriverGetVersion");
        int version = 0;

        memcpy(&get, &symbol, sizeof(get));
        return get && get(&version) == CUDA_SUCCESS ? version : 0;
}

/* Calls the genuine cuInit with CUDA_VISIBLE_DEVICES set to the daemon's GPU, so that the GPU is device 0. The
 * genuine driver reads the variable only then. */
static CUresult start_seeing(CUresult (*init)(unsigned int), const uint8_t uuid[16])
{
        const char *set = getenv("CUDA_VISIBLE_DEVICES");
        char *before = set ? strdup(set) : NULL, text[DSC_UUID_TEXT];
        CUresult r;

        if (set && !before)
                return CUDA_ERROR_OUT_OF_MEMORY;
        dsc_uuid_text(uuid, text);
        if (setenv("CUDA_VISIBLE_DEVICES", text, 1) != 0) {
                free(before);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        r = init(0);
        if (before)
                setenv("CUDA_VISIBLE_DEVICES", before, 1);
        else
                unsetenv("CUDA_VISIBLE_DEVICES");
        free(before);
        return r;
}

static CUresult start(const uint8_t uuid[16])
{
        CUresult (*init)(unsigned int);
        void *symbol = dcu_genuine_symbol("cuInit");

        if (!symbol)
                return CUDA_ERROR_NOT_FOUND;
        memcpy(&init, &symbol, sizeof(init));
        return dsc_gpus_present() > 1 ? start_seeing(init, uuid) : init(0);
}

CUresult dcu_genuine_start(const uint8_t uuid[16])
{
        CUresult r;

        pthread_mutex_lock(&start_lock);
        if (!started) {
                start_result = start(uuid);
                started = 1;
        }
        r = start_result;
        pthread_mutex_unlock(&start_lock);
        return r;
}
