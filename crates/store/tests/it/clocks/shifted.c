/* A wall clock that a file shifts: the file holds seconds. Loaded before the C library (LD_PRELOAD). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int done = syscall(SYS_clock_gettime, clock, now);
    const char *path = getenv("DURAMEN_TEST_CLOCK");
    if (done != 0 || clock != CLOCK_REALTIME || !path)
        return done;
    char text[32] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) < 0)
            text[0] = 0;
        close(file);
    }
    now->tv_sec += strtol(text, NULL, 10);
    return 0;
}
