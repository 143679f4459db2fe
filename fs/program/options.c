/* Parsing the command line, with libfuse's parser, so that -o and its friends are those of every
 * FUSE file system; what is the mount's and not ours goes to libfuse. Every option is known here,
 * ours and libfuse's, so that what is refused is refused in our words, before anything is begun. */
#include "fs/program/options_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SWITCH(template, member)                              \
	{                                                     \
		template, offsetof(struct options, member), 1 \
	}
static const struct fuse_opt switches[] = {
	SWITCH("-f", foreground),
	SWITCH("-d", debug),
	SWITCH("debug", debug),
	SWITCH("-h", help),
	SWITCH("--help", help),
	SWITCH("-V", version),
	SWITCH("--version", version),
	SWITCH("--check", check),
	SWITCH("--refine", refine),
	{"--text %s", offsetof(struct options, text), 0}, /* with a = as well: take_text */
	SWITCH("-v", verbose),
	SWITCH("exact", engine.exact),
	FUSE_OPT_END,
};

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

/* Keeps what is libfuse's (1) and takes what is ours (0). */
static int take(void *data, const char *arg, int key, struct fuse_args *args)
{
	(void)args;
	struct options *o = data;
	if (key == FUSE_OPT_KEY_NONOPT)
		return take_path(o, arg);
	int taken = options_take_value(o, arg);
	if (taken != 1)
		return taken;
	o->nonempty |= !strcmp(arg, "nonempty");
	enum mount_option known = options_of_mount(arg);
	o->allow_other |= !strcmp(arg, "allow_other");
	o->allow_root |= !strcmp(arg, "allow_root");
	o->auto_unmount |= !strcmp(arg, "auto_unmount");
	if (known)
		return known == MOUNT_OPTION_PASSED;
	if (!o->refused.code && !o->lenient)
		err_set(&o->refused, EINVAL, "%s%s: there is no such option; see moefs --help",
			*arg == '-' ? "" : "-o ", arg);
	return 0;
}

static int add_libfuse_options(struct options *o, struct err *e)
{
	char *source = options_source(o), *option = NULL, *list = NULL;
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

static int too_few(const struct options *o, struct err *e)
{
	return err_set(e, EINVAL, "%s; see moefs --help",
		       o->model_count ? "a model and a mountpoint are needed"
				      : "usage: moefs [options] MODELDIR... MOUNTPOINT");
}

static int parse_arguments(struct options *o, int argc, char **argv, bool lenient, struct err *e)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	*o = (struct options){.fuse = args, .lenient = lenient};
	if (argc > 1 && !strcmp(argv[argc - 1], "-o"))
		return err_set(e, EINVAL, "-o needs an option after it; see moefs --help");
	if (argc > 1 && !strcmp(argv[argc - 1], "--text"))
		return err_set(e, EINVAL, "--text needs a file after it; see moefs --help");
	if (fuse_opt_parse(&o->fuse, o, switches, take))
		return err_set(e, ENOMEM, "no memory for the options");
	if (o->help || o->version)
		return 0;
	if (o->refused.code)
		return err_set(e, o->refused.code, "%s", o->refused.text);
	if (o->allow_other && o->allow_root)
		return err_set(e, EINVAL, "-o allow_other lets root in, too: leave out allow_root");
	if (o->check && o->refine)
		return err_set(e, EINVAL, "--check and --refine exclude each other");
	if (o->text && !o->refine)
		return err_set(e, EINVAL, "--text is what --refine reads; see moefs --help");
	if ((o->check || o->refine) && !o->model_count)
		return err_set(e, EINVAL, "%s needs a model; see moefs --help",
			       o->check ? "--check" : "--refine");
	if (o->check || o->refine)
		return 0;
	if (o->model_count < 2)
		return too_few(o, e);
	o->mountpoint = o->models[--o->model_count];
	return 0;
}

/* libfuse's parser leaves the = of --text=FILE with its value. */
static int take_text(struct options *o, struct err *e)
{
	if (*o->text == '=')
		memmove(o->text, o->text + 1, strlen(o->text));
	return options_absolute(&o->text, e);
}

int options_parse(struct options *o, int argc, char **argv, bool lenient, struct err *e)
{
	int code = parse_arguments(o, argc, argv, lenient, e);
	if (code || o->help || o->version)
		return code;
	o->foreground |= o->debug;
	if (o->mountpoint)
		code = options_absolute(&o->mountpoint, e);
	for (size_t i = 0; i < o->model_count && !code; i++)
		code = options_absolute(&o->models[i], e);
	if (o->text && !code)
		code = take_text(o, e);
	for (size_t i = 0; i < OPTION_VALUES && !code; i++)
		code = options_apply(o, i, e);
	if (!code && o->whose.changes && o->auto_unmount)
		code = err_set(e, EINVAL, "-o auto_unmount and uid= or gid= exclude each other");
	return code ? code : add_libfuse_options(o, e);
}

void options_free(struct options *o)
{
	while (o->model_count)
		free(o->models[--o->model_count]);
	free(o->models);
	free(o->mountpoint);
	free(o->text);
	for (size_t i = 0; i < OPTION_VALUES; i++)
		free(o->values[i]);
	while (o->param_count)
		free(o->params[--o->param_count].value);
	free(o->params);
	privilege_free(&o->whose);
	fuse_opt_free_args(&o->fuse);
}

int options_refuse_words(char **words, size_t count, const char *before, struct err *e)
{
	for (size_t i = 0; i < count; i++) {
		size_t hyphens = strspn(words[i], "-");
		if ((hyphens == 1 || hyphens == 2) && isalpha((unsigned char)words[i][hyphens]) &&
		    !strpbrk(words[i], " \t\n"))
			return err_set(e, EINVAL,
				       "%.200s: options come before %s; if it is no option, put -- "
				       "before %s",
				       words[i], before, before);
	}
	return 0;
}
