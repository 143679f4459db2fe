/* moefs stores: what is kept of checkpoints on the disk, and deleting it. */
#include "cache/store_inspect.h"
#include "engine/model.h"
#include "fs/base/human.h"
#include "fs/base/text.h"
#include "fs/commands/commands.h"
#include "fs/commands/option_word.h"
#include "fs/program/own_store.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 2 }; /* of a store below a folder of them: NAME-HASH/RECIPE, MODEL.moefs/RECIPE */

struct found {
	unsigned count;
	bool failed; /* one cannot be looked at, which was said */
};

static void say(const struct err *e)
{
	(void)fprintf(stderr, "moefs: %s\n", e->text);
}

/* ---- listing ---- */

static const char *state_of(const struct store_seen *s, const char *folder)
{
	static const char *const kinds[] = {[STORE_COMPLETE] = "complete",
					    [STORE_UNFINISHED] = "unfinished",
					    [STORE_IN_PLACE] = "in-place"};
	if (store_in_use(folder))
		return "in-use";
	return store_superseded(folder, s) ? "superseded" : kinds[s->kind];
}

/* A name may have anything in it, and one store is one line. */
static void print_line(const char *folder)
{
	struct text line = {0};
	text_line(&line, folder);
	text_string(&line, "\n");
	(void)fwrite(line.data ? line.data : "", 1, line.length, stdout);
	text_free(&line);
}

static void list_store(struct found *f, const struct store_seen *s, const char *folder)
{
	static const char *const words[] = {[STORE_OF_SAME] = "there",
					    [STORE_OF_TOUCHED] = "touched",
					    [STORE_OF_CHANGED] = "changed",
					    [STORE_OF_GONE] = "gone",
					    [STORE_OF_UNKNOWN] = "unknown"};
	char size[16], day[16] = "-", path[PATH_MAX];
	struct tm used;
	enum store_of of = model_store_of(folder, path, sizeof path);
	if (localtime_r(&s->used.tv_sec, &used))
		(void)strftime(day, sizeof day, "%Y-%m-%d", &used);
	human_round_size(size, sizeof size, s->bytes);
	if (!f->count++)
		(void)printf("%6s %-10s %-10s %-10s %s\n", "SIZE", "LAST USED", "STATE",
			     "CHECKPOINT", "STORE");
	(void)printf("%6s %-10s %-10s %-10s ", size, day, state_of(s, folder), words[of]);
	print_line(folder);
}

static void look(struct found *f, const char *path, int depth);

static void look_inside(struct found *f, const char *path, int depth)
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
			look(f, inside, depth - 1);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* A store, or the stores below a folder. */
static void look(struct found *f, const char *path, int depth)
{
	struct store_seen seen;
	struct err e = {0};
	int failed = store_inspect(path, &seen, &e);
	if (!failed)
		list_store(f, &seen, path);
	else if (failed != -ENOENT && failed != -ENOTDIR && failed != -ELOOP && failed != -EPERM &&
		 failed != -EACCES) {
		say(&e);
		f->failed = true;
	} else if (depth)
		look_inside(f, path, depth);
}

/* What was named, and what lies beside it if it is a model. */
static int list_path(struct found *f, const char *arg, struct err *e)
{
	char path[PATH_MAX], beside[PATH_MAX + 8];
	struct stat st;
	if (!realpath(arg, path))
		return err_sys(e, errno, "%s", arg);
	(void)snprintf(beside, sizeof beside, "%s.moefs", path);
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		look(f, path, DEPTH);
	if (!lstat(beside, &st) && S_ISDIR(st.st_mode))
		look(f, beside, DEPTH - 1);
	return 0;
}

static void list_cache(struct found *f)
{
	char path[PATH_MAX];
	own_store_cache(path);
	look(f, path, DEPTH);
}

/* For people: most stores are not where one looks first. */
static void say_none(bool cache)
{
	if (isatty(STDOUT_FILENO))
		(void)fprintf(
			stderr, "moefs: no store %s\n",
			cache ? "in ~/.cache/moefs (or XDG_CACHE_HOME); `moefs stores FOLDER` "
				"lists those beside the models in it"
			      : "there");
}

/* ---- deleting ---- */

/* The folder that stood for the checkpoint goes with its last store. */
static void remove_parent(const char *store)
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
		(void)rmdir(parent); /* unless there is another in it */
}

struct deleting {
	bool try;      /* only say what would go */
	bool anywhere; /* also where moefs itself puts no stores */
};

/* Every file that deleting would remove, a line each: nobody knows which of them the user has put
 * there. */
static int delete_names(const char *store, struct text *out, struct err *e)
{
	struct dirent **names;
	struct stat st;
	char path[PATH_MAX + 256];
	int n = scandir(store, &names, NULL, alphasort), failed = 0;
	if (n < 0)
		return err_sys(e, errno, "%s: cannot be listed", store);
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		bool itself = !strcmp(name, ".") || !strcmp(name, "..");
		(void)snprintf(path, sizeof path, "%s/%s", store, name);
		if (!itself && !failed && !lstat(path, &st) && S_ISDIR(st.st_mode))
			failed = err_set(e, ENOTEMPTY,
					 "%s: would stay, since another folder lies in it", store);
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

static int delete_try(const char *store, struct text *files, struct err *e)
{
	if (store_in_use(store))
		return err_set(e, EBUSY, "%s: is in use; unmount its model first", store);
	return delete_names(store, files, e);
}

static int delete_store(const char *arg, const struct deleting *d, struct err *e)
{
	char path[PATH_MAX], size[16];
	struct store_seen seen;
	struct text files = {0};
	if (!realpath(arg, path))
		return err_sys(e, errno, "%s", arg);
	int failed = store_inspect(path, &seen, e);
	if (!failed && !d->anywhere && !own_store_is(path))
		failed =
			err_set(e, EPERM,
				"%s: stays, since it is neither in a MODEL.moefs folder nor in the "
				"cache folder; if it is to go all the same, add --anywhere",
				path);
	if (!failed)
		failed = d->try ? delete_try(path, &files, e) : store_remove(path, e);
	if (!failed) {
		if (!d->try)
			remove_parent(path);
		human_round_size(size, sizeof size, seen.bytes);
		(void)printf("%s %s (%s)\n", d->try ? "would delete" : "deleted", path, size);
		(void)fwrite(files.data ? files.data : "", 1, files.length, stdout);
	}
	text_free(&files);
	return failed;
}

/* ---- the command ---- */

static int delete_all(char **stores, const struct deleting *d)
{
	int status = 0;
	for (; *stores; stores++) {
		struct err e = {0};
		if (delete_store(*stores, d, &e)) {
			say(&e);
			status = COMMAND_FAILED;
		}
	}
	return status;
}

static int list_all(char **paths)
{
	struct found f = {0};
	bool cache = !*paths;
	if (cache)
		list_cache(&f);
	for (; *paths; paths++) {
		struct err e = {0};
		if (list_path(&f, *paths, &e)) {
			say(&e);
			f.failed = true;
		}
	}
	if (!f.count && !f.failed)
		say_none(cache);
	return f.failed ? COMMAND_FAILED : 0;
}

int stores_run(int argc, char **argv, struct err *e)
{
	struct deleting d = {0};
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
	if (more && option_word_refuse(argv, (size_t)(end - argv), "the paths", e))
		return COMMAND_WRONG;
	if ((d.try || d.anywhere) > delete || (delete &&!*argv))
		return COMMAND_WRONG;
	return delete ? delete_all(argv, &d) : list_all(argv);
}
