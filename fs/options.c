/* Parsing the command line, with libfuse's parser, so that -o and its friends are those of every
 * FUSE file system; what is the mount's and not ours goes to libfuse. Every option is known here,
 * ours and libfuse's, so that what is refused is refused in our words, before anything is begun. */
#include "fs/options.h"
#include "fs/mount.h"
#include "fs/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char options_help[] =
	"usage: moefs [options] MODELDIR... MOUNTPOINT\n"
	"       moefs --check [options] MODELDIR...\n"
	"\n"
	"Mounts language models as files: echo into MOUNTPOINT/MODEL/prompt, cat from output.\n"
	"A MODELDIR is a checkpoint (config.json, *.safetensors, tokenizer.json), a GGUF file or "
	"its\n"
	"first part, a model in a hub's cache (models--ORG--NAME), or a folder of these.\n"
	"\n"
	"    -f                     stay in the foreground\n"
	"    -d                     the same, and show every request\n"
	"    -h, --help             this text\n"
	"    -V, --version          the version\n"
	"    --check                mount nothing, but say what each model is, what it would take\n"
	"                           of disk and memory, and what is wrong with it; status 0: all\n"
	"                           can be mounted, 1: not all, 2: a wrong option\n"
	"    -o OPTION[,OPTION...]  options:\n"
	"\n"
	"    budget=SIZE            memory for experts (default: from what is free)\n"
	"    context_budget=SIZE    memory for contexts (likewise)\n"
	"    quant=NAME             weights as auto (default), tq2, tq3, tq4 or bf16\n"
	"    exact                  arithmetic in 32 bits with the checkpoint's own weights, or\n"
	"                           with those that quant= makes\n"
	"    codec=NAME             bf16 experts on disk: zstd, none, or auto (default): the "
	"faster\n"
	"    template=FILE          the chat template of every model, in place of its own\n"
	"    store=DIR              where converted weights are kept (default: MODELDIR.moefs, or\n"
	"                           where that may not be written ~/.cache/moefs)\n"
	"    context=N              tokens per session (default: the model's, at most 32768)\n"
	"    threads=N              for computing (default: one per core)\n"
	"    chunk=N                tokens of a prompt per step\n"
	"    idle=TIME              a model that nobody asked for so long (30s, 10m, 2h) is "
	"unloaded\n"
	"    allow_other            let other users in; modes and owners then count\n"
	"    name=NAME              the model's folder in the mount (default: as its own)\n"
	"    fsname=NAME            the source that df shows (default: MODELDIR)\n"
	"    ...                    and mount options as of every file system (see mount.fuse3)\n"
	"\n"
	"A SIZE is as in 512M, 1.5G (or GB: powers of 1024), or 50%: of the machine's memory, or\n"
	"of the control group's limit if that is less. auto is the default of every option but\n"
	"store, template, name and fsname.\n"
	"To unmount: fusermount3 -u MOUNTPOINT\n";

/* ---- the tables ---- */

#define SWITCH(template, member)                              \
	{                                                     \
		template, offsetof(struct options, member), 1 \
	}
static const struct fuse_opt switches[] = {
	SWITCH("-f", foreground),      SWITCH("-d", debug),
	SWITCH("debug", debug),	       SWITCH("-h", help),
	SWITCH("--help", help),	       SWITCH("-V", version),
	SWITCH("--version", version),  SWITCH("--check", check),
	SWITCH("exact", engine.exact), FUSE_OPT_END,
};

enum kind {
	WORD,	/* the engine knows which there are */
	NUMBER, /* from 1 on; the engine knows the most */
	SIZE,
	SECONDS, /* or off */
	PATH,
	SOURCE,
	NAME,
};

/* What takes a value. */
static const struct value {
	const char *name;
	enum kind kind;
	size_t offset; /* in engine_options: const char *, uint32_t or uint64_t */
	const char *what;
} values[] = {
#define ENGINE(member) offsetof(struct engine_options, member)
	{"quant", WORD, ENGINE(quant), "auto, tq2, tq3, tq4 or bf16"},
	{"codec", WORD, ENGINE(codec), "zstd, none or auto"},
	{"template", PATH, ENGINE(template_file), "the name of a file"},
	{"store", PATH, ENGINE(store), "the name of a folder"},
	{"budget", SIZE, ENGINE(budget), "a size such as 512M, 1.5G or 50%, or auto"},
	{"context_budget", SIZE, ENGINE(context_budget),
	 "a size such as 512M, 1.5G or 50%, or auto"},
	{"context", NUMBER, ENGINE(context), "a whole number from 1 on, or auto"},
	{"threads", NUMBER, ENGINE(threads), "a whole number from 1 on, or auto"},
	{"chunk", NUMBER, ENGINE(chunk), "a whole number from 1 on, or auto"},
	{"idle", SECONDS, ENGINE(idle), "a time such as 30s, 10m or 2h, off or auto"},
	{"fsname", SOURCE, 0, "the name of a source"},
	{"name", NAME, 0, "a name for the model's folder"},
};
_Static_assert(sizeof values / sizeof *values == OPTION_VALUES, "struct options has room for all");

