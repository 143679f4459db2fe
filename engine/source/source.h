/* A checkpoint's files as they are now: which there are, size and times of each, and a sum of
 * samples of them.
 *
 * Each write to a file changes its ctime, which no program can set. So a file with unchanged size,
 * mtime and ctime has unchanged bytes. This matches a store of many gigabytes with its source
 * within a millisecond (identity.h). A file system's clock ticks every few milliseconds, and two
 * changes within one tick have the same time; so source_look waits for the tick after the last
 * change. Three kinds of changes are not noticed: by a program that had mapped the file for writing
 * before we looked, until the system writes the page back; on a server whose clock is behind; and
 * by root on the raw disk or the clock.
 */
#ifndef MOEFS_ENGINE_SOURCE_SOURCE_H
#define MOEFS_ENGINE_SOURCE_SOURCE_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

struct source_stamp {
	uint64_t size;
	struct timespec modified, changed; /* mtime, ctime */
};
bool source_stamps_equal(const struct source_stamp *a, const struct source_stamp *b);
struct source_stamp source_stamp_of(const struct stat *st);

struct source_file {
	char *name;	    /* in the directory */
	uint64_t name_hash; /* by which it is kept */
	struct source_stamp stamp;
};
struct source_state {
	char *path;	 /* as it was given: a folder, or a GGUF file */
	char *directory; /* that the files are in */
	struct source_file
		*files; /* by name: config.json, tq_config.json or tc_config.json, the index, every
			   .safetensors. Or every part of a GGUF file, in their order */
	uint32_t count;
	/* Every file's name, size, head and samples of its data: the same for a copy, different for
	 * most of what differs, and read in a moment. */
	uint64_t sampled[2];
};

/* Blocks while it reads at most 1 MiB of each file. source_forget frees, also after a failure. */
int source_look(struct source_state *out, const char *path, struct err *e);
void source_forget(struct source_state *s);
/* Whether all that was looked at, and nothing else, is there with the same stamps; reads no file.
 */
bool source_unchanged(const struct source_state *s);
/* The file of that name (its hash), or NULL. */
const struct source_file *source_find(const struct source_state *s, uint64_t name_hash);
uint64_t source_name_hash(const char *name);
/* A number for the source as it was looked at, times included: different after any change. */
void source_number(const struct source_state *s, uint64_t out[2]);
/* -ESTALE with a sentence: the file has changed since source_look; -ENOENT: it is gone. */
int source_compare(const struct source_state *s, const struct source_file *f, struct err *e);

/* Calls `each` for every file of weights that the source should have and has not; opening the
 * source names only the first (package.h). Reads names, and the index of a checkpoint in shards. */
/* Each file is named once, as in the folder. A git-lfs pointer counts as missing. What cannot be
 * found out is left out. */
void source_missing_files(const char *path, void (*each)(void *ctx, const char *name), void *ctx);

#endif
