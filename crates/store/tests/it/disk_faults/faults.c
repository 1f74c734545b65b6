/* Makes calls of a process on files below a folder fail, from the n-th on.
 *
 * It is loaded before the C library (LD_PRELOAD), as `recorder.c` is.
 *
 *   DURAMEN_FAULT_ROOT     the folder, absolute
 *   DURAMEN_FAULT_REPORT   where to append what was done: "fault <call> <name>", "again <call> <name>" where a file was
 *                          flushed once more after that had failed, and "calls <count>" at the end
 *   DURAMEN_FAULT_KIND     eio, enospc, or short: which calls are counted, and what they do
 *   DURAMEN_FAULT_AT       the first call that fails, from 1 on; 0 for none
 *   DURAMEN_FAULT_COUNT    how many fail; 0 for all from there on
 *   DURAMEN_FAULT_CONTROL  a name: whoever opens <name>.lift ends the fault, <name>.forget what is known of flushes
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a call does, by which it is decided whether it can fail in a way. */
enum { READS = 1, TRANSFERS = 2, TAKES_ROOM = 4 };
enum { NONE, EIO_KIND, ENOSPC_KIND, SHORT_KIND };
enum { FDS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], control[PATH_MAX];
static int out = -1, kind;
static long calls, first, count;
/* Of which descriptors a flush failed. */
static unsigned char spoiled[FDS];

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("DURAMEN_FAULT_ROOT"), *report = getenv("DURAMEN_FAULT_REPORT");
    const char *which = getenv("DURAMEN_FAULT_KIND"), *at = getenv("DURAMEN_FAULT_AT");
    const char *many = getenv("DURAMEN_FAULT_COUNT"), *name = getenv("DURAMEN_FAULT_CONTROL");
    if (!folder || !report || !which || !at || !many || !name)
        return;
    snprintf(root, sizeof root, "%s/", folder);
    snprintf(control, sizeof control, "%s", name);
    kind = !strcmp(which, "eio") ? EIO_KIND : !strcmp(which, "enospc") ? ENOSPC_KIND : SHORT_KIND;
    first = atol(at);
    count = atol(many);
    out = syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0)
        _exit(97);
}

static void tell(const char *what, const char *call, const char *name)
{
    char line[PATH_MAX + 64];
    int len = snprintf(line, sizeof line, "%s %s %s\n", what, call, name);
    if (syscall(SYS_write, out, line, len) != len)
        _exit(98);
}

__attribute__((destructor)) static void end(void)
{
    char number[32];
    if (out < 0)
        return;
    pthread_mutex_lock(&lock);
    snprintf(number, sizeof number, "%ld", calls);
    tell("calls", number, "");
}

/* Whether the next call of this sort fails, which is told. The error is in errno; 0 stands for a short one. */
static int fails(const char *call, int sort, const char *name)
{
    int wanted = kind == EIO_KIND ? 1 : kind == ENOSPC_KIND ? sort & TAKES_ROOM : sort & TRANSFERS;
    if (!wanted)
        return 0;
    pthread_mutex_lock(&lock);
    calls++;
    int hit = first > 0 && calls >= first && (count == 0 || calls < first + count);
    if (hit)
        tell("fault", call, name);
    pthread_mutex_unlock(&lock);
    if (hit)
        errno = kind == EIO_KIND ? EIO : kind == ENOSPC_KIND ? ENOSPC : 0;
    return hit;
}

/* The name of a path below the root, absolute; NULL if it is none of ours. */
static const char *ours(int folder, const char *path, char *room)
{
    if (out < 0 || !path)
        return NULL;
    if (path[0] == '/') {
        snprintf(room, PATH_MAX, "%s", path);
    } else {
        char link[64], at[PATH_MAX];
        if (folder == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, at, sizeof at - 1);
        if (len < 0)
            return NULL;
        at[len] = 0;
        if (snprintf(room, PATH_MAX, "%s/%s", at, path) >= PATH_MAX)
            return NULL;
    }
    return strncmp(room, root, strlen(root)) == 0 ? room + strlen(root) : NULL;
}

