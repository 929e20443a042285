/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of top, explain and trace, and its limits for other users
 *
 * A hog fills the GPU with kernels. A victim of another user launches one behind them, three times. The daemon reports
 * that the victim waited behind the hog, to users who may see this. The device's time stands still while the victim is
 * outside of DetShare, so the order is always the same. Small Python programs check the output of detsharectl.
 *
 * usage: observe BUILD
 */
#include "tests/e2e/harness.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"

#define NOBODY 65534
#define STRANGER 65533
#define BLOCKS 528 /* blocks that fill the GPU, as in sm_percent.c */
#define SHARED 49152
#define ROUNDS 2000
#define HOG_KERNELS 6
#define TURNS 3
#define BACK_TO_BACK 3 /* requests without a gap; the client waits after each, so they count as three */

static const char *build;
static char scratch[64];
static int as_root;

/* --- clients --- */

static int hear(int fd, char what)
{
        char c = 0;

        return read(fd, &c, 1) == 1 && c == what;
}

static int say(int fd, char what)
{
        return write(fd, &what, 1) == 1;
}

static dsc_session *begin(const char *name, struct dsc_kernel *kernel)
{
        char path[300];
        uint64_t module;
        dsc_session *s;
        size_t size;
        char *ptx;
        int error;

        setenv("DETSHARE_NAME", name, 1);
        setenv("DETSHARE_SLO_MS", "1000", 1);
        s = dsc_get(&error);
        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        if (!h_check(s && ptx && !dsc_module_load(s, ptx, size + 1, NULL, 0, &module) &&
                             !dsc_kernel_get(s, module, "wait", kernel),
                    "%s has a session and a kernel: %s", name, dsc_message()))
                exit(1);
        free(ptx);
        return s;
}

