/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl top
 *
 * On a terminal it draws the table every second on the alternate screen until q is pressed, with ANSI escape sequences
 * only. Without a terminal, and with --once or --json, it prints once.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/ctl.h"

struct top {
        int once, json;
        double delay;
        struct dsc_status status;
        struct dsc_activity_all all;
        struct dsc_client *clients;
        struct dsc_activity *activities;
        size_t n_clients, n_activities;
        struct entry *entries; /* clients that may have work, sorted: the busiest first */
        size_t n_entries;
};

struct entry {
        const struct dsc_client *client;
        struct dsc_activity now; /* client's current figures; zeros if the worker does not know the session yet */
};

enum { COLUMN_CLASS = 2, COLUMN_SLO = 10 };

static volatile sig_atomic_t ended;

static void end_signal(int number)
{
        ended = number;
}

/* --- data ------------------------- */

static int by_session(const void *a, const void *b)
{
        const struct dsc_activity *x = a, *y = b;
        return (x->session > y->session) - (x->session < y->session);
}

/* Compares two entries for qsort(): the busiest client comes first. */
static int by_share(const void *a, const void *b)
{
        const struct entry *x = a, *y = b;
        if (x->now.share_permille != y->now.share_permille)
                return x->now.share_permille < y->now.share_permille ? 1 : -1;
        return (x->client->session > y->client->session) - (x->client->session < y->client->session);
}

static void forget(struct top *top)
{
        free(top->clients);
        free(top->activities);
        free(top->entries);
        top->clients = NULL;
        top->activities = NULL;
        top->entries = NULL;
        top->n_entries = 0;
}

static int join(struct top *top)
{
        top->entries = calloc(top->n_clients + 1, sizeof(*top->entries));
        if (!top->entries)
                return CTL_FAILED;
        for (size_t i = 0; i < top->n_clients; i++) {
                const struct dsc_activity key = {.session = top->clients[i].session};
                const struct dsc_activity *now =
                        bsearch(&key, top->activities, top->n_activities, sizeof(*top->activities), by_session);
                struct entry *entry = &top->entries[top->n_entries];
                if (top->clients[i].control_only)
                        continue;
                entry->client = &top->clients[i];
                if (now)
                        entry->now = *now;
                else
                        entry->now.rung = UINT32_MAX;
                top->n_entries++;
        }
        qsort(top->entries, top->n_entries, sizeof(*top->entries), by_share);
        return 0;
}

/* Requests the current figures. 0, or an exit code after an error message. */
static int look(dsc_session *s, struct top *top)
{
        forget(top);
        int r = dsc_control_status(s, &top->status);
        if (!r)
                r = dsc_control_clients(s, &top->clients, &top->n_clients);
        if (!r)
                r = dsc_control_activity(s, &top->activities, &top->n_activities, &top->all);
        if (r)
                return ctl_fail(r, "cannot get the activity of the clients");
        r = join(top);
        if (r)
                ctl_complain("out of memory");
        return r;
}

/* --- tables and text -------------- */

static void head(const struct top *top, struct ctl_text *text)
{
        const struct dsc_status *s = &top->status;
        char a[32], b[32];
        char line[640];
        snprintf(line, sizeof(line), "%s%s   policy %s   %s of %s used", s->device[0] ? s->device : "N/A",
                s->simulated ? " (sim)" : "", s->policy[0] ? s->policy : "N/A", ctl_bytes(s->memory_used, a),
                ctl_bytes(s->memory_total, b));
        ctl_wrap(text->file, line, 0, 0, ctl_width());
        if (s->policy_fallback[0]) {
                snprintf(line, sizeof(line), "%s%s: %s is in force instead%s", ctl_colour(CTL_WARN), s->policy_fallback,
                        s->policy, ctl_colour(CTL_PLAIN));
                ctl_wrap(text->file, line, 0, 0, ctl_width());
        }
        snprintf(line, sizeof(line),
                "%" PRIu32 " sessions, %" PRIu32 " latency-sensitive, %" PRIu32
                " of them with a request   loans" CTL_HARD_BLANK "%" PRIu64 "   migrations" CTL_HARD_BLANK "%" PRIu64
                "   quiesces" CTL_HARD_BLANK "%" PRIu64,
                s->sessions, s->sessions_ls, top->all.ls_active, top->all.loans, top->all.migrations, s->quiesces);
        ctl_wrap(text->file, line, 0, 0, ctl_width());
}