/* The name of an open file or folder below the root; NULL if it is none of ours. */
static const char *known(int fd, char *room)
{
    char link[64];
    if (out < 0 || fd == out || fd < 0)
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, room, PATH_MAX - 1);
    if (len < 0)
        return NULL;
    room[len] = 0;
    return strncmp(room, root, strlen(root)) == 0 ? room + strlen(root) : NULL;
}

static int is_control(const char *path, const char *end)
{
    size_t len = strlen(control);
    return out >= 0 && strncmp(path, control, len) == 0 && strcmp(path + len, end) == 0;
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    char room[PATH_MAX];
    struct stat found;
    if (is_control(path, ".lift")) {
        pthread_mutex_lock(&lock);
        first = 0;
        pthread_mutex_unlock(&lock);
    }
    if (is_control(path, ".forget"))
        memset(spoiled, 0, sizeof spoiled);
    const char *name = ours(folder, path, room);
    if (name) {
        int is_new = (flags & O_CREAT) && fstatat(folder, path, &found, 0) != 0;
        if (fails("open", is_new ? TAKES_ROOM : READS, name) && errno)
            return -1;
    }
    return syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE(flags)                                 \
    mode_t mode = 0;                                \
    if ((flags) & (O_CREAT | O_TMPFILE)) {          \
        va_list rest;                               \
        va_start(rest, flags);                      \
        mode = va_arg(rest, mode_t);                \
        va_end(rest);                               \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return open_at(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return open_at(folder, path, flags, mode); }

int close(int fd)
{
    if (fd >= 0 && fd < FDS)
        spoiled[fd] = 0;
    return syscall(SYS_close, fd);
}

DIR *opendir(const char *path)
{
    static DIR *(*real)(const char *);
    char room[PATH_MAX];
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    const char *name = ours(AT_FDCWD, path, room);
    if (name && fails("opendir", READS, name) && errno)
        return NULL;
    return real(path);
}

struct dirent64 *readdir64(DIR *folder)
{
    static struct dirent64 *(*real)(DIR *);
    char room[PATH_MAX];
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "readdir64");
    const char *name = out < 0 ? NULL : known(dirfd(folder), room);
    if (name && fails("readdir", READS, name) && errno)
        return NULL;
    return real(folder);
}

/* Half of it, at least a byte. */
static size_t half(size_t len) { return len > 1 ? len / 2 : len; }

#define TRANSFER(call, sort, real)                  \
    char room[PATH_MAX];                            \
    const char *name = known(fd, room);             \
    if (name && fails(call, sort, name)) {          \
        if (errno)                                  \
            return -1;                              \
        len = half(len);                            \
    }                                               \
    return real;

ssize_t write(int fd, const void *bytes, size_t len)
{
    TRANSFER("write", TRANSFERS | TAKES_ROOM, syscall(SYS_write, fd, bytes, len))
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    TRANSFER("pwrite", TRANSFERS | TAKES_ROOM, syscall(SYS_pwrite64, fd, bytes, len, at))
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) { return pwrite64(fd, bytes, len, at); }

ssize_t read(int fd, void *bytes, size_t len)
{
    TRANSFER("read", READS | TRANSFERS, syscall(SYS_read, fd, bytes, len))
}

ssize_t pread64(int fd, void *bytes, size_t len, off64_t at)
{
    TRANSFER("pread", READS | TRANSFERS, syscall(SYS_pread64, fd, bytes, len, at))
}

ssize_t pread(int fd, void *bytes, size_t len, off_t at) { return pread64(fd, bytes, len, at); }

/* The first run only: a short write is one that the caller has to expect. */
ssize_t writev(int fd, const struct iovec *runs, int number)
{
    char room[PATH_MAX];
    if (!known(fd, room))
        return syscall(SYS_writev, fd, runs, number);
    for (int at = 0; at < number; at++)
        if (runs[at].iov_len > 0)
            return write(fd, runs[at].iov_base, runs[at].iov_len);
    return 0;
}

/* Whoever asks is told that the system has no such call, and writes in the usual way. */
ssize_t copy_file_range(int a, off64_t *b, int c, off64_t *d, size_t e, unsigned f)
{
    char room[PATH_MAX];
    if (!known(c, room))
        return syscall(SYS_copy_file_range, a, b, c, d, e, f);
    errno = ENOSYS;
    return -1;
}

static int flush(const char *call, long number, int fd)
{
    char room[PATH_MAX];
    const char *name = known(fd, room);
    if (!name)
        return syscall(number, fd);
    if (fd < FDS && spoiled[fd])
        tell("again", call, name);
    if (fails(call, TAKES_ROOM, name)) {
        int error = errno;
        if (error && fd < FDS)
            spoiled[fd] = 1;
        errno = error;
        if (error)
            return -1;
    }
    return syscall(number, fd);
}

int fsync(int fd) { return flush("fsync", SYS_fsync, fd); }
int fdatasync(int fd) { return flush("fdatasync", SYS_fdatasync, fd); }

int sync_file_range(int fd, off64_t from, off64_t len, unsigned flags)
{
    char room[PATH_MAX];
    const char *name = known(fd, room);
    if (name && fails("sync_file_range", TAKES_ROOM, name) && errno)
        return -1;
    return syscall(SYS_sync_file_range, fd, from, len, flags);
}

int ftruncate64(int fd, off64_t len)
{
    char room[PATH_MAX];
    const char *name = known(fd, room);
    if (name && fails("ftruncate", TAKES_ROOM, name) && errno)
        return -1;
    return syscall(SYS_ftruncate, fd, len);
}

int ftruncate(int fd, off_t len) { return ftruncate64(fd, len); }

int fallocate64(int fd, int mode, off64_t from, off64_t len)
{
    char room[PATH_MAX];
    const char *name = known(fd, room);
    if (name && fails("fallocate", TAKES_ROOM, name) && errno)
        return -1;
    return syscall(SYS_fallocate, fd, mode, from, len);
}

int fallocate(int fd, int mode, off_t from, off_t len) { return fallocate64(fd, mode, from, len); }
int posix_fallocate(int fd, off_t from, off_t len) { return fallocate64(fd, 0, from, len) ? errno : 0; }
int posix_fallocate64(int fd, off64_t from, off64_t len) { return fallocate64(fd, 0, from, len) ? errno : 0; }

int rename(const char *from, const char *to)
{
    char room[PATH_MAX];
    const char *name = ours(AT_FDCWD, from, room);
    if (name && fails("rename", TAKES_ROOM, name) && errno)
        return -1;
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static int link_at(int a, const char *from, int b, const char *to, int flags)
{
    char room[PATH_MAX];
    const char *name = ours(b, to, room);
    if (name && fails("link", TAKES_ROOM, name) && errno)
        return -1;
    return syscall(SYS_linkat, a, from, b, to, flags);
}

int linkat(int a, const char *from, int b, const char *to, int flags) { return link_at(a, from, b, to, flags); }
int link(const char *from, const char *to) { return link_at(AT_FDCWD, from, AT_FDCWD, to, 0); }

static int remove_at(int folder, const char *path, int flags)
{
    char room[PATH_MAX];
    const char *name = ours(folder, path, room);
    if (name && fails(flags & AT_REMOVEDIR ? "rmdir" : "unlink", READS, name) && errno)
        return -1;
    return syscall(SYS_unlinkat, folder, path, flags);
}

int unlink(const char *path) { return remove_at(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return remove_at(folder, path, flags); }
int rmdir(const char *path) { return remove_at(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode)
{
    char room[PATH_MAX];
    const char *name = ours(AT_FDCWD, path, room);
    if (name && fails("mkdir", TAKES_ROOM, name) && errno)
        return -1;
    return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* Metadata: of a path, or of an open file with an empty path. */
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found)
{
    char room[PATH_MAX];
    /* The standard library of Rust asks with NULL whether there is such a call. */
    const char *volatile given = path;
    const char *name = !given ? NULL : path[0] ? ours(folder, path, room) : known(folder, room);
    if (name && fails("statx", READS, name) && errno)
        return -1;
    return syscall(SYS_statx, folder, path, flags, mask, found);
}
