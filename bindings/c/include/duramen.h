/* Access graphs: packs and .c1z files, for programs in other languages.
 *
 * Memory. What a caller gives, a pointer and a length, is read during the call and not kept. What a call gives
 * (duramen_bytes) belongs to the library until duramen_bytes_free is called with it, once; empty bytes have no memory and
 * need not be freed. A call that fails gives nothing but the text of its error. Where a caller does not want that text,
 * `error` is NULL.
 *
 * Graphs are numbers. One that was closed, or never opened, is refused with DURAMEN_NO_GRAPH. Any thread may call with
 * any graph; calls with one graph wait for each other.
 *
 * Numbers in flat bytes have four bytes, least significant first. A text, or blob, is its length and then its bytes. */
#ifndef DURAMEN_H
#define DURAMEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What calls return. */
enum {
    DURAMEN_OK = 0,
    DURAMEN_INVALID = 1,   /* what was given makes no sense, or not now */
    DURAMEN_NOT_FOUND = 2, /* what was asked for is not there */
    DURAMEN_FAILED = 3,    /* a file could not be read or written */
    DURAMEN_NO_GRAPH = 4,  /* there is no such graph */
    DURAMEN_PANIC = 5      /* a mistake in the library; the graph can only be closed */
};

/* Kinds of rows. */
enum {
    DURAMEN_RESOURCE_TYPES = 1,
    DURAMEN_RESOURCES = 2,
    DURAMEN_ENTITLEMENTS = 3,
    DURAMEN_GRANTS = 4,
    DURAMEN_ASSETS = 5,
    DURAMEN_EXPANDED_GRANTS = 6, /* to be put only: they keep what is known of the expansion of those they replace */
    DURAMEN_EDGES = 7            /* to be deleted only: grants by entitlement and principal */
};

/* Which rows are asked for, and the texts that say so. */
enum {
    DURAMEN_ALL = 0,             /* no texts */
    DURAMEN_IDS = 1,             /* ids; of resources type and name each */
    DURAMEN_RESOURCE_TYPE = 2,   /* a type: resources of it, entitlements and grants of its resources */
    DURAMEN_RESOURCE = 3,        /* type, name: entitlements and grants of a resource */
    DURAMEN_PARENT = 4,          /* type, name[, type of the children]: resources */
    DURAMEN_ENTITLEMENT = 5,     /* type and name of the resource, or both empty, id[, types of principals...]: grants */
    DURAMEN_PRINCIPAL = 6,       /* type, name: grants */
    DURAMEN_PRINCIPAL_TYPE = 7,  /* a type: grants */
    DURAMEN_EDGE = 8,            /* type and name of the resource, or both empty, id, type and name of the principal[, types...]: a grant */
    DURAMEN_NEEDS_EXPANSION = 9  /* no texts: grants that have yet to be expanded */
};

typedef struct {
    uint8_t *data;
    size_t len;
    size_t capacity;
} duramen_bytes;

/* The version of this interface: 1. */
uint32_t duramen_version(void);

/* How many graphs are open, and how many duramen_bytes are not freed yet. */
void duramen_live(size_t *graphs, size_t *bytes);

void duramen_bytes_free(duramen_bytes bytes);

/* Opens the graph of a file: a pack, or a .c1z file of either version. Of several syncs the one that is read by default.
 * Without a path (path_len 0) the graph is empty. max_decoded_bytes says how many bytes may come out of a .c1z file; 0 is
 * the default. The file must not be changed while the graph is open, but may be replaced. */
int32_t duramen_open(const uint8_t *path, size_t path_len, uint64_t max_decoded_bytes, uint64_t *graph, duramen_bytes *error);

/* Closes a graph. What was not saved is gone. */
int32_t duramen_close(uint64_t graph, duramen_bytes *error);

/* Begins a sync with an id, of a kind such as "full", and perhaps with a parent. All rows that were there are gone. */
int32_t duramen_start(uint64_t graph, const uint8_t *id, size_t id_len, const uint8_t *kind, size_t kind_len,
                      const uint8_t *parent, size_t parent_len, duramen_bytes *error);

/* Notes where the syncing tool stands. */
int32_t duramen_checkpoint(uint64_t graph, const uint8_t *token, size_t token_len, duramen_bytes *error);

/* Ends the sync now. Rows can be put still. */
int32_t duramen_end(uint64_t graph, duramen_bytes *error);

/* Marks the sync as one that diffs can be made against. */
int32_t duramen_supports_diff(uint64_t graph, duramen_bytes *error);

/* What is known of the sync: nothing if there is none; else the texts id, kind, parent and token; then, when it was started
 * and when it was ended, each as whether that is known, seconds since 1970 in eight bytes, and nanoseconds; then whether
 * diffs can be made against it. */
int32_t duramen_sync(uint64_t graph, duramen_bytes *found, duramen_bytes *error);

/* How many rows there are: five numbers, of resource types, resources, entitlements, grants and assets; then, as often as there
 * are types, a text and the numbers of its resources, and of entitlements and grants of its resources. */
int32_t duramen_count(uint64_t graph, duramen_bytes *found, duramen_bytes *error);

/* Puts rows one after another; those before one that is refused are there.
 *
 * A grant is eight numbers: 0, and the lengths of what follows: id, id of the entitlement, type and name of its resource, type and
 * name of the principal, details. Details are a message c1.connector.v2.Grant that says what is rare: annotations, sources, and
 * what the principal lies in. An asset is three blobs: id, content type, data. Any other row is a blob: its message
 * (c1.connector.v2). */
int32_t duramen_put(uint64_t graph, uint32_t kind, const uint8_t *rows, size_t rows_len, duramen_bytes *error);

/* Deletes rows. Names are texts: the id of each grant; type and name of each resource; type and name of the resource, and id, of
 * each entitlement, and for DURAMEN_EDGES type and name of the principal too. */
int32_t duramen_delete(uint64_t graph, uint32_t kind, const uint8_t *names, size_t names_len, duramen_bytes *error);

/* A page of rows. The question is: how many rows at most (0: 10,000, which is the most), the scope, the token of the page
 * before (a blob, empty for the first page), and the texts of the scope. The page is: how many rows there are, how many bytes
 * they have, the rows, and up to its end the token of the next page; without a token there is none. Rows are as they are put,
 * but an asset has no id, and the eight numbers of grants stand behind all rows. Bits of the first say: 1, that the grant has
 * yet to be expanded; 2, that it is of the same entitlement as the grant before it, whose three texts it then lacks. */
int32_t duramen_list(uint64_t graph, uint32_t kind, const uint8_t *question, size_t question_len, duramen_bytes *page,
                     duramen_bytes *error);

/* Writes the sync into a .c1z file of version 3, which takes the place of one that is there when it is complete and durable.
 * `losses` is a text that says what the file could not hold; it is empty as a rule. */
int32_t duramen_save(uint64_t graph, const uint8_t *path, size_t path_len, duramen_bytes *losses, duramen_bytes *error);

#ifdef __cplusplus
}
#endif

#endif
