/* Records what a process does to the files below a folder: writes with their bytes, changes of length, flushes, names.
 *
 * It is loaded before the C library (LD_PRELOAD). One lock is held over a call and its record, so the records have the
 * order of the calls. Names that are changed past the C library show up when their folder is flushed: its listing is
 * recorded with it.
 *
 *   DURAMEN_RECORD_ROOT   the folder, absolute
 *   DURAMEN_RECORD_LOG    where to append the records
 *   DURAMEN_RECORD_MARKS  a file whose writes are marks among the records
 *
 * A record is: kind u8, inode u64, number u64, two texts or runs of bytes, each with its length u32 before it.
 */
#define _GNU_SOURCE
#include <dirent.h>
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

enum { CREATE = 1, LENGTH, WRITE, SYNC, SYNC_FOLDER, RENAME, UNLINK, MAKE_FOLDER, REMOVE_FOLDER, MARK, ENTRY };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], marks[PATH_MAX];
static int out = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *log = getenv("DURAMEN_RECORD_LOG");
    const char *folder = getenv("DURAMEN_RECORD_ROOT");
    const char *file = getenv("DURAMEN_RECORD_MARKS");
    if (!log || !folder || !file)
        return;
    snprintf(root, sizeof root, "%s/", folder);
    snprintf(marks, sizeof marks, "%s", file);
    out = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0)
        _exit(97);
}

/* A thread that is within a call when the process ends has made its record, and no other begins one. */
__attribute__((destructor)) static void end(void)
{
    if (out >= 0)
        pthread_mutex_lock(&lock);
}

static void put(const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        long done = syscall(SYS_write, out, at, len);
        if (done <= 0)
            _exit(98);
        at += done;
        len -= done;
    }
}

static void note(uint8_t kind, uint64_t inode, uint64_t number, const void *a, uint32_t a_len, const void *b,
                 uint32_t b_len)
{
    char head[25];
    head[0] = kind;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &number, 8);
    memcpy(head + 17, &a_len, 4);
    memcpy(head + 21, &b_len, 4);
    put(head, sizeof head);
    put(a, a_len);
    put(b, b_len);
}

