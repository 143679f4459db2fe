/* moefs stores: lists and deletes stores, the converted weights that mounts keep on the disk. */
#include "cache/store_inspect.h"
#include "engine/model.h"
#include "fs/base/human.h"
#include "fs/base/text.h"
#include "fs/commands/commands.h"
#include "fs/program/options.h"
#include "fs/program/offline.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 2 }; /* depth of a store in a folder: NAME-HASH/RECIPE, MODEL.moefs/RECIPE */

struct stores_listed {
	unsigned count;
	bool failed; /* a store could not be read; this was printed */
};

static void stores_print_error(const struct err *e)
{
	(void)fprintf(stderr, "moefs: %s\n", e->text);
}

/* ---- listing ---- */

static const char *stores_state(const struct store_seen *s, const char *folder)
{
	static const char *const kinds[] = {[STORE_COMPLETE] = "complete",
					    [STORE_UNFINISHED] = "unfinished",
					    [STORE_IN_PLACE] = "in-place"};
	if (store_in_use(folder))
		return "in-use";
	return store_superseded(folder, s) ? "superseded" : kinds[s->kind];
}

static void stores_list_one(struct stores_listed *f, const struct store_seen *s, const char *folder)
{
	static const char *const words[] = {[STORE_OF_SAME] = "there",
					    [STORE_OF_TOUCHED] = "touched",
					    [STORE_OF_CHANGED] = "changed",
					    [STORE_OF_GONE] = "gone",
					    [STORE_OF_UNKNOWN] = "unknown"};
	char size[16], day[16] = "-", path[PATH_MAX];
	struct text line = {0};
	struct tm used;
	enum store_of of = model_store_of(folder, path, sizeof path);
	if (localtime_r(&s->used.tv_sec, &used))
		(void)strftime(day, sizeof day, "%Y-%m-%d", &used);
	human_round_size(size, sizeof size, s->bytes);
	if (!f->count++)
		(void)printf("%6s %-10s %-10s %-10s %s\n", "SIZE", "LAST USED", "STATE",
			     "CHECKPOINT", "STORE");
	(void)printf("%6s %-10s %-10s %-10s ", size, day, stores_state(s, folder), words[of]);
	text_line(&line, folder); /* a name may have a newline, but a store is one line */
	(void)fwrite(line.data ? line.data : "", 1, line.length, stdout);
	(void)putchar('\n');
	text_free(&line);
}

/* Lists a store, or the stores below a folder. */
static void stores_look(struct stores_listed *f, const char *path, int depth);

static void stores_look_inside(struct stores_listed *f, const char *path, int depth)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		char inside[PATH_MAX];
		struct stat st;
		if (*names[i]->d_name != '.' &&
		    snprintf(inside, sizeof inside, "%s/%s", path, names[i]->d_name) <
			    (int)sizeof inside &&
		    !lstat(inside, &st) && S_ISDIR(st.st_mode))
			stores_look(f, inside, depth - 1);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

static void stores_look(struct stores_listed *f, const char *path, int depth)
{
	struct store_seen seen;
	struct err e = {0};
	int failed = store_inspect(path, &seen, &e);
	if (!failed)
		stores_list_one(f, &seen, path);
	else if (failed != -ENOENT && failed != -ENOTDIR && failed != -ELOOP && failed != -EPERM &&
		 failed != -EACCES) {
		stores_print_error(&e);
		f->failed = true;
	} else if (depth)
		stores_look_inside(f, path, depth);
}

/* Lists a path's stores, and the store beside it if it is a model. */
static int stores_list_path(struct stores_listed *f, const char *arg, struct err *e)
{
	char path[PATH_MAX], beside[PATH_MAX + 8];
	struct stat st;
	if (!realpath(arg, path))
		return err_sys(e, errno, "%s", arg);
	(void)snprintf(beside, sizeof beside, "%s.moefs", path);
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		stores_look(f, path, DEPTH);
	if (!lstat(beside, &st) && S_ISDIR(st.st_mode))
		stores_look(f, beside, DEPTH - 1);
	return 0;
}

/* ---- deleting ---- */

/* Removes the folder of the checkpoint's stores if it is empty now. */
static void stores_remove_parent(const char *store)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(store, '/');
	if (!slash || slash == store)
		return;
	(void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - store), store);
	size_t length = strlen(parent), hash = strspn(parent, "/") < length ? 9 : 0;
	bool beside = length > 6 && !strcmp(parent + length - 6, ".moefs");
	bool named = length > hash && parent[length - hash] == '-' &&
		     strspn(parent + length - hash + 1, "0123456789abcdef") == hash - 1;
	if (beside || named)
		(void)rmdir(parent); /* fails if another store is in it */
}

