/* Parsing the command line, with libfuse's parser, so that -o and its friends are those of every
 * FUSE file system; what is not ours goes to libfuse. */
#include "fs/options.h"
#include "fs/text.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char options_help[] =
	"usage: moefs [options] MODELDIR... MOUNTPOINT\n"
	"\n"
	"Mounts language models as files: echo into MOUNTPOINT/MODEL/prompt, cat from output.\n"
	"A MODELDIR is a checkpoint (config.json, *.safetensors, tokenizer.json), or a folder of "
	"them.\n"
	"\n"
	"    -f                     stay in the foreground\n"
	"    -d                     the same, and show every request\n"
	"    -h, --help             this text\n"
	"    -V, --version          the version\n"
	"    -o OPTION[,OPTION...]  options:\n"
	"\n"
	"    budget=SIZE            memory for experts (default: from what is free)\n"
	"    context_budget=SIZE    memory for contexts (likewise)\n"
	"    quant=NAME             weights as tq2, tq3 (default), tq4 or bf16\n"
	"    codec=NAME             bf16 experts on disk: zstd, none, or auto (default): the "
	"faster\n"
	"    store=DIR              where converted weights are kept (default: MODELDIR.moefs, or\n"
	"                           where that may not be written ~/.cache/moefs)\n"
	"    context=N              tokens per session (default: the model's, at most 32768)\n"
	"    threads=N              for computing (default: one per core)\n"
	"    chunk=N                tokens of a prompt per step\n"
	"    allow_other            let other users in; modes and owners then count\n"
	"    ...                    and mount options as of every file system (see mount.fuse3)\n"
	"\n"
	"Sizes accept K, M, G. To unmount: fusermount3 -u MOUNTPOINT\n";

#define OPTION(template, member)                              \
	{                                                     \
		template, offsetof(struct options, member), 1 \
	}
static const struct fuse_opt specs[] = {
	OPTION("-f", foreground),
	OPTION("-d", debug),
	OPTION("debug", debug),
	OPTION("-h", help),
	OPTION("--help", help),
	OPTION("-V", version),
	OPTION("--version", version),
	OPTION("quant=%s", quant),
	OPTION("codec=%s", codec),
	OPTION("store=%s", store),
	OPTION("budget=%s", budget),
	OPTION("context_budget=%s", context_budget),
	OPTION("context=%u", engine.context),
	OPTION("threads=%u", engine.threads),
	OPTION("chunk=%u", engine.chunk),
	FUSE_OPT_END,
};

/* Keeps what is libfuse's (1) and takes the paths (0). */
static int take(void *data, const char *arg, int key, struct fuse_args *args)
{
	(void)args;
	struct options *o = data;
	if (key != FUSE_OPT_KEY_NONOPT)
		return 1;
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

/* In the background the working directory is /, so paths are made absolute before. */
static int absolute(char **path, struct err *e)
{
	char here[4096], full[2 * 4096];
	if (!*path || **path == '/')
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

static int take_size(const char *name, const char *string, uint64_t *bytes, struct err *e)
{
	if (!string || (size_parse(string, bytes) && *bytes))
		return 0;
	return err_set(e, EINVAL, "-o %s=%s is not a size such as 512M or 4G", name, string);
}

static int add_libfuse_options(struct options *o, struct err *e)
{
	if (fuse_opt_add_arg(&o->fuse, "-odefault_permissions,fsname=moefs,subtype=moefs") ||
	    (o->debug && fuse_opt_add_arg(&o->fuse, "-odebug")))
		return err_set(e, ENOMEM, "no memory for the options");
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	*o = (struct options){.fuse = args};
	if (fuse_opt_parse(&o->fuse, o, specs, take))
		return err_set(e, EINVAL, "the options make no sense; see moefs --help");
	if (o->help || o->version)
		return 0;
	if (o->model_count < 2)
		return err_set(e, EINVAL, "%s; see moefs --help",
			       o->model_count ? "a model and a mountpoint are needed"
					      : "usage: moefs [options] MODELDIR... MOUNTPOINT");
	o->mountpoint = o->models[--o->model_count];
	o->foreground |= o->debug;
	int code = absolute(&o->mountpoint, e);
	if (!code)
		code = absolute(&o->store, e);
	if (!code)
		code = take_size("budget", o->budget, &o->engine.budget, e);
	if (!code)
		code = take_size("context_budget", o->context_budget, &o->engine.context_budget, e);
	if (!code)
		code = add_libfuse_options(o, e);
	o->engine.quant = o->quant;
	o->engine.codec = o->codec;
	o->engine.store = o->store;
	return code;
}

void options_free(struct options *o)
{
	while (o->model_count)
		free(o->models[--o->model_count]);
	free(o->models);
	free(o->mountpoint);
	free(o->quant);
	free(o->codec);
	free(o->store);
	free(o->budget);
	free(o->context_budget);
	fuse_opt_free_args(&o->fuse);
}
