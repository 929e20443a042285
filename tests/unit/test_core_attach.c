/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core when the daemon sends a wrong submission ring or completion page
 *
 * If the file of a ring or page is too short, or its owner can still shorten it, a later write would end the program by
 * SIGBUS. The client refuses such a file on arrival, ends the session and reports the reason.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

static const struct offer {
        const char *words; /* text that the error message must contain; NULL: nothing is wrong with this offer */
        size_t n_fds;
        uint32_t version, slots;
        size_t ring_bytes, page_bytes;
        int ring_seals, page_seals;
        int no_memfd;
} offers[] = {
#define SEALED F_SEAL_SHRINK | F_SEAL_GROW
        {NULL, 3, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, SEALED, SEALED, 0},
        {"missing", 2, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, SEALED, SEALED, 0},
        {"missing", 0, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, SEALED, SEALED, 0},
        {"another version", 3, DS_WIRE_VERSION + 1, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, SEALED, SEALED, 0},
        {"too short", 3, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES - 4096, DS_PAGE_BYTES, SEALED, SEALED, 0},
        {"too short", 3, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES - 4096, SEALED, SEALED, 0},
        {"sealed against shrinking", 3, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, F_SEAL_GROW,
                SEALED, 0},
        {"sealed against shrinking", 3, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, SEALED,
                F_SEAL_GROW, 0},
        {"sealed against shrinking", 3, DS_WIRE_VERSION, DS_RING_SLOTS, DS_RING_BYTES, DS_PAGE_BYTES, SEALED, SEALED,
                1},
        {"header", 3, DS_WIRE_VERSION, DS_RING_SLOTS * 2, DS_RING_BYTES, DS_PAGE_BYTES, SEALED, SEALED, 0},
#undef SEALED
};

static struct fake fake;

static int file(size_t bytes, int seals, uint32_t slots)
{
        const struct ds_ring_header header = {
                .version = DS_WIRE_VERSION, .bytes = DS_RING_BYTES, .slots = slots, .slot_bytes = DS_RING_SLOT};
        int fd = memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
        if (slots)
                cr_assert_eq(pwrite(fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static enum fake_verdict attach(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        const struct offer *offer = f->user;
        Detshare__AttachReply attached = DETSHARE__ATTACH_REPLY__INIT;
        int fds[3];

        if (request->call_case != DETSHARE__REQUEST__CALL_ATTACH)
                return FAKE_DEFAULT;
        fds[0] = offer->no_memfd ? eventfd(0, EFD_CLOEXEC) : file(offer->ring_bytes, offer->ring_seals, offer->slots);
        fds[1] = file(offer->page_bytes, offer->page_seals, 0);
        fds[2] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        attached.wire_version = offer->version;
        attached.ring_bytes = DS_RING_BYTES;
        attached.page_bytes = DS_PAGE_BYTES;
        reply->result_case = DETSHARE__REPLY__RESULT_ATTACH;
        reply->attach = &attached;
        fake_reply(f, reply, fds, offer->n_fds);
        for (int i = 0; i < 3; i++)
                close(fds[i]);
        return FAKE_SILENT;
}

/* Offers each ring and page to a client in a process of its own. */
static void offered(size_t i)
{
        const struct dsc_launch launch = {.kernel = 1};
        dsc_session *s;
        int error, r;

        fake.hook = attach;
        fake.user = (void *)&offers[i];
        fake_start(&fake);
        s = dsc_get(&error);
        cr_assert(s, "%d %s", error, dsc_message());
        r = dsc_launch(s, 0, &launch);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_ATTACH], 1);
        if (!offers[i].words) {
                cr_assert_eq(r, 0, "%d %s", r, dsc_message());
                cr_assert_eq(detshare_connected(), 1);
                return;
        }
        cr_assert_neq(r, 0);
        cr_assert(strstr(dsc_message(), offers[i].words), "%s, not %s", dsc_message(), offers[i].words);
        cr_assert_eq(dsc_launch(s, 0, &launch), 999, "the session is over");
        cr_assert_eq(detshare_connected(), 0);
}

Test(core_attach, what_was_agreed_on)
{
        offered(0);
}

Test(core_attach, files_are_missing)
{
        offered(1);
}

Test(core_attach, no_file_at_all)
{
        offered(2);
}

Test(core_attach, another_version)
{
        offered(3);
}

Test(core_attach, a_short_ring)
{
        offered(4);
}

Test(core_attach, a_short_page)
{
        offered(5);
}

Test(core_attach, a_ring_that_may_shrink)
{
        offered(6);
}

Test(core_attach, a_page_that_may_shrink)
{
        offered(7);
}

Test(core_attach, a_ring_that_is_no_memory)
{
        offered(8);
}

Test(core_attach, a_header_of_another_ring)
{
        offered(9);
}
