/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/saved.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/message.h"
#include "supervisor/unpack.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define LENGTH_BYTES 4u
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct ds_saved_writer {
        int fd;
        uint64_t at;
};

struct ds_saved_reader {
        const uint8_t *bytes;
        size_t size, at;
        ProtobufCMessage *message;
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

int ds_saved_writer_new(ds_saved_writer **ret)
{
        ds_saved_writer *writer = ds_alloc0(1, sizeof(*writer));

        if (!writer)
                return ds_error_origin(-ENOMEM);
        writer->fd = memfd_create("detshare-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (writer->fd < 0) {
                int r = -errno;

                ds_free(writer);
                return ds_error_origin(r);
        }
        *ret = writer;
        return 0;
}

ds_saved_writer *ds_saved_writer_free(ds_saved_writer *writer)
{
        if (!writer)
                return NULL;
        ds_close(writer->fd);
        return ds_free(writer);
}

static int write_all(int fd, const uint8_t *bytes, size_t size, uint64_t at)
{
        while (size > 0) {
                ssize_t n = pwrite(fd, bytes, size, (off_t)at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return ds_error_origin(n < 0 ? -errno : -EIO);
                at += (size_t)n;
                bytes += n;
                size -= (size_t)n;
        }
        return 0;
}

int ds_saved_write(ds_saved_writer *writer, const Detshare__Internal__SavedRecord *record)
{
        uint64_t before = writer->at;
        uint8_t length[LENGTH_BYTES];
        const uint8_t *bytes;
        size_t size;
        int r;

        r = ds_message_pack(&record->base, DS_MESSAGE_MAX, &bytes, &size);
        if (r == DS_MESSAGE_E_TOO_LARGE || writer->at + LENGTH_BYTES + size > DS_SAVED_MAX)
                return DS_SAVED_E_FULL;
        for (unsigned i = 0; i < LENGTH_BYTES; i++)
                length[i] = (uint8_t)(size >> (8 * i));
        r = write_all(writer->fd, length, sizeof(length), before);
        if (!r)
                r = write_all(writer->fd, bytes, size, before + sizeof(length));
        writer->at = before + sizeof(length) + size;
        if (r)
                (void)ds_saved_back_to(writer, before);
        return ds_error_trace(r);
}

uint64_t ds_saved_size(const Detshare__Internal__SavedRecord *record)
{
        size_t size = protobuf_c_message_get_packed_size(&record->base);

        return size > DS_MESSAGE_MAX ? DS_SAVED_MAX + UINT64_C(1) : LENGTH_BYTES + size;
}

uint64_t ds_saved_tell(const ds_saved_writer *writer)
{
        return writer->at;
}

int ds_saved_back_to(ds_saved_writer *writer, uint64_t at)
{
        assert(at <= writer->at);
        writer->at = at;
        return ftruncate(writer->fd, (off_t)at) < 0 ? ds_error_origin(-errno) : 0;
}

int ds_saved_finish(ds_saved_writer *writer, int *ret_fd)
{
        if (fcntl(writer->fd, F_ADD_SEALS, SEALS) < 0)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(writer->fd);
        return 0;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

int ds_saved_reader_new(int fd, ds_saved_reader **ret)
{
        int seals = fcntl(fd, F_GET_SEALS);
        ds_saved_reader *reader;
        struct stat st;
        void *map;

        if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > DS_SAVED_MAX)
                return DS_SAVED_E_DAMAGED;
        reader = ds_alloc0(1, sizeof(*reader));
        if (!reader)
                return ds_error_origin(-ENOMEM);
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
                int r = -errno;

                ds_free(reader);
                return ds_error_origin(r);
        }
        reader->bytes = map;
        reader->size = (size_t)st.st_size;
        *ret = reader;
        return 0;
}

ds_saved_reader *ds_saved_reader_free(ds_saved_reader *reader)
{
        if (!reader)
                return NULL;
        ds_unpack_free(reader->message);
        munmap((void *)(uintptr_t)reader->bytes, reader->size);
        return ds_free(reader);
}

static uint32_t length_at(const uint8_t *p)
{
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int ds_saved_next(ds_saved_reader *reader, const Detshare__Internal__SavedRecord **ret)
{
        size_t left = reader->size - reader->at;
        const uint8_t *bytes = reader->bytes + reader->at;
        const Detshare__Internal__SavedRecord *record;
        uint32_t length;

        reader->message = ds_unpack_free(reader->message);
        if (!left)
                return DS_SAVED_E_END;
        length = left >= LENGTH_BYTES ? length_at(bytes) : 0;
        if (!length || length > DS_MESSAGE_MAX || length > left - LENGTH_BYTES) {
                reader->at = reader->size;
                return DS_SAVED_E_DAMAGED;
        }
        reader->at += LENGTH_BYTES + length;
        if (ds_unpack(&detshare__internal__saved_record__descriptor, bytes + LENGTH_BYTES, length, DS_UNPACK_BUDGET,
                    &reader->message))
                return DS_SAVED_E_DAMAGED;
        record = (const Detshare__Internal__SavedRecord *)reader->message;
        if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY__NOT_SET)
                return DS_SAVED_E_DAMAGED;
        *ret = record;
        return 0;
}

/* --- embedded files ----------------------------------------------------------------------------------------------- */

int ds_saved_may_lie_inside(int fd, int more_seals, uint64_t *ret_bytes)
{
        const int want = F_SEAL_SHRINK | F_SEAL_GROW | more_seals, seals = fcntl(fd, F_GET_SEALS);
        struct stat st;

        if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0 || st.st_size < 0 ||
                st.st_size > (off_t)DS_SAVED_INSIDE_MAX)
                return 0;
        *ret_bytes = (uint64_t)st.st_size;
        return 1;
}

int ds_saved_read_file(int fd, uint8_t *bytes, size_t size)
{
        for (size_t at = 0; at < size;) {
                ssize_t n = pread(fd, bytes + at, size - at, (off_t)at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return ds_error_origin(n < 0 ? -errno : -EIO);
                at += (size_t)n;
        }
        return 0;
}

int ds_saved_make_file(const Detshare__Internal__SavedContent *content, int more_seals, int *ret_fd)
{
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        if (content->bytes.len > DS_SAVED_INSIDE_MAX)
                return DS_SAVED_E_DAMAGED;
        fd = memfd_create("detshare-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return ds_error_origin(-errno);
        r = write_all(fd, content->bytes.data, content->bytes.len, 0);
        if (r)
                return ds_error_trace(r);
        if (fcntl(fd, F_ADD_SEALS, (SEALS & ~F_SEAL_WRITE) | more_seals) < 0)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}