static void slo_cell(const struct dsc_activity *now, char cell[static 32])
{
        if (!now->recent_judged)
                snprintf(cell, 32, "-");
        else
                snprintf(cell, 32, "%.1f %%", 100.0 * (double)now->recent_met / (double)now->recent_judged);
}

/* Returns green if every recent request met the objective, red if more than one in a hundred missed it. */
static enum ctl_colour slo_colour(const struct dsc_activity *now)
{
        if (!now->recent_judged)
                return CTL_PLAIN;
        if (now->recent_met == now->recent_judged)
                return CTL_GOOD;
        return (now->recent_judged - now->recent_met) * 100 > now->recent_judged ? CTL_BAD : CTL_WARN;
}

static int add_row(const struct entry *entry, struct ctl_table *table)
{
        const struct dsc_activity *now = &entry->now;
        char id[32], queued[32], flight[32], rung[32] = "-", sms[32] = "-", share[32], p50[32] = "-", p99[32] = "-";
        char slo[32], memory[32];
        snprintf(id, sizeof(id), "%" PRIu64, entry->client->session);
        snprintf(queued, sizeof(queued), "%" PRIu32, now->queued);
        snprintf(flight, sizeof(flight), "%" PRIu32, now->in_flight);
        if (now->rung != UINT32_MAX) {
                snprintf(rung, sizeof(rung), "%" PRIu32, now->rung);
                snprintf(sms, sizeof(sms), "%" PRIu32, now->rung_sms);
        }
        snprintf(share, sizeof(share), "%.1f %%", now->share_permille / 10.0);
        if (now->recent_requests) {
                ctl_time(now->p50_ns, p50);
                ctl_time(now->p99_ns, p99);
        }
        slo_cell(now, slo);
        const char *class_name = entry->client->is_ls ? "ls" : "be";
        const int r =
                ctl_table_row(table, (const char *const[]){id, entry->client->name, class_name, queued, flight, rung,
                                             sms, share, p50, p99, slo, ctl_bytes(entry->client->memory_used, memory)});
        ctl_table_colour(table, COLUMN_CLASS, ctl_class_colour(class_name));
        ctl_table_colour(table, COLUMN_SLO, slo_colour(now));
        return r;
}

static const struct ctl_column columns[] = {
        {"ID", 1, 0, 0},
        {"NAME", 0, 12, 0},
        {"CLASS", 0, 0, 0},
        {"QUEUED", 1, 0, 2},
        {"IN FLIGHT", 1, 0, 4},
        {"RUNG", 1, 0, 5},
        {"SMS", 1, 0, 1},
        {"GPU TIME", 1, 0, 0},
        {"P50", 1, 0, 0},
        {"P99", 1, 0, 0},
        {"IN SLO", 1, 0, 0},
        {"MEMORY", 1, 0, 3},
};

static int rows(const struct top *top, struct ctl_text *text)
{
        struct ctl_table *table = ctl_table_new(1);
        int r = 0;
        if (!table) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_columns(table, columns, sizeof(columns) / sizeof(columns[0]));
        for (size_t i = 0; i < top->n_entries && !r; i++)
                r = add_row(&top->entries[i], table);
        if (!r && top->n_entries)
                r = ctl_table_draw(table, text);
        else if (!r)
                fprintf(text->file, "no clients\n");
        ctl_table_free(table);
        return r;
}

/* --- JSON ------------------------- */

static void json_entry(const struct entry *entry, struct ctl_text *text)
{
        const struct dsc_activity *now = &entry->now;
        ctl_json_begin(text, NULL, '{');
        ctl_json_number(text, "id", entry->client->session);
        ctl_json_string(text, "name", entry->client->name);
        ctl_json_string(text, "class", entry->client->is_ls ? "ls" : "be");
        ctl_json_objective(text, &now->slo);
        ctl_json_number(text, "queued", now->queued);
        ctl_json_number(text, "in_flight", now->in_flight);
        ctl_json_number(text, "streams", now->streams);
        if (now->rung != UINT32_MAX)
                ctl_json_number(text, "rung", now->rung);
        ctl_json_number(text, "sms", now->rung_sms);
        ctl_json_number(text, "gpu_permille", now->share_permille);
        ctl_json_bool(text, "request_active", now->request_active);
        ctl_json_number(text, "requests", now->requests);
        ctl_json_number(text, "recent_requests", now->recent_requests);
        ctl_json_number(text, "recent_with_slo", now->recent_judged);
        ctl_json_number(text, "recent_within_slo", now->recent_met);
        ctl_json_number(text, "p50_ns", now->p50_ns);
        ctl_json_number(text, "p99_ns", now->p99_ns);
        ctl_json_number(text, "max_ns", now->max_ns);
        ctl_json_number(text, "memory_used_bytes", entry->client->memory_used);
        ctl_json_end(text, '}');
}

