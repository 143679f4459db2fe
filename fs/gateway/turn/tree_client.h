/* The mounted tree's files, used as a shell would use them. Paths are relative to the tree. A
 * client's text becomes part of a path only after tree_model has found it. */
#ifndef MOEFS_FS_GATEWAY_TURN_TREE_CLIENT_H
#define MOEFS_FS_GATEWAY_TURN_TREE_CLIENT_H

#include "fs/base/text.h"
#include "fs/gateway/problem.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TREE_PATH = 1024, TREE_MOST = 64 << 20 };

/* Whether moefs itself serves the tree, not another file system in between. */
bool tree_is_moefs(const char *tree);
/* The tree's device, with which tree_is_gone recognises the tree; 0: it cannot be read. */
dev_t tree_device(const char *tree);
/* Whether the tree of that device is gone: its mountpoint is bare after a lazy unmount, or its file
 * system has ended. False if a tree with models was mounted there again. */
bool tree_is_gone(const char *tree, dev_t device);
/* What a client is told in this case. */
extern const char tree_gone_words[];
/* Calls `visit` with each model's name, in order, until a call returns nonzero; returns that.
 * -errno: the tree cannot be read. */
int tree_models(const char *tree, int (*visit)(void *ctx, const char *name), void *ctx);
/* Whether there is a model of this name. */
bool tree_model(const char *tree, const char *name);

/* Adds a whole file to `out`. -errno. */
__attribute__((format(printf, 3, 4))) int tree_read(const char *tree, struct text *out,
						    const char *format, ...);
/* Reads a file of one line, without its newline; "" if it cannot be read. */
__attribute__((format(printf, 4, 5))) void tree_line(const char *tree, char *value, size_t size,
						     const char *format, ...);
/* Truncates, writes and closes a file; some files refuse a write only at the close. far: a file
 * system in between (sshfs) does not wait for the result of a close, so the file is synced first.
 * -errno. */
__attribute__((format(printf, 5, 6))) int tree_write(const char *tree, bool far, const char *data,
						     size_t size, const char *format, ...);
/* Writes and closes an open file. If fd is an -errno, returns that. */
int tree_write_open(int fd, bool far, const char *data, size_t size);
/* Writes a file that applies each write at once, so it is not truncated and stays open. Returns the
 * descriptor, or -errno. */
__attribute__((format(printf, 4, 5))) int tree_put(const char *tree, const char *data, size_t size,
						   const char *format, ...);
/* Writes a question into a file such as tokenizer/encode, and reads its answer. -errno. */
__attribute__((format(printf, 5, 6))) int tree_ask(const char *tree, const char *data, size_t size,
						   struct text *out, const char *format, ...);
/* A path for other uses. NULL: it is too long. */
__attribute__((format(printf, 3, 4))) char *tree_path(char path[TREE_PATH], const char *tree,
						      const char *format, ...);

/* ---- failures ---- */

struct tree_failure {
	char code[32]; /* a code of moefs(5); "": error.json has none */
	char message[1024];
	char reason[1024]; /* the message's end, without the file's name; "": unknown */
	uint64_t tokens, maximum; /* for prompt_too_long; 0: unknown */
};

/* Reads the error.json of a folder of the tree. member: "refused" or "denied", a member that
 * error.json has if a later failure precedes it. NULL, or if the member is missing: the first
 * failure. Returns 0, or -errno with an empty *f. */
__attribute__((format(printf, 4, 5))) int tree_failure_read(struct tree_failure *f,
							    const char *member, const char *tree,
							    const char *folder, ...);
/* PROBLEM_NONE: there is no code, or an unknown one. */
enum problem_kind tree_failure_kind(const struct tree_failure *f);

#endif
