/* The current state of a source's files: their names, sizes and times, and a checksum of samples.
 *
 * Each write to a file changes its ctime, which no program can set. So a file with unchanged size,
 * mtime and ctime has unchanged bytes. With this, a store of many gigabytes is matched with its
 * source within a millisecond (identity.h). A file system's clock ticks every few milliseconds, and
 * two changes within one tick have the same time, so source_look waits for the tick after the last
 * change. Three kinds of changes go unnoticed: by a program that has mapped the file for writing,
 * until the system writes the page back; on a server whose clock is behind; and by root on the raw
 * disk or with the clock.
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
	uint64_t name_hash; /* its key in an identity */
	struct source_stamp stamp;
};
struct source_state {
	char *path;	 /* as given: a folder, or a GGUF file */
	char *directory; /* folder of the files */
	struct source_file
		*files; /* sorted by name: config.json, tq_config.json or tc_config.json, the index,
			   every .safetensors. Or all parts of a GGUF file, in order */
	uint32_t count;
	/* Checksum of every file's name, size, head and samples of its data. Equal for a copy,
	 * different for almost any other source, and quick to compute. */
	uint64_t sampled[2];
};

/* Blocks: reads at most 1 MiB of each file. Call source_forget, also after an error. */
int source_look(struct source_state *out, const char *path, struct err *e);
void source_forget(struct source_state *s);
/* Whether the source still has exactly these files with these stamps. Reads no file.
 */
bool source_unchanged(const struct source_state *s);
/* The file whose name has this hash, or NULL. */
const struct source_file *source_find(const struct source_state *s, uint64_t name_hash);
uint64_t source_name_hash(const char *name);
/* A number for this state of the source, times included; any change gives another number. */
void source_number(const struct source_state *s, uint64_t out[2]);
/* -ESTALE: the file has changed since source_look; -ENOENT: it is gone. */
int source_compare(const struct source_state *s, const struct source_file *f, struct err *e);

/* Calls `each` for every missing file of weights; opening the source names only the first
 * (package.h). Reads file names, and the index of a checkpoint in shards. Each
 * file is named once, by its name in the folder. A git-lfs pointer counts as missing. After errors,
 * the list may be incomplete. */
void source_missing_files(const char *path, void (*each)(void *ctx, const char *name), void *ctx);

#endif