struct stores_deletion {
	bool try;      /* only print what would be deleted */
	bool anywhere; /* also in folders where moefs does not put stores */
};

/* Adds a line for each file that deleting would remove, since the user may have put some of them
 * there. */
static int stores_file_names(const char *store, struct text *out, struct err *e)
{
	struct dirent **names;
	struct stat st;
	char path[PATH_MAX + 256];
	int n = scandir(store, &names, NULL, alphasort), failed = 0;
	if (n < 0)
		return err_sys(e, errno, "%s cannot be listed", store);
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		bool itself = !strcmp(name, ".") || !strcmp(name, "..");
		(void)snprintf(path, sizeof path, "%s/%s", store, name);
		if (!itself && !failed && !lstat(path, &st) && S_ISDIR(st.st_mode))
			failed = err_set(e, ENOTEMPTY,
					 "%s would stay, since another folder is in it", store);
		if (!itself) {
			text_string(out, "  ");
			text_line(out, name);
			text_string(out, "\n");
		}
		free(names[i]);
	}
	free(names);
	return !failed && out->failed ? err_set(e, ENOMEM, "no memory for the names") : failed;
}

static int stores_delete_one(const char *arg, const struct stores_deletion *d, struct err *e)
{
	char path[PATH_MAX], size[16];
	struct store_seen seen;
	struct text files = {0};
	if (!realpath(arg, path))
		return err_sys(e, errno, "%s", arg);
	int failed = store_inspect(path, &seen, e);
	if (!failed && !d->anywhere && !offline_store_is_own(path))
		failed = err_set(
			e, EPERM,
			"%s stays, since it is neither in a MODEL.moefs folder nor in the cache "
			"folder; to delete it anyway, add --anywhere",
			path);
	if (!failed && d->try)
		failed = store_in_use(path)
				 ? err_set(e, EBUSY, "%s is in use; unmount its model first", path)
				 : stores_file_names(path, &files, e);
	else if (!failed)
		failed = store_remove(path, e);
	if (!failed) {
		if (!d->try)
			stores_remove_parent(path);
		human_round_size(size, sizeof size, seen.bytes);
		(void)printf("%s %s (%s)\n", d->try ? "would delete" : "deleted", path, size);
		(void)fwrite(files.data ? files.data : "", 1, files.length, stdout);
	}
	text_free(&files);
	return failed;
}

/* ---- the command ---- */

static int stores_delete(char **stores, const struct stores_deletion *d)
{
	int status = 0;
	for (; *stores; stores++) {
		struct err e = {0};
		if (stores_delete_one(*stores, d, &e)) {
			stores_print_error(&e);
			status = COMMAND_FAILED;
		}
	}
	return status;
}

static int stores_list(char **paths)
{
	struct stores_listed f = {0};
	char folder[PATH_MAX];
	bool cache = !*paths;
	if (cache) {
		offline_cache_folder(folder);
		stores_look(&f, folder, DEPTH);
	}
	for (; *paths; paths++) {
		struct err e = {0};
		if (stores_list_path(&f, *paths, &e)) {
			stores_print_error(&e);
			f.failed = true;
		}
	}
	if (!f.count && !f.failed &&
	    isatty(STDOUT_FILENO)) /* since most stores are beside their models */
		(void)fprintf(stderr, "moefs: no stores %s\n",
			      cache ? "in ~/.cache/moefs (XDG_CACHE_HOME); `moefs stores FOLDER` "
				      "lists those beside the models in FOLDER"
				    : "there");
	return f.failed ? COMMAND_FAILED : 0;
}

int stores_run(int argc, char **argv, struct err *e)
{
	struct stores_deletion d = {0};
	bool delete = false, more = true;
	char **end = argv + argc;
	for (argv++; *argv && **argv == '-' && more; argv++)
		if (!strcmp(*argv, "--delete"))
			delete = true;
		else if (!strcmp(*argv, "-n"))
			d.try = true;
		else if (!strcmp(*argv, "--anywhere"))
			d.anywhere = true;
		else if (!strcmp(*argv, "--"))
			more = false;
		else
			return COMMAND_WRONG;
	if (more && options_refuse_words(argv, (size_t)(end - argv), "the paths", e))
		return COMMAND_WRONG;
	if ((d.try || d.anywhere) > delete || (delete &&!*argv))
		return COMMAND_WRONG;
	return delete ? stores_delete(argv, &d) : stores_list(argv);
}
