/* Asks a server as fast as it answers, and reads what it tells. One thread, epoll, sockets that were
   connected by who starts this (bench/load.py, which says what the numbers on stdin mean):

       flood   keeps a window of requests under way on every writer, for so long
       paced   one request at a time, which every watcher must have before the next is sent

   Prints "begin" and "end" when measuring does, so that the CPU of the server can be read between,
   and then what came of it as JSON. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROOM (1 << 18)
#define TAIL 512
#define FINE 32 /* parts of a power of two: latencies are 3 % exact */
#define BUCKETS (64 * FINE)
#define LATE_NS 20000000000ull

typedef struct {
    char *bytes;
    size_t size;
} Blob;

typedef struct {
    int fd, is_writer, waits_for_room;
    Blob copies;       /* the request, as often as the window is wide */
    size_t owed, at;   /* bytes to send, and where in the copies to go on */
    uint64_t *sent;    /* when, of those under way */
    unsigned first, count;
    char tail[TAIL]; /* may be the beginning of a sign */
    size_t tail_size;
} Line;

static unsigned window, refusals, writers, watchers;
static Blob acknowledged, told, again, refused[8];
static int poller;
static uint64_t acks, deliveries, latencies[BUCKETS], began;
static char taken[ROOM + TAIL + 1];

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fail(const char *what, const char *more, size_t size)
{
    fprintf(stderr, "%s: %.*s\n", what, (int)(size < 500 ? size : 500), more);
    exit(1);
}

static void note(uint64_t ns)
{
    ns |= FINE;
    unsigned power = 63 - __builtin_clzll(ns);
    latencies[(power - 5) * FINE + (ns >> (power - 5)) - FINE]++;
}

static double quantile(double share)
{
    uint64_t all = 0, seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        all += latencies[i];
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += latencies[i]) > share * all)
            return (double)((uint64_t)(i % FINE + FINE) << (i / FINE)) / 1e6;
    return 0;
}

static void push(Line *line)
{
    while (line->owed) {
        size_t size = line->copies.size - line->at;
        ssize_t done = send(line->fd, line->copies.bytes + line->at,
                            size < line->owed ? size : line->owed, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && errno != EAGAIN)
            fail("a server hung up", strerror(errno), 100);
        if (done < 0)
            break;
        line->owed -= done;
        line->at = (line->at + done) % line->copies.size;
    }
    if ((line->owed != 0) != line->waits_for_room) {
        struct epoll_event event = {EPOLLIN | (line->owed ? EPOLLOUT : 0), {line}};
        line->waits_for_room = line->owed != 0;
        epoll_ctl(poller, EPOLL_CTL_MOD, line->fd, &event);
    }
}

static void ask(Line *line, unsigned count)
{
    uint64_t time = now();
    for (unsigned i = 0; i < count; i++)
        line->sent[(line->first + line->count++) % window] = time;
    line->owed += count * (line->copies.size / window);
    push(line);
}

/* After what was told, a watcher of a Redis stream asks for more: behind the newest id in it. */
static void ask_again(Line *line, const char *data, const char *end)
{
    char request[512];
    for (const char *p = end - 3; p > data; p--) {
        const char *q = p;
        if (p[0] != '\r' || p[1] != '\n')
            continue;
        while (q > data && ((q[-1] >= '0' && q[-1] <= '9') || q[-1] == '-'))
            q--;
        if (q == p || !memchr(q, '-', p - q) || q[-1] != '\n')
            continue;
        int size = snprintf(request, sizeof request, "%.*s$%d\r\n%.*s\r\n", (int)again.size,
                            again.bytes, (int)(p - q), (int)(p - q), q);
        if (send(line->fd, request, size, MSG_NOSIGNAL) != size)
            fail("a watcher could not ask again", "", 0);
        return;
    }
}

/* Read what is there; how many signs were in it. */
static unsigned take(Line *line, Blob sign)
{
    memcpy(taken, line->tail, line->tail_size);
    ssize_t size = recv(line->fd, taken + line->tail_size, ROOM, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN)
        return 0;
    if (size <= 0)
        fail("a server hung up", line->tail, line->tail_size);
    char *p = taken, *end = taken + line->tail_size + size, *found;
    unsigned count = 0;
    for (unsigned i = 0; i < refusals && line->is_writer; i++)
        if ((found = memmem(p, end - p, refused[i].bytes, refused[i].size)))
            fail("refused", found, end - found);
    for (; (found = memmem(p, end - p, sign.bytes, sign.size)); count++)
        p = found + sign.size;
    if (count && again.size && !line->is_writer)
        ask_again(line, taken, end);
    size_t kept = sign.size - 1 < TAIL ? sign.size - 1 : TAIL;
    line->tail_size = (size_t)(end - p) < kept ? (size_t)(end - p) : kept;
    memcpy(line->tail, end - line->tail_size, line->tail_size);
    return count;
}

