/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: their form under the journal, and a journal that does not read, which costs lines but never blocks the
 * writer
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "supervisor/journal.h"
#include "util/log.h"
#include "util/macro.h"
#include "util/text.h"

static int journal;
static char path[64];

static void be_journal(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        snprintf(path, sizeof(path), "/tmp/ds-test-journal-%d", (int)getpid());
        strcpy(address.sun_path, path);
        journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(bind(journal, (struct sockaddr *)&address, sizeof(address)), 0);
        ds_log_setup("detshare-test", DS_LOG_INFO);
}

static void journal_gone(void)
{
        ds_journal_stop();
        close(journal);
        unlink(path);
}

static const char *entry(void)
{
        static char text[4096];
        ssize_t n = recv(journal, text, sizeof(text) - 1, MSG_DONTWAIT);

        text[n > 0 ? n : 0] = 0;
        return text;
}

static int has(const char *text, const char *field)
{
        char line[256];

        snprintf(line, sizeof(line), "\n%s\n", field);
        return strstr(text, line) != NULL;
}

Test(log, the_journal_gets_fields, .init = be_journal, .fini = journal_gone)
{
        const struct ds_log_about about = {.event = DS_EVENT_CLIENT_CLOSED, .session = 7, .pid = 42, .uid = 1000};
        const char *text;

        ds_journal_start("detshared", path);
        ds_journal_set_gpu("sim:h200");
        ds_log_about(&about, DS_LOG_WARNING, "it said %s", "no\nPRIORITY=0");
        text = entry();
        cr_assert_eq(strncmp(text, "PRIORITY=4\n", 11), 0);
        cr_assert(has(text, "MESSAGE=it said no?PRIORITY=0"), "%s", text);
        cr_assert(has(text, "SYSLOG_IDENTIFIER=detshared"));
        cr_assert(has(text, "DETSHARE_GPU=sim:h200"));
        cr_assert(has(text, "DETSHARE_CLIENT=7"));
        cr_assert(has(text, "DETSHARE_CLIENT_PID=42"));
        cr_assert(has(text, "DETSHARE_CLIENT_UID=1000"));
        cr_assert(strstr(text, "MESSAGE_ID="));
        ds_log(DS_LOG_INFO, "nobody");
        text = entry();
        cr_assert(has(text, "MESSAGE=nobody"));
        cr_assert_not(strstr(text, "CLIENT") || strstr(text, "MESSAGE_ID"));
        ds_log(DS_LOG_DEBUG, "not said");
        cr_assert_str_eq(entry(), "");
}

Test(log, a_journal_that_does_not_read_loses_lines_and_hears_of_it, .init = be_journal, .fini = journal_gone,
        .timeout = 60)
{
        unsigned heard = 0, lost = 0;
        const char *text;

        ds_journal_start("detshared", path);
        for (int i = 0; i < 5000; i++)
                ds_log(DS_LOG_INFO, "line %d", i);
        for (; *(text = entry()); heard++)
                ;
        cr_assert_lt(heard, 5000);
        cr_assert_gt(heard, 0);
        ds_log(DS_LOG_INFO, "after");
        text = entry();
        cr_assert_eq(sscanf(strstr(text, "MESSAGE="), "MESSAGE=%u lines were lost", &lost), 1, "%s", text);
        cr_assert_eq(heard + lost, 5000);
        cr_assert(has(entry(), "MESSAGE=after"));
        ds_log(DS_LOG_INFO, "once");
        cr_assert(has(entry(), "MESSAGE=once"));
}

Test(log, a_line_that_is_too_long_is_cut, .init = be_journal, .fini = journal_gone)
{
        char line[5000];
        const char *text;

        memset(line, 'a', sizeof(line));
        line[sizeof(line) - 1] = 0;
        ds_journal_start("detshared", path);
        ds_log(DS_LOG_INFO, "%s", line);
        text = entry();
        cr_assert(strstr(text, "MESSAGE=aaaa"));
        cr_assert_lt(strlen(text), 1200);
}