/* The path of a name in a folder that is open, absolute; NULL if it is none of ours. */
static const char *ours(int folder, const char *path, char *room)
{
    if (out < 0)
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

/* 0: not ours; 1: a file or folder below the root; 2: the marks. */
static int known(int fd, struct stat *found)
{
    char link[64], at[PATH_MAX];
    if (out < 0 || fd == out)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, at, sizeof at - 1);
    if (len < 0)
        return 0;
    at[len] = 0;
    if (strcmp(at, marks) == 0)
        return 2;
    if (strncmp(at, root, strlen(root)) != 0 && strncmp(at, root, strlen(root) - 1) != 0)
        return 0;
    return fstat(fd, found) == 0;
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    char room[PATH_MAX];
    struct stat before, after;
    const char *name = ours(folder, path, room);
    if (!name)
        return syscall(SYS_openat, folder, path, flags, mode);
    pthread_mutex_lock(&lock);
    int was_there = fstatat(folder, path, &before, 0) == 0;
    int fd = syscall(SYS_openat, folder, path, flags, mode);
    int error = errno;
    if (fd >= 0 && fstat(fd, &after) == 0) {
        if (!was_there && (flags & O_CREAT))
            note(CREATE, after.st_ino, 0, name, strlen(name), "", 0);
        else if ((flags & O_TRUNC) && before.st_size > 0)
            note(LENGTH, after.st_ino, 0, "", 0, "", 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
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
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

ssize_t write(int fd, const void *bytes, size_t len)
{
    struct stat found;
    int whose = known(fd, &found);
    if (!whose)
        return syscall(SYS_write, fd, bytes, len);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_write, fd, bytes, len);
    int error = errno;
    if (done > 0 && whose == 2)
        note(MARK, 0, 0, bytes, done, "", 0);
    else if (done > 0)
        note(WRITE, found.st_ino, lseek(fd, 0, SEEK_CUR) - done, "", 0, bytes, done);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    struct stat found;
    if (known(fd, &found) != 1)
        return syscall(SYS_pwrite64, fd, bytes, len, at);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, len, at);
    int error = errno;
    if (done > 0)
        note(WRITE, found.st_ino, at, "", 0, bytes, done);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) { return pwrite64(fd, bytes, len, at); }

/* The first run only: a short write is one that the caller has to expect. */
ssize_t writev(int fd, const struct iovec *runs, int count)
{
    struct stat found;
    if (known(fd, &found) == 0)
        return syscall(SYS_writev, fd, runs, count);
    for (int at = 0; at < count; at++)
        if (runs[at].iov_len > 0)
            return write(fd, runs[at].iov_base, runs[at].iov_len);
    return 0;
}

/* Whoever asks is told that the system has no such call, and writes in the usual way. */
ssize_t copy_file_range(int a, off64_t *b, int c, off64_t *d, size_t e, unsigned f)
{
    struct stat found;
    if (known(c, &found) == 0)
        return syscall(SYS_copy_file_range, a, b, c, d, e, f);
    errno = ENOSYS;
    return -1;
}

static void note_folder(int fd)
{
    struct stat found;
    char link[64], at[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, at, sizeof at - 1);
    if (len < 0)
        return;
    at[len] = 0;
    const char *name = (size_t)len < strlen(root) ? "" : at + strlen(root);
    DIR *folder = opendir(at);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            fstatat(fd, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0)
            note(ENTRY, found.st_ino, S_ISDIR(found.st_mode), name, strlen(name), entry->d_name,
                 strlen(entry->d_name));
    closedir(folder);
    note(SYNC_FOLDER, 0, 0, name, strlen(name), "", 0);
}

static int sync_with(long call, int fd)
{
    struct stat found;
    if (known(fd, &found) != 1)
        return syscall(call, fd);
    pthread_mutex_lock(&lock);
    int done = syscall(call, fd);
    int error = errno;
    if (done == 0 && S_ISDIR(found.st_mode))
        note_folder(fd);
    else if (done == 0)
        note(SYNC, found.st_ino, 0, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int ftruncate64(int fd, off64_t len)
{
    struct stat found;
    if (known(fd, &found) != 1)
        return syscall(SYS_ftruncate, fd, len);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_ftruncate, fd, len);
    int error = errno;
    if (done == 0)
        note(LENGTH, found.st_ino, len, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int ftruncate(int fd, off_t len) { return ftruncate64(fd, len); }

int fallocate64(int fd, int mode, off64_t from, off64_t len)
{
    struct stat found;
    if (known(fd, &found) != 1)
        return syscall(SYS_fallocate, fd, mode, from, len);
    /* Only longer files: holes and zeros would need records of their own. */
    if (mode != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return found.st_size >= from + len ? 0 : ftruncate64(fd, from + len);
}

int fallocate(int fd, int mode, off_t from, off_t len) { return fallocate64(fd, mode, from, len); }
int posix_fallocate(int fd, off_t from, off_t len) { return fallocate64(fd, 0, from, len) ? errno : 0; }
int posix_fallocate64(int fd, off64_t from, off64_t len) { return fallocate64(fd, 0, from, len) ? errno : 0; }

static int rename_at(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    char from_room[PATH_MAX], to_room[PATH_MAX];
    const char *old = ours(from_folder, from, from_room), *new = ours(to_folder, to, to_room);
    if (!old || !new)
        return syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    int error = errno;
    if (done == 0)
        note(RENAME, 0, 0, old, strlen(old), new, strlen(new));
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int rename(const char *from, const char *to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_at(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return rename_at(a, from, b, to, flags);
}

static int remove_at(int folder, const char *path, int flags)
{
    char room[PATH_MAX];
    const char *name = ours(folder, path, room);
    if (!name)
        return syscall(SYS_unlinkat, folder, path, flags);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_unlinkat, folder, path, flags);
    int error = errno;
    if (done == 0)
        note(flags & AT_REMOVEDIR ? REMOVE_FOLDER : UNLINK, 0, 0, name, strlen(name), "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int unlink(const char *path) { return remove_at(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return remove_at(folder, path, flags); }
int rmdir(const char *path) { return remove_at(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *path, mode_t mode)
{
    char room[PATH_MAX];
    struct stat found;
    const char *name = ours(folder, path, room);
    if (!name)
        return syscall(SYS_mkdirat, folder, path, mode);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_mkdirat, folder, path, mode);
    int error = errno;
    if (done == 0 && fstatat(folder, path, &found, 0) == 0)
        note(MAKE_FOLDER, found.st_ino, 0, name, strlen(name), "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
