/* The mounted tree's files, as a shell would use them. Paths are relative to the tree; nothing from
 * a client becomes a part of one before tree_model has found it. */
#ifndef MOEFS_FS_GATEWAY_TURN_TREE_H
#define MOEFS_FS_GATEWAY_TURN_TREE_H

#include "fs/base/text.h"

#include <json-c/json.h>
#include <sys/types.h>

enum { TREE_PATH = 1024, TREE_MOST = 64 << 20 };

/* Whether it is moefs itself that serves it, and not a file system between. */
bool tree_is_moefs(const char *tree);
/* The device of the tree, by which tree_is_gone knows it again; 0: it cannot be had. */
dev_t tree_device(const char *tree);
/* Whether the tree of that device is there no more: its mountpoint is bare, as a lazy unmount
 * leaves it, or its file system has ended. A tree that was mounted there again has models. */
bool tree_is_gone(const char *tree, dev_t device);
/* What a client is told then. */
extern const char tree_gone_words[];
/* Calls for each model's name, in their order, until one returns other than 0, which is returned.
 * -errno: the tree cannot be read. */
int tree_models(const char *tree, int (*visit)(void *ctx, const char *name), void *ctx);
/* Whether there is a model of this name. */
bool tree_model(const char *tree, const char *name);

/* A whole file, added to `out`. -errno. */
__attribute__((format(printf, 3, 4))) int tree_read(const char *tree, struct text *out,
						    const char *format, ...);
/* A file of one line, without its newline; "" where it cannot be read. */
__attribute__((format(printf, 4, 5))) void tree_line(const char *tree, char *value, size_t size,
						     const char *format, ...);
/* Truncates and writes a file, and closes it, where some writes are refused. -errno. */
__attribute__((format(printf, 4, 5))) int tree_write(const char *tree, const char *data,
						     size_t size, const char *format, ...);
/* The same where another file system is between, which closes without waiting for what that comes
 * to (sshfs): it has taken effect, or was refused, before it is closed. */
__attribute__((format(printf, 4, 5))) int tree_write_far(const char *tree, const char *data,
							 size_t size, const char *format, ...);
/* The same of a file that is open, or -errno, which comes back; it is closed. */
int tree_write_open(int fd, const char *data, size_t size, bool far);
/* The same of a file that takes each write as it comes, and that need not be truncated: it stays
 * open. A descriptor, or -errno. */
__attribute__((format(printf, 4, 5))) int tree_put(const char *tree, const char *data, size_t size,
						   const char *format, ...);
/* Asks a file that is asked, such as tokenizer/encode: writes, then reads to its end. -errno. */
__attribute__((format(printf, 5, 6))) int tree_ask(const char *tree, const char *data, size_t size,
						   struct text *out, const char *format, ...);
/* Copies a file into another that is there, piece by piece; both are below `folder`. -errno. */
int tree_copy(const char *tree, const char *folder, const char *from, const char *to);
/* For what is none of these. NULL: too long. */
__attribute__((format(printf, 3, 4))) char *tree_path(char path[TREE_PATH], const char *tree,
						      const char *format, ...);

#endif