/* JOURNAL_STREAM counts only if it names the file behind standard error: the variable may be inherited from another
 * service. */
Test(log, journal_stream_is_believed_of_the_same_file_only)
{
        int fds[2], was = dup(STDERR_FILENO);
        char stream[64], text[128] = "";
        struct stat st;

        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        cr_assert_eq(fstat(fds[0], &st), 0);
        snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        setenv("JOURNAL_STREAM", stream, 1);
        cr_assert_not(ds_log_in_journal());
        dup2(fds[0], STDERR_FILENO);
        cr_assert(ds_log_in_journal());
        ds_log_setup("detshare-test", DS_LOG_INFO);
        ds_log(DS_LOG_ERROR, "said");
        dup2(was, STDERR_FILENO);
        cr_assert_gt(recv(fds[1], text, sizeof(text) - 1, MSG_DONTWAIT), 0);
        cr_assert_str_eq(text, "<3>detshare-test: said\n");
        setenv("JOURNAL_STREAM", "nonsense", 1);
        cr_assert_not(ds_log_in_journal());
        unsetenv("JOURNAL_STREAM");
        cr_assert_not(ds_log_in_journal());
        close(fds[0]);
        close(fds[1]);
        close(was);
}

Test(log, nobody_waits_for_a_journal_that_does_not_read_its_stream, .timeout = 60)
{
        int fds[2], was = dup(STDERR_FILENO);
        char stream[64];
        struct stat st;

        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        cr_assert_eq(fstat(fds[0], &st), 0);
        snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        setenv("JOURNAL_STREAM", stream, 1);
        dup2(fds[0], STDERR_FILENO);
        ds_log_setup("detshare-test", DS_LOG_INFO);
        for (int i = 0; i < 100000; i++)
                ds_log(DS_LOG_ERROR, "line %d", i); /* a writer that waits would never finish */
        dup2(was, STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        close(was);
}

/* --- clients' text in lines --------------------------------------------------------------------------------------- */

static char sunk[2048];

static void sink(const struct ds_log_about *about, enum ds_log_level level, const char *line)
{
        snprintf(sunk, sizeof(sunk), "%s", line);
}

Test(log, names_stay_in_their_line)
{
        static const struct {
                const char *from, *to;
        } names[] = {
                {"plain 'name' \"quoted\" %s%n 100%", "plain 'name' \"quoted\" %s%n 100%"},
                {"one\ntwo\r\nMESSAGE_ID=0\tx", "one?two??MESSAGE_ID=0?x"},
                {"\x1b[2J\x1b]0;title\a", "?[2J?]0;title?"},
                {"\x7f"
                 "del",
                        "?del"},
                {"\x9b"
                 "2J",
                        "?2J"}, /* CSI (control sequence introducer) of an 8-bit terminal */
                {"\xc2\x9b"
                 "2J\xc2\x85",
                        "??2J??"},                 /* CSI and NEL (next line) as UTF-8 */
                {"\xc0\x8a\xe0\x80\x8a", "?????"}, /* overlong encodings of line breaks */
                {"\xe2\x80\xae"
                 "abc\xe2\x81\xa6\xe2\x80\xa8",
                        "???abc??????"}, /* direction marks RLO and LRI, and a line separator */
                /* surrogate, above the last code point, invalid byte */
                {"\xed\xa0\x80\xf4\x90\x80\x80\xff", "????????"},
                {"\xc3", "?"}, /* a truncated UTF-8 sequence */
                {"Gr\xc3\xbc\xc3\x9f"
                 "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80",
                        "Gr\xc3\xbc\xc3\x9f"
                        "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80"},
        };
        char copy[100];

        ds_log_set_sink(sink);
        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                strcpy(copy, names[i].from);
                ds_text_make_safe(copy);
                cr_expect_str_eq(copy, names[i].to, "%zu: %s", i, copy);
                ds_log(DS_LOG_INFO, "%s", names[i].from);
                cr_expect_str_eq(sunk, names[i].to, "%zu: %s", i, sunk);
        }
        ds_log_set_sink(NULL);
}