/* What libfuse and the kernel know of any mount; those that end in = take a value. */
static const char *const mount_options[] = {
	"allow_other", "allow_root", "auto_unmount", "default_permissions",
	"max_read=",   "rw",	     "ro",	     "suid",
	"nosuid",      "dev",	     "nodev",	     "exec",
	"noexec",      "async",	     "sync",	     "dirsync",
	"atime",       "noatime",
};
enum { MOUNT_OPTIONS = sizeof mount_options / sizeof *mount_options };

/* ---- taking arguments ---- */

static int take_path(struct options *o, const char *arg)
{
	char **grown = realloc(o->models, (o->model_count + 1) * sizeof *grown);
	char *copy = strdup(arg);
	if (grown)
		o->models = grown;
	if (!grown || !copy) {
		free(copy);
		return -1;
	}
	o->models[o->model_count++] = copy;
	return 0;
}

/* Whether arg is NAME=VALUE of that name; the last one given counts. 1: it is not. */
static int take_value(struct options *o, size_t i, const char *arg)
{
	size_t length = strlen(values[i].name);
	if (strncmp(arg, values[i].name, length) != 0 || (arg[length] && arg[length] != '='))
		return 1;
	char *copy = strdup(arg[length] ? arg + length + 1 : "");
	if (!copy)
		return -1;
	free(o->values[i]);
	o->values[i] = copy;
	return 0;
}

static bool is_mount_option(const char *arg)
{
	for (size_t i = 0; i < MOUNT_OPTIONS; i++) {
		size_t length = strlen(mount_options[i]);
		bool takes = mount_options[i][length - 1] == '=';
		if (takes ? !strncmp(arg, mount_options[i], length) &&
				    isdigit((unsigned char)arg[length])
			  : !strcmp(arg, mount_options[i]))
			return true;
	}
	return false;
}

/* Keeps what is libfuse's (1) and takes what is ours (0). */
static int take(void *data, const char *arg, int key, struct fuse_args *args)
{
	(void)args;
	struct options *o = data;
	if (key == FUSE_OPT_KEY_NONOPT)
		return take_path(o, arg);
	int taken = 1;
	for (size_t i = 0; i < OPTION_VALUES && taken == 1; i++)
		taken = take_value(o, i, arg);
	if (taken != 1)
		return taken;
	if (is_mount_option(arg)) {
		o->allow_other |= !strcmp(arg, "allow_other");
		o->allow_root |= !strcmp(arg, "allow_root");
		return 1;
	}
	if (!o->refused.code)
		err_set(&o->refused, EINVAL, "%s%s: there is no such option; see moefs --help",
			*arg == '-' ? "" : "-o ", arg);
	return 0;
}

/* ---- values ---- */

/* In the background the working directory is /, so paths are made absolute before. */
static int absolute(char **path, struct err *e)
{
	char here[4096], full[2 * 4096];
	if (!**path)
		return err_set(e, EINVAL, "an empty path names no folder; see moefs --help");
	if (**path == '/')
		return 0;
	if (!getcwd(here, sizeof here))
		return err_sys(e, errno, "cannot find the working directory");
	int n = snprintf(full, sizeof full, "%s/%s", here, *path);
	char *copy = n < (int)sizeof full ? strdup(full) : NULL;
	if (!copy)
		return err_set(e, ENOMEM, "%s: no memory for this path", *path);
	free(*path);
	*path = copy;
	return 0;
}

static bool number_parse(const char *string, uint32_t *number)
{
	char *end;
	errno = 0;
	uintmax_t value = strtoumax(string, &end, 10);
	*number = (uint32_t)value;
	return isdigit((unsigned char)*string) && !*end && !errno && value && value <= UINT32_MAX;
}

static int take_name(struct options *o, const char *name, struct err *e)
{
	if (o->model_count > 1)
		return err_set(
			e, EINVAL,
			"-o name=%s names one model, and %zu are given: mount them one by one",
			name, o->model_count);
	if (!models_name_fits(name))
		return err_set(
			e, EINVAL,
			"-o name=%s: a folder's name has no slash and no control characters, "
			"does not begin with a dot, and has at most %d bytes",
			name, MODEL_NAME_MOST);
	o->name = name;
	return 0;
}