static int launch(dsc_session *s, const struct dsc_kernel *kernel)
{
        struct {
                uint64_t p;
                uint32_t n, rounds;
        } params = {0, 0, ROUNDS};
        struct dsc_launch ask = {.kernel = kernel->id,
                .grid = {BLOCKS, 1, 1},
                .block = {32, 1, 1},
                .shared_bytes = SHARED,
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(s, 0, &ask);
}

static int hog(int in, int out)
{
        struct dsc_kernel kernel;
        dsc_session *s = begin("hog", &kernel);
        uint64_t unused[2];
        int r = 0;

        say(out, 'r');
        for (char c; read(in, &c, 1) == 1 && c == 'g';) {
                for (int i = 0; i < HOG_KERNELS; i++)
                        r |= launch(s, &kernel);
                /* this request's reply proves that the launches have arrived */
                r |= dsc_mem_info(s, &unused[0], &unused[1]);
                say(out, 's');
                if (!hear(in, 'w'))
                        break;
                r |= dsc_wait_all(s);
                say(out, 'd');
        }
        h_check(!r, "the hog's work: %s", dsc_message());
        return h_failures() != 0;
}

static int victim(int in, int out)
{
        struct dsc_kernel kernel;
        dsc_session *s;
        uint64_t now;
        int r = 0;

        if (as_root && setresuid(NOBODY, NOBODY, NOBODY))
                return 1;
        s = begin("victim", &kernel);
        r |= detshare_now(&now); /* from here on virtual time stands still while this thread is outside of DetShare */
        say(out, 'r');
        for (char c; read(in, &c, 1) == 1 && (c == 'g' || c == 'b');) {
                /* work of one instant is decided together, so the hog's launches must be older */
                r |= detshare_now(&now) || detshare_sleep_until(now + 1000);
                for (int i = 0; i < (c == 'b' ? BACK_TO_BACK : 1); i++)
                        r |= launch(s, &kernel) || dsc_wait_all(s) || detshare_now(&now);
                r |= detshare_sleep_until(now + 20000000);
                say(out, 'd');
        }
        h_check(!r, "the victim's work: %s", dsc_message());
        return h_failures() != 0;
}

/* --- detsharectl --- */

/* Returns detsharectl's exit status; its output goes to scratch/out and scratch/err. uid 0: the test's own user. */
static int ctl(unsigned uid, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int ctl(unsigned uid, const char *format, ...)
{
        char arguments[512], who[160] = "", line[8192];
        va_list list;
        int status;

        va_start(list, format);
        vsnprintf(arguments, sizeof(arguments), format, list);
        va_end(list);
        if (uid)
                snprintf(who, sizeof(who), "setpriv --reuid=%u --regid=%u --clear-groups ", uid, uid);
        snprintf(line, sizeof(line), "LD_LIBRARY_PATH=%s timeout 30 %s%s/detsharectl --socket %s %s >%s/out 2>%s/err",
                scratch, who, scratch, h_socket(), arguments, scratch, scratch);
        status = system(line);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs `top` on a terminal: it redraws on the alternate screen until q is pressed, then restores the screen. */
static const char check_live[] =
        "import os, pty, select, sys\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0: os.execv(sys.argv[1], [\"detsharectl\", \"top\", \"--delay\", \"0.1\"])\n"
        "seen, frames, asked = b\"\", 0, False\n"
        "while select.select([fd], [], [], 20)[0]:\n"
        "    try: more = os.read(fd, 65536)\n"
        "    except OSError: break\n"
        "    if not more: break\n"
        "    seen += more\n"
        "    if seen.count(b\"\\x1b[H\") >= 3 and not asked:\n"
        "        asked = True\n"
        "        os.write(fd, b\"q\")\n"
        "status = os.waitpid(pid, 0)[1]\n"
        "assert status == 0 and asked, (status, seen)\n"
        "assert seen.startswith(b\"\\x1b[?1049h\") and seen.rstrip().endswith(b\"\\x1b[?1049l\")\n"
        "assert b\"(sim)\" in seen and b\"victim\" in seen\n";

/* Runs a Python program with one argument. */
static int python(const char *program, const char *argument)
{
        char path[96], line[512];
        FILE *file;

        snprintf(path, sizeof(path), "%s/check.py", scratch);
        file = fopen(path, "w");
        if (!file)
                return -1;
        fputs(program, file);
        fclose(file);
        snprintf(line, sizeof(line), "LD_LIBRARY_PATH=%s DETSHARE_SOCKET=%s python3 %s %s", scratch, h_socket(), path,
                argument);
        return system(line);
}

/* Checks that the last output is JSON, and that the Python expression holds for it (d). */
static void json(const char *expression, const char *what)
{
        char line[8192];

        snprintf(line, sizeof(line),
                "python3 -c 'import json, sys\nd = json.load(open(\"%s/out\"))\nsys.exit(0 if (%s) else 1)'", scratch,
                expression);
        h_check(system(line) == 0, "%s: %s", what, expression);
}

static void prints(const char *pattern, const char *what)
{
        char line[8192];

        snprintf(line, sizeof(line), "grep -q -- '%s' %s/out || { cat %s/out %s/err; false; }", pattern, scratch,
                scratch, scratch);
        h_check(system(line) == 0, "%s: %s", what, pattern);
}

static int install(void)
{
        char line[PATH_MAX * 4];

        snprintf(scratch, sizeof(scratch), "/tmp/detshare-observe-XXXXXX");
        if (!mkdtemp(scratch))
                return -1;
        snprintf(line, sizeof(line), "chmod 755 %s && cp %s/detsharectl %s/libdetshare-client.so.0 %s", scratch, build,
                build, scratch);
        return system(line);
}

/* --- checks of the output --------- */

static void see_top(void)
{
        char path[128];

        h_check(ctl(0, "top --json") == 0, "top --json");
        json("d[\"simulated\"] and d[\"policy\"] == \"static\" and d[\"ls_active\"] == 0", "the head");
        json("sorted(c[\"name\"] for c in d[\"clients\"]) == [\"hog\", \"victim\"]", "the clients");
        json("all(c[\"requests\"] >= 2 and 0 < c[\"p50_ns\"] <= c[\"p99_ns\"] <= c[\"max_ns\"] for c in "
             "d[\"clients\"])",
                "requests");
        json("all(c[\"recent_within_slo\"] == c[\"recent_with_slo\"] > 0 and c[\"slo_ns\"] == 10**9 for c in "
             "d[\"clients\"])",
                "the SLO");
        json("all(0 < c[\"gpu_permille\"] <= 1000 and c[\"in_flight\"] == 0 and c[\"sms\"] > 0 for c in "
             "d[\"clients\"])",
                "shares");
        json("{c[\"name\"]: c for c in d[\"clients\"]}[\"hog\"][\"gpu_permille\"] > {c[\"name\"]: c for c in "
             "d[\"clients\"]}[\"victim\"][\"gpu_permille\"]",
                "the hog has the larger share of the GPU");
        h_check(ctl(0, "top") == 0, "top where there is no terminal");
        prints("(sim)", "the output says that the device is simulated");
        prints("policy static", "the head");
        prints(" victim ", "a row");
        h_check(ctl(0, "top --delay 0") == 2, "a delay of zero is refused");
        snprintf(path, sizeof(path), "%s/detsharectl", scratch);
        h_check(python(check_live, path) == 0, "top on a terminal");
}

static void see_explain(uint64_t hog_id, uint64_t victim_id)
{
        char pattern[64];

        h_check(ctl(0, "explain --json victim") == 0, "explain");
        json("len(d[\"requests\"]) == 3 and not any(r[\"active\"] for r in d[\"requests\"])", "three requests");
        json("all(r[\"total_ns\"] == sum(r[k + \"_ns\"] for k in (\"running\", \"behind\", \"device\", \"policy\", "
             "\"held\", \"depends\", \"host\")) for r in d[\"requests\"])",
                "the parts of each request sum up to its total time");
        json("all(r[\"behind_ns\"] * 3 > r[\"total_ns\"] and r[\"behind\"][0][\"name\"] == \"hog\" for r in "
             "d[\"requests\"])",
                "more than a third of each request is a wait behind the hog");
        json("d[\"requests\"][0][\"running_ns\"] > 0 and d[\"requests\"][0][\"rungs\"][0][\"sms\"] == 132", "it ran");
        h_check(ctl(0, "explain %llu", (unsigned long long)victim_id) == 0, "explain accepts the session's number");
        snprintf(pattern, sizeof(pattern), "behind client %llu (hog)", (unsigned long long)hog_id);
        h_check(ctl(0, "explain victim") == 0, "in words");
        prints("Of the last request.s ", "words");
        prints("ran on rung ", "words");
        prints("BEHIND OTHERS", "the table");
        h_check(ctl(0, "explain nobody-is-called-that") == 6, "an unknown name is refused");
        h_check(ctl(0, "explain 999999") == 6, "an unknown number is refused");
        h_check(ctl(0, "explain") == 2, "explain without a client is refused");
        if (!as_root)
                return;
        h_check(ctl(NOBODY, "explain --json victim") == 0, "the victim's user may explain it");
        json("d[\"requests\"][0][\"behind\"] and all(\"id\" not in b and \"name\" not in b for r in d[\"requests\"] "
             "for "
             "b in r[\"behind\"])",
                "the victim's user does not learn which session is the hog");
        h_check(ctl(NOBODY, "explain hog") == 6, "the victim's user may not explain the hog");
        h_check(ctl(NOBODY, "top --json") == 0, "every user may run top");
        json("[c[\"name\"] for c in d[\"clients\"]] == [\"victim\"]", "top shows a user only the user's own sessions");
}

static const char check_timeline[] =
        "import json, sys\n"
        "d = json.load(open(sys.argv[1]))\n"
        "e = d['traceEvents']\n"
        "assert d['otherData']['simulated'] and d['otherData']['lost'] == 0\n"
        "names = {x['pid']: x['args']['name'] for x in e if x['ph'] == 'M' and x['name'] == 'process_name'}\n"
        "hog = [p for p, n in names.items() if '(hog)' in n and n.endswith(', be')]\n"
        "victim = [p for p, n in names.items() if '(victim)' in n]\n"
        "assert len(hog) == 1 and len(victim) == 1 and 'sim' in names[1], names\n"
        "threads = {(x['pid'], x['tid']): x['args']['name'] for x in e if x['ph'] == 'M' and x['name'] == "
        "'thread_name'}\n"
        "assert 'rung 0: 132 SMs, TPC 0-65' in threads.values(), threads\n"
        "x = [s for s in e if s['ph'] == 'X' and s['name'] == 'wait']\n"
        "of_hog = [s for s in x if s['pid'] == hog[0]]\n"
        "of_victim = [s for s in x if s['pid'] == victim[0]]\n"
        "on_device = [s for s in x if s['pid'] == 1]\n"
        "assert (len(of_hog), len(of_victim)) == (18, 3) and len(on_device) == 21\n"
        "assert all(threads[(s['pid'], s['tid'])].startswith('rung') for s in on_device)\n"
        "assert any('(hog)' in s['args'].get('behind', '') for s in of_victim), of_victim\n"
        "assert all(s['dur'] > 0 and s['args']['blocks'] == 528 and s['args']['sms'] > 0 for s in x)\n"
        "tracks = {}\n"
        "for s in x: tracks.setdefault((s['pid'], s['tid']), []).append((s['ts'], s['ts'] + s['dur']))\n"
        "for t in tracks.values():\n"
        "    t.sort()\n"
        "    assert all(b[0] >= a[1] - 0.0015 for a, b in zip(t, t[1:])), t\n"
        "b = {s['id'] for s in e if s['ph'] == 'b'}\n"
        "assert b == {s['id'] for s in e if s['ph'] == 'e'} and len(b) >= 5\n"
        "policies = [s['name'] for s in e if s['ph'] == 'i' and s['name'].startswith('policy')]\n"
        "assert policies == ['policy fifo', 'policy static'], policies\n"
        "assert [s for s in e if s['ph'] == 'i' and s['name'].startswith('mask: rung 0 to')]\n"
        "assert {s['id'] for s in e if s['ph'] == 's'} == {s['id'] for s in e if s['ph'] == 'f'} != set()\n";

static void see_trace(void)
{
        char path[128];

        h_check(ctl(0, "trace start") == 1, "a second trace at the same time is refused");
        h_check(ctl(0, "trace stop /nonexistent/file") == 1, "a file that cannot be written is refused");
        h_check(ctl(0, "trace stop %s/timeline.json", scratch) == 0, "trace stop");
        prints("21 operations, .* of 2 clients (sim)", "stop prints the number of operations and clients");
        snprintf(path, sizeof(path), "%s/timeline.json", scratch);
        h_check(python(check_timeline, path) == 0, "the timeline");
        h_check(ctl(0, "trace stop %s/timeline.json", scratch) == 6, "a second stop is refused, since no trace runs");
        h_check(ctl(0, "trace start --size 1K") == 1, "a trace of 1 KiB is refused");
        h_check(ctl(0, "trace start --seconds 0") == 2, "a trace of 0 seconds is refused");
        h_check(ctl(0, "trace pause") == 2, "an unknown word is refused");
        h_check(ctl(0, "trace start --seconds 2 --size 1M") == 0 && ctl(0, "trace stop %s/t", scratch) == 0,
                "a trace of 2 seconds starts and stops");
        if (as_root)
                h_check(ctl(NOBODY, "trace start") == 4 && ctl(NOBODY, "trace stop /dev/null") == 4,
                        "only administrators may trace");
}

/* A user without a session requests the sessions of others. */
static int stranger(int in, int out)
{
        uint64_t hog_id = 0;
        int fd;

        if (setresgid(STRANGER, STRANGER, STRANGER) || setresuid(STRANGER, STRANGER, STRANGER))
                return 1;
        fd = h_hello(1, NULL, NULL);
        h_check(fd >= 0 && read(in, &hog_id, sizeof(hog_id)) == sizeof(hog_id), "a stranger comes");
        for (uint64_t id = hog_id; id < hog_id + 1001; id += 1000) {
                H_REQUEST(Explain, EXPLAIN, EXPLAIN, explain);
                body.session = id;
                h_check(h_ask_status(fd, &request, NULL, 0, 5000) == DETSHARE__STATUS__DENIED,
                        "others' sessions are denied alike, whether they exist or not");
        }
        {
                H_REQUEST(TraceStart, TRACE_START, TRACE_START, trace_start);
                h_check(h_ask_status(fd, &request, NULL, 0, 5000) == DETSHARE__STATUS__DENIED,
                        "a stranger may not start a trace");
        }
        {
                H_REQUEST(TraceStop, TRACE_STOP, TRACE_STOP, trace_stop);
                h_check(h_ask_status(fd, &request, NULL, 0, 5000) == DETSHARE__STATUS__DENIED,
                        "a stranger may not stop a trace");
        }
        {
                H_REQUEST(ListActivity, LIST_ACTIVITY, LIST_ACTIVITY, list_activity);
                Detshare__Reply *reply = h_ask(fd, &request, NULL, 0, 5000);
                h_check(reply && reply->status == 0 && reply->list_activity && reply->list_activity->n_sessions == 0,
                        "nobody's activity");
                if (reply)
                        detshare__reply__free_unpacked(reply, NULL);
        }
        close(fd);
        say(out, 'd');
        return h_failures() != 0;
}

/* --- the whole test --------------- */

static uint64_t session_of(pid_t pid)
{
        Detshare__Reply *reply;
        uint64_t session = 0;
        int fd = h_hello(1, NULL, NULL);
        H_REQUEST(ListClients, LIST_CLIENTS, LIST_CLIENTS, list_clients);

        reply = h_call(fd, &request, NULL);
        for (size_t i = 0; reply && reply->list_clients && i < reply->list_clients->n_clients; i++)
                if (reply->list_clients->clients[i]->pid == (uint32_t)pid)
                        session = reply->list_clients->clients[i]->session;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        close(fd);
        return session;
}

static void end(struct h_child *child, const char *what)
{
        int status;

        say(child->to, 'q');
        close(child->to);
        h_check(waitpid(child->pid, &status, 0) == child->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                "%s ends well", what);
        close(child->from);
}

static void live(const struct h_child *a, const struct h_child *b)
{
        h_check(hear(a->from, 'r') && hear(b->from, 'r'), "two clients connect");
        h_check(ctl(0, "trace start") == 0, "trace start");
        for (int i = 0; i < TURNS; i++) {
                if (i == TURNS - 1)
                        h_check(ctl(0, "set-policy static ls_percent=50") == 0, "another policy");
                h_check(say(b->to, 'g') && hear(b->from, 's') && say(a->to, 'g') && hear(a->from, 'd') &&
                                say(b->to, 'w') && hear(b->from, 'd'),
                        "turn %d", i);
        }
}

int main(int argc, char **argv)
{
        static const char *const extra[] = {"--policy", "fifo", NULL};
        struct h_child a, b, c;
        struct h_status before;
        char line[PATH_MAX + 16];
        uint64_t hog_id;

        if (argc < 2)
                return 2;
        build = argv[1];
        if (!h_needs_sim("sim:h200", "the test expects the model's behaviour"))
                return h_finish();
        as_root = getuid() == 0;
        h_check(install() == 0, "a directory for detsharectl");
        h_daemon_start(build, "sim:h200", extra);
        h_open_socket_directory();
        before = h_quiet();
        a = h_spawn(victim, "ring");
        b = h_spawn(hog, "ring");
        live(&a, &b);
        hog_id = session_of(b.pid);
        see_top();
        see_explain(hog_id, session_of(a.pid));
        see_trace();
        h_check(say(a.to, 'b') && hear(a.from, 'd') && ctl(0, "explain victim --json") == 0,
                "explain after three more requests without a pause");
        json("len(d[\"requests\"]) == 6 and all(r[\"operations\"] == 1 and not r[\"host_ns\"] for r in "
             "d[\"requests\"][3:])",
                "each of the three is its own request");
        if (as_root) {
                c = h_spawn(stranger, "ring");
                h_check(write(c.to, &hog_id, sizeof(hog_id)) == sizeof(hog_id) && hear(c.from, 'd'), "a stranger");
                end(&c, "the stranger");
        }
        end(&a, "the victim");
        end(&b, "the hog");
        h_baseline(&before, 5000, "afterwards");
        snprintf(line, sizeof(line), "rm -rf %s", scratch);
        h_check(system(line) == 0, "the directory is removed");
        return h_finish();
}
