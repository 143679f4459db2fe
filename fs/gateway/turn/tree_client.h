/* The mounted tree's files, used as a shell would use them. Paths are relative to the tree. Nothing
 * from a client becomes a part of a path before tree_model has found it. */
#ifndef MOEFS_FS_GATEWAY_TURN_TREE_CLIENT_H
#define MOEFS_FS_GATEWAY_TURN_TREE_CLIENT_H

#include "fs/base/text.h"
#include "fs/gateway/problem.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TREE_PATH = 1024, TREE_MOST = 64 << 20 };

/* Whether moefs itself serves the tree, and not a file system between. */
bool tree_is_moefs(const char *tree);
/* The tree's device, by which tree_is_gone knows it again; 0: it cannot be read. */
dev_t tree_device(const char *tree);
/* Whether the tree of that device is gone: its mountpoint is bare, as a lazy unmount leaves it, or
 * its file system has ended. A tree that was mounted there again has models. */
bool tree_is_gone(const char *tree, dev_t device);
/* What a client is told then. */
extern const char tree_gone_words[];
/* Calls `visit` with each model's name, in their order, until one call returns other than 0;
 * returns that. -errno: the tree cannot be read. */
int tree_models(const char *tree, int (*visit)(void *ctx, const char *name), void *ctx);
/* Whether there is a model of this name. */
bool tree_model(const char *tree, const char *name);

/* Adds a whole file to `out`. -errno. */
__attribute__((format(printf, 3, 4))) int tree_read(const char *tree, struct text *out,
						    const char *format, ...);
/* Reads a file of one line, without its newline; "" where it cannot be read. */
__attribute__((format(printf, 4, 5))) void tree_line(const char *tree, char *value, size_t size,
						     const char *format, ...);
/* Truncates, writes and closes a file; some files refuse a write only at the close. far: a file
 * system between closes without waiting for the result (sshfs), so the file is synced first.
 * -errno. */
__attribute__((format(printf, 5, 6))) int tree_write(const char *tree, bool far, const char *data,
						     size_t size, const char *format, ...);
/* Writes and closes an open file; an fd that is an -errno comes back. */
int tree_write_open(int fd, bool far, const char *data, size_t size);
/* Writes a file that takes each write as it comes, so it is not truncated and stays open. Its
 * descriptor, or -errno. */
__attribute__((format(printf, 4, 5))) int tree_put(const char *tree, const char *data, size_t size,
						   const char *format, ...);
/* Writes a question into a file such as tokenizer/encode, and reads its answer. -errno. */
__attribute__((format(printf, 5, 6))) int tree_ask(const char *tree, const char *data, size_t size,
						   struct text *out, const char *format, ...);
/* A path for any other use. NULL: it is too long. */
__attribute__((format(printf, 3, 4))) char *tree_path(char path[TREE_PATH], const char *tree,
						      const char *format, ...);

/* ---- failures ---- */

struct tree_failure {
	char code[32]; /* as moefs(5) lists them; "": error.json says nothing */
	char message[1024];
	char reason[1024]; /* the message's end, without the file's name; "": there is none */
	uint64_t tokens, maximum; /* of prompt_too_long; 0: not known */
};

/* Reads the error.json of a folder of the tree. member: "refused" or "denied", which error.json has
 * where a later failure stands before them; NULL, or where it is missing: the first failure. 0, or
 * -errno with an empty *f. */
__attribute__((format(printf, 4, 5))) int tree_failure_read(struct tree_failure *f,
							    const char *member, const char *tree,
							    const char *folder, ...);
/* PROBLEM_NONE: there is no code, or it is not known here. */
enum problem_kind tree_failure_kind(const struct tree_failure *f);

#endif