static void json(const struct top *top, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        ctl_json_string(text, "device", top->status.device);
        ctl_json_bool(text, "simulated", top->status.simulated);
        ctl_json_string(text, "policy", top->status.policy);
        ctl_json_string(text, "policy_fallback", top->status.policy_fallback);
        ctl_json_number(text, "device_now_ns", top->all.now_ns);
        ctl_json_number(text, "sessions", top->status.sessions);
        ctl_json_number(text, "sessions_ls", top->status.sessions_ls);
        ctl_json_number(text, "ls_active", top->all.ls_active);
        ctl_json_number(text, "loans", top->all.loans);
        ctl_json_number(text, "migrations", top->all.migrations);
        ctl_json_number(text, "quiesces", top->status.quiesces);
        ctl_json_begin(text, "clients", '[');
        for (size_t i = 0; i < top->n_entries; i++)
                json_entry(&top->entries[i], text);
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}

static int show_once(const struct top *top)
{
        struct ctl_text text;
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (top->json) {
                json(top, &text);
        } else {
                head(top, &text);
                r = rows(top, &text);
        }
        return ctl_text_close(&text, r);
}

/* --- live display ----------------- */

/* Prints the first lines that fit the terminal. Clears the rest of each line, and the screen below the text. */
static void draw(const char *bytes, size_t size)
{
        struct winsize window = {0};
        const char *end = bytes + size;
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) < 0 || !window.ws_row)
                window.ws_row = 24; /* the terminal does not report its size */
        printf("\033[H");
        for (int line = 1; bytes < end && line < window.ws_row; line++) {
                const size_t n = strcspn(bytes, "\n");
                printf("%.*s\033[K\r\n", (int)n, bytes);
                bytes += n + (bytes[n] == '\n');
        }
        printf("\033[J");
        fflush(stdout);
}

static int show_live(const struct top *top)
{
        struct ctl_text text;
        int r = ctl_text_open(&text);
        if (r)
                return r;
        head(top, &text);
        r = rows(top, &text);
        if (!r && !fflush(text.file))
                draw(text.bytes, text.size);
        (void)ctl_text_close(&text, -1);
        return r;
}

/* Waits for a key, at most that many seconds. 1: the user pressed q. */
static int pause_for_keys(double seconds)
{
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        char key;
        const int n = poll(&input, 1, (int)(seconds * 1000));
        if (ended || (n < 0 && errno != EINTR))
                return 1;
        if (n <= 0)
                return 0;
        return read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q';
}

static int live(dsc_session *s, struct top *top)
{
        const struct sigaction on_end = {.sa_handler = end_signal};
        struct termios before, raw;
        int code;
        if (tcgetattr(STDIN_FILENO, &before) < 0)
                return show_once(top);
        sigaction(SIGINT, &on_end, NULL);
        sigaction(SIGTERM, &on_end, NULL);
        sigaction(SIGHUP, &on_end, NULL);
        raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
        printf("\033[?1049h\033[?25l");
        do
                code = show_live(top);
        while (!code && !pause_for_keys(top->delay) && !(code = look(s, top)));
        printf("\033[?25h\033[?1049l");
        fflush(stdout);
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        return code;
}

int cmd_top(const struct ctl_args *args)
{
        struct top top = {
                .json = ctl_given(args, "json"),
                .once = ctl_given(args, "once") || ctl_given(args, "json"),
                .delay = ctl_number(args, "delay", 1),
        };
        dsc_session *s = NULL;
        int code = ctl_open(&s);
        if (code)
                return code;
        code = look(s, &top);
        if (!code)
                code = top.once || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ? show_once(&top) : live(s, &top);
        forget(&top);
        dsc_control_close(s);
        return code;
}
