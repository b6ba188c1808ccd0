// The floor of the machine: what a broker cannot do better than, on one thread.
//
//   floor receive|crc|append --bytes N [--file F]
//       takes N bytes from a loopback socket in 256 KiB windows; + CRC-32C; + append to a file
//   floor serve FILE...
//       a bare sendfile loop: prints its port, then sends the files again and again, 1 MiB a call, to each
//       connection in turn until that is closed
//
// The first form prints one JSON object: MiB/s and MiB per CPU-second of the receiving side.

#include "crc32c.h"
#include "wire.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int listen_on(struct sockaddr_in *at) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof *at) < 0 || listen(fd, 16) < 0 ||
        getsockname(fd, (struct sockaddr *)at, &length) < 0)
        die("listen: %s", strerror(errno));
    return fd;
}

static _Noreturn void serve(int count, char **files) {
    struct sockaddr_in at;
    int listener = listen_on(&at);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    int fds[1024];
    off_t sizes[1024];
    if (count > 1024) die("too many files: %d, limit 1024", count);
    for (int i = 0; i < count; i++) {
        struct stat st;
        if ((fds[i] = open(files[i], O_RDONLY)) < 0 || fstat(fds[i], &st) < 0) die("%s: %s", files[i], strerror(errno));
        sizes[i] = st.st_size;
    }
    for (;;) {
        int to = accept(listener, NULL, NULL), one = 1;
        if (to < 0) die("accept: %s", strerror(errno));
        setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (int i = 0, open = 1; open; i = (i + 1) % count)
            for (off_t offset = 0; open && offset < sizes[i];)
                if (sendfile(to, fds[i], &offset, 1 << 20) <= 0) open = 0;
        close(to);
    }
}

int main(int argc, char **argv) {
    if (argc >= 3 && !strcmp(argv[1], "serve")) serve(argc - 2, argv + 2);
    const char *mode = argc >= 2 ? argv[1] : "", *file = NULL;
    int crc = !strcmp(mode, "crc") || !strcmp(mode, "append"), append = !strcmp(mode, "append");
    if (!crc && strcmp(mode, "receive")) die("usage: floor receive|crc|append --bytes N [--file F], or floor serve FILE...");
    uint64_t want = 1ull << 30, got = 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--bytes")) want = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--file")) file = argv[i + 1];
        else die("unknown option %s", argv[i]);
    }
    if (append && !file) die("--file is missing");
    crc32c_init();
    struct sockaddr_in at;
    int listener = listen_on(&at);
    size_t window = 256 << 10;
    unsigned char *buffer = malloc(window);
    if (!buffer) die("out of memory");
    pid_t sender = fork();
    if (sender == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int to = connect_to(&at, 0);
        for (size_t i = 0; i < window; i++) buffer[i] = (unsigned char)(i * 2654435761u >> 13);
        for (uint64_t sent = 0; to >= 0 && sent < want; sent += window)
            if (send_all(to, buffer, window) < 0) break;
        _exit(0);
    }
    int from = accept(listener, NULL, NULL);
    int out = append ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (from < 0 || (append && out < 0)) die("%s: %s", append ? file : "accept", strerror(errno));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double began = now();
    uint32_t sum = 0;
    for (;;) {
        ssize_t n = recv(from, buffer, window, MSG_WAITALL);
        if (n <= 0) break;
        got += (uint64_t)n;
        if (crc) sum ^= crc32c(0, buffer, (size_t)n);
        if (append && write(out, buffer, (size_t)n) != n) die("write: %s", strerror(errno));
    }
    double took = now() - began;
    getrusage(RUSAGE_SELF, &after);
    double cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                 (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    waitpid(sender, NULL, 0);
    if (append) unlink(file);
    printf("{\"bytes\": %llu, \"seconds\": %.3f, \"cpu_seconds\": %.3f, \"mib_per_second\": %.0f, \"mib_per_cpu_second\": %.0f, \"sum\": %u}\n",
           (unsigned long long)got, took, cpu, (double)got / took / 1048576, (double)got / cpu / 1048576, sum);
    return 0;
}