/* Puts a value where the engine looks for it. What is not given, or auto, is left at the default.
 */
static int apply(struct options *o, size_t i, struct err *e)
{
	const struct value *v = &values[i];
	const char *string = o->values[i];
	void *place = (char *)&o->engine + v->offset;
	bool named = v->kind == PATH || v->kind == SOURCE || v->kind == NAME;
	bool good = string && *string;
	if (!string || (!named && !strcmp(string, "auto")))
		return 0;
	if (good && v->kind == NUMBER)
		good = number_parse(string, place);
	if (good && v->kind == SIZE)
		good = size_parse(string, engine_memory(), place) && *(uint64_t *)place;
	if (good && v->kind == SECONDS)
		good = !strcmp(string, "off") || seconds_parse(string, place);
	if (!good)
		return err_set(e, EINVAL, "-o %s=%s is not %s", v->name, string, v->what);
	if (v->kind == NAME)
		return take_name(o, string, e);
	if (v->kind == PATH) {
		int failed = absolute(&o->values[i], e);
		if (failed)
			return failed;
	}
	if (v->kind == WORD || v->kind == PATH)
		*(const char **)place = o->values[i];
	return 0;
}

/* The source of the mount, in df and mountinfo: what was asked for, else the model's folder by its
 * real path, which mount(8) makes of fstab's source before it compares them, so that `mount -a`
 * knows what is mounted; of several models there is no one folder. malloc'ed; NULL: out of memory.
 */
static char *source_of(const struct options *o)
{
	for (size_t i = 0; i < OPTION_VALUES; i++)
		if (values[i].kind == SOURCE && o->values[i])
			return strdup(o->values[i]);
	if (o->model_count > 1)
		return strdup("moefs");
	char *real = realpath(*o->models, NULL);
	return real ? real : strdup(*o->models);
}

static int add_libfuse_options(struct options *o, struct err *e)
{
	char *source = source_of(o), *option = NULL, *list = NULL;
	bool failed = !source || asprintf(&option, "fsname=%s", source) < 0 ||
		      fuse_opt_add_opt(&list, "default_permissions,subtype=moefs") ||
		      fuse_opt_add_opt_escaped(&list, option) ||
		      (o->debug && fuse_opt_add_opt(&list, "debug")) ||
		      fuse_opt_add_arg(&o->fuse, "-o") || fuse_opt_add_arg(&o->fuse, list);
	free(source);
	free(option);
	free(list);
	return failed ? err_set(e, ENOMEM, "no memory for the options") : 0;
}

/* ---- the whole ---- */

static int parse_arguments(struct options *o, int argc, char **argv, struct err *e)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	*o = (struct options){.fuse = args};
	if (argc > 1 && !strcmp(argv[argc - 1], "-o"))
		return err_set(e, EINVAL, "-o needs an option after it; see moefs --help");
	if (fuse_opt_parse(&o->fuse, o, switches, take))
		return err_set(e, ENOMEM, "no memory for the options");
	if (o->help || o->version)
		return 0;
	if (o->refused.code)
		return err_set(e, o->refused.code, "%s", o->refused.text);
	if (o->allow_other && o->allow_root)
		return err_set(e, EINVAL, "-o allow_other lets root in, too: leave out allow_root");
	if (o->check && !o->model_count)
		return err_set(e, EINVAL, "--check needs a model; see moefs --help");
	if (o->check)
		return 0;
	if (o->model_count < 2)
		return err_set(e, EINVAL, "%s; see moefs --help",
			       o->model_count ? "a model and a mountpoint are needed"
					      : "usage: moefs [options] MODELDIR... MOUNTPOINT");
	o->mountpoint = o->models[--o->model_count];
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	int code = parse_arguments(o, argc, argv, e);
	if (code || o->help || o->version)
		return code;
	o->foreground |= o->debug;
	if (o->mountpoint)
		code = absolute(&o->mountpoint, e);
	for (size_t i = 0; i < o->model_count && !code; i++)
		code = absolute(&o->models[i], e);
	for (size_t i = 0; i < OPTION_VALUES && !code; i++)
		code = apply(o, i, e);
	return code ? code : add_libfuse_options(o, e);
}

void options_free(struct options *o)
{
	while (o->model_count)
		free(o->models[--o->model_count]);
	free(o->models);
	free(o->mountpoint);
	for (size_t i = 0; i < OPTION_VALUES; i++)
		free(o->values[i]);
	fuse_opt_free_args(&o->fuse);
}