static void turn(int milliseconds, int paced)
{
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, milliseconds);
    for (int i = 0; i < ready; i++) {
        Line *line = events[i].data.ptr;
        if (events[i].events & EPOLLOUT)
            push(line);
        if (!(events[i].events & ~EPOLLOUT))
            continue;
        unsigned count = take(line, line->is_writer ? acknowledged : told);
        if (!line->is_writer) {
            deliveries += count;
            for (unsigned n = 0; paced && n < count; n++)
                note(now() - began);
            continue;
        }
        if (!count)
            continue;
        acks += count;
        uint64_t time = now();
        for (unsigned n = 0; n < count && line->count; n++, line->count--, line->first++)
            if (!paced)
                note(time - line->sent[line->first % window]);
        if (!paced)
            ask(line, count);
    }
}

static void flood(Line *lines, double warm_up, double seconds)
{
    for (unsigned i = 0; i < writers; i++)
        ask(lines + i, window);
    uint64_t start = now(), end = start + (uint64_t)(warm_up * 1e9);
    while (now() < end)
        turn(50, 0);
    puts("begin");
    acks = deliveries = 0;
    memset(latencies, 0, sizeof latencies);
    start = now(), end = start + (uint64_t)(seconds * 1e9);
    while (now() < end || (!acks && now() < start + LATE_NS))
        turn(50, 0);
    uint64_t took = now() - start;
    puts("end");
    printf("{\"requests_per_s\":%.3f,\"deliveries_per_s\":%.3f", acks * 1e9 / took,
           deliveries * 1e9 / took);
}

static void pace(Line *lines, unsigned rounds)
{
    for (unsigned round = 0; round < rounds + 3; round++) {
        if (round == 3) {
            memset(latencies, 0, sizeof latencies);
            puts("begin");
        }
        acks = deliveries = 0;
        began = now();
        ask(lines, 1);
        while (acks < 1 || deliveries < watchers) {
            turn(1000, 1);
            if (now() - began > LATE_NS)
                fail("not all watchers were told", "", 0);
        }
        usleep(1000);
    }
    puts("end");
    printf("{\"requests_per_s\":0,\"deliveries_per_s\":0");
}

static Blob blob(void)
{
    Blob read = {0};
    if (scanf("%zu", &read.size) != 1)
        fail("the plan is cut off", "", 0);
    getchar();
    read.bytes = malloc(read.size + 1);
    if (fread(read.bytes, 1, read.size, stdin) != read.size)
        fail("the plan is cut off", "", 0);
    return read;
}

int main(void)
{
    double warm_up, seconds;
    unsigned rounds;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (scanf("%u %u %u %u %u %lf %lf", &writers, &watchers, &window, &refusals, &rounds, &warm_up,
              &seconds) != 7)
        fail("no plan", "", 0);
    acknowledged = blob(), told = blob(), again = blob();
    for (unsigned i = 0; i < refusals; i++)
        refused[i] = blob();
    Line *lines = calloc(writers + watchers, sizeof *lines);
    poller = epoll_create1(0);
    for (unsigned i = 0; i < writers + watchers; i++) {
        Line *line = lines + i;
        if (scanf("%d", &line->fd) != 1)
            fail("the plan is cut off", "", 0);
        if ((line->is_writer = i < writers)) {
            Blob request = blob();
            line->copies.size = request.size * window;
            line->copies.bytes = malloc(line->copies.size);
            for (unsigned n = 0; n < window; n++)
                memcpy(line->copies.bytes + n * request.size, request.bytes, request.size);
            line->sent = calloc(window, sizeof *line->sent);
        }
        struct epoll_event event = {EPOLLIN, {line}};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, line->fd, &event))
            fail("no socket", strerror(errno), 100);
    }
    if (rounds)
        pace(lines, rounds);
    else
        flood(lines, warm_up, seconds);
    printf(",\"p50_ms\":%.6f,\"p99_ms\":%.6f}\n", quantile(0.5), quantile(0.99));
    return 0;
}
