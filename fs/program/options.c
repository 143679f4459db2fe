/* See options.h. libfuse's parser reads the command line, so that -o and similar options work as
 * for every FUSE file system. This file knows every option, including libfuse's and the kernel's,
 * so that a wrong one is refused with our sentence before anything begins. options_values.c has the
 * options with a value. */
#include "fs/program/options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- --help ---- */

const char options_help[] =
	"usage: moefs [options] MODELDIR... MOUNTPOINT\n"
	"       moefs --check [options] MODELDIR...\n"
	"       moefs --refine [--text FILE] [options] MODELDIR...\n"
	"       moefs --loss [options] MODELDIR...\n"
	"       moefs -a [options] [MODELDIR...] [MOUNTPOINT]\n"
	"       moefs ask | chat | demo | list | stores | top | umount ...  (--help)\n"
	"\n"
	"Mounts language models as files: write MOUNTPOINT/MODEL/prompt, read output.\n"
	"A MODELDIR is a checkpoint (config.json, *.safetensors, tokenizer.json), a GGUF\n"
	"file or its first part, a model in a hub's cache (models--ORG--NAME), or a\n"
	"folder of these.\n"
	"\n"
	"    -a                     mount what ollama, LM Studio, llama.cpp and hubs'\n"
	"                           clients keep, in place; without a MOUNTPOINT: list it\n"
	"    -f                     stay in the foreground\n"
	"    -v                     log a line for each answered prompt, without its\n"
	"                           text\n"
	"    -d                     stay in the foreground and print every request\n"
	"    -h, --help             show this help\n"
	"    -V, --version          show the version\n"
	"    --check                do not mount: print what each model is, the disk\n"
	"                           space and memory it needs, and what is wrong with\n"
	"                           it; exit status 0: all can be mounted, 1: not all,\n"
	"                           2: a wrong option\n"
	"    --refine               do not mount: make a more exact store of the same\n"
	"                           size, which the next mount uses\n"
	"    --text=FILE            the plain text that the model reads for --refine\n"
	"                           (default: text that the model writes itself)\n"
	"    --loss                 do not mount: measure how far each model's store is\n"
	"                           from its checkpoint, and print that; info/loss shows\n"
	"                           it then\n"
	"    -o OPTION[,OPTION...]  options:\n"
	"\n"
	"    budget=SIZE            memory for experts (default: from what is free)\n"
	"    context_budget=SIZE    memory for contexts (default: from what is free)\n"
	"    offload=SIZE           disk for contexts of idle conversations whose memory\n"
	"                           is needed (default: off)\n"
	"    remember=DIR           keep answers at temperature 0, or with a seed,\n"
	"                           in this folder, and give them again\n"
	"    remember_size=SIZE     disk for them (default: 1G)\n"
	"    quant=NAME             format of the weights: auto (default), 2bit, 3bit,\n"
	"                           4bit, 6bit, 8bit, tq2, tq3, tq4 or bf16\n"
	"    exact                  compute in 32 bits with the checkpoint's own\n"
	"                           weights, or with those of quant=\n"
	"    kv=NAME                keys and values of contexts: f16 (default), q8, q4,\n"
	"                           or q8q4 (keys, values): less memory, faster when\n"
	"                           long\n"
	"    codec=NAME             bf16 experts on disk: zstd, none, or auto (default):\n"
	"                           the faster\n"
	"    template=FILE          chat template of every model, instead of its own\n"
	"    store=DIR              folder for converted weights (default:\n"
	"                           MODELDIR.moefs, or ~/.cache/moefs if that cannot be\n"
	"                           written)\n"
	"    context=N              tokens per session (default: the model's, at most\n"
	"                           32768)\n"
	"    threads=N              compute threads (default: one per core)\n"
	"    chunk=N                tokens of a prompt per step\n"
	"    step_ms=N              how long running answers wait for a prompt between\n"
	"                           two tokens (default: 100 milliseconds)\n"
	"    idle=TIME              unload a model that is not used for this time (30s,\n"
	"                           10m, 2h)\n"
	"    gpu=auto|off|N         the NVIDIA GPU that computes, by its number (default:\n"
	"                           auto, the first one if there is one)\n"
	"    gpu_budget=SIZE        its memory for weights, contexts and experts\n"
	"                           (default: what is free, less 512M)\n"
	"    sessions=DIR           keep sessions in this folder beyond the mount: their\n"
	"                           messages, params, tools (default: off)\n"
	"    share=all              let sessions of all users take over what others have\n"
	"                           computed (default: user, those of the same user)\n"
	"    refine=idle            refine mounted models, as --refine does, while\n"
	"                           nobody uses them\n"
	"    allow_other            let other users in; modes and owners then count\n"
	"    nonempty               mount also on a folder that is not empty, and hide\n"
	"                           what is in it\n"
	"    name=NAME              the model's folder in the mount (default: its own\n"
	"                           name)\n"
	"    fsname=NAME            the source that df shows (default: MODELDIR)\n"
	"    PARAM=VALUE            the initial value of a param in every session, such\n"
	"                           as temperature=0 or max_tokens=512; see params/\n"
	"    http, http=ADDR:PORT   also serve the mount over HTTP with moefs-http\n"
	"                           (default: 127.0.0.1:11435), or http=unix:PATH;\n"
	"                           without keys only this mount's user and root are\n"
	"                           served\n"
	"    key_file=FILE          http clients must send a key from this file\n"
	"    log=FILE               write the daemon's messages to this file, or with\n"
	"                           log=journal to the system's log\n"
	"    uid=USER, gid=GROUP    for root: the mount's user and group; the daemon\n"
	"                           runs as these\n"
	"    umask=MODE             permission bits that no file of the tree has, such\n"
	"                           as 077\n"
	"    ...                    and the mount options of every file system (see\n"
	"                           mount.fuse3)\n"
	"\n"
	"A SIZE is 512M, 1.5G (or GB: powers of 1024), or 50%: of the machine's memory or\n"
	"the control group's limit, whichever is less. auto is the default of every\n"
	"option except store, remember, sessions, template, name, fsname, log, uid, gid\n"
	"and umask.\n"
	"\n"
	"Commands:\n";

/* ---- options without a value ---- */

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
	SWITCH("--loss", loss),
	{"--text %s", offsetof(struct options, text), 0}, /* or --text=%s: options_take_text */
	SWITCH("-v", verbose),
	SWITCH("-a", all),
	SWITCH("exact", engine.exact),
	FUSE_OPT_END,
};

/* Options of libfuse and the kernel; a name that ends in = takes a number. */
static const char *const passed[] = {
	"allow_other", "allow_root", "auto_unmount", "default_permissions",
	"max_read=",   "rw",	     "ro",	     "suid",
	"nosuid",      "dev",	     "nodev",	     "exec",
	"noexec",      "async",	     "sync",	     "dirsync",
	"atime",       "noatime",
};

/* Options that mount(8), mount -a and systemd read themselves (fstab(5), mount(8),
 * systemd.mount(5)), and options that change nothing here: the daemon sets access times; nonempty
 * is ours, and libfuse 3 refuses it. A name that ends in = or a hyphen stands for all options that
 * begin so. */
static const char *const ignored[] = {
	"defaults",   "auto",	     "noauto",	      "user",	  "user=",	"users",
	"nouser",     "owner",	     "noowner",	      "group",	  "nogroup",	"_netdev",
	"nofail",     "fail",	     "comment=",      "x-",	  "X-",		"relatime",
	"norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "diratime",
	"nodiratime", "loud",	     "silent",	      "nonempty",
};

static bool options_match(const char *option, const char *arg)
{
	size_t length = strlen(option);
	char last = option[length - 1];
	return last == '=' || last == '-' ? !strncmp(arg, option, length) : !strcmp(arg, option);
}

/* What to do with an option that is not ours. 1: pass it to libfuse; 0: drop it; -1: there is no
 * such option. */
static int options_keep(const char *arg)
{
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		if (options_match(passed[i], arg)) {
			const char *value = strchr(arg, '=');
			return !value || isdigit((unsigned char)value[1]) ? 1 : -1;
		}
	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		if (options_match(ignored[i], arg))
			return 0;
	return -1;
}

/* ---- taking arguments ---- */

static int options_take_path(struct options *o, const char *arg)
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

/* Called by libfuse for each argument that is not a switch. Returns 1: libfuse keeps it; 0: it is
 * dropped; -1: out of memory. */
static int options_take(void *data, const char *arg, int key, struct fuse_args *args)
{
	(void)args;
	struct options *o = data;
	if (key == FUSE_OPT_KEY_NONOPT)
		return options_take_path(o, arg);
	int taken = options_take_value(o, arg);
	if (taken != 1)
		return taken;
	o->nonempty |= !strcmp(arg, "nonempty");
	o->allow_other |= !strcmp(arg, "allow_other");
	o->allow_root |= !strcmp(arg, "allow_root");
	o->auto_unmount |= !strcmp(arg, "auto_unmount");
	int kept = options_keep(arg);
	if (kept < 0 && !o->refused.code && !o->lenient)
		err_set(&o->refused, EINVAL, "%s%s: there is no such option; see moefs --help",
			*arg == '-' ? "" : "-o ", arg);
	return kept > 0;
}

static int options_add_libfuse(struct options *o, struct err *e)
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

/* ---- parsing ---- */

static int options_parse_arguments(struct options *o, int argc, char **argv, bool lenient,
				   struct err *e)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	*o = (struct options){
		.fuse = args, .lenient = lenient, .engine = {.gpu = GPU_AUTO, .finds_gpus = true}};
	if (argc > 1 && !strcmp(argv[argc - 1], "-o"))
		return err_set(e, EINVAL, "-o needs an option after it; see moefs --help");
	if (argc > 1 && !strcmp(argv[argc - 1], "--text"))
		return err_set(e, EINVAL, "--text needs a file after it; see moefs --help");
	if (fuse_opt_parse(&o->fuse, o, switches, options_take))
		return err_set(e, ENOMEM, "no memory for the options");
	if (o->help || o->version)
		return 0;
	if (o->refused.code)
		return err_set(e, o->refused.code, "%s", o->refused.text);
	if (o->allow_other && o->allow_root)
		return err_set(e, EINVAL, "-o allow_other includes root: leave out allow_root");
	const char *work = o->check    ? "--check"
			   : o->refine ? "--refine"
			   : o->loss   ? "--loss"
				       : NULL;
	if (o->check + o->refine + o->loss > 1)
		return err_set(e, EINVAL, "%s and %s exclude each other", work,
			       o->loss ? "--loss" : "--refine");
	if (o->all && work)
		return err_set(e, EINVAL, "-a and %s exclude each other", work);
	if (o->text && !o->refine)
		return err_set(e, EINVAL, "--text is only for --refine; see moefs --help");
	if (work && !o->model_count)
		return err_set(e, EINVAL, "%s needs a model; see moefs --help", work);
	if (work)
		return 0;
	if (o->all && !o->model_count)
		return 0;
	if (o->model_count < (o->all ? 1 : 2))
		return err_set(e, EINVAL, "%s; see moefs --help",
			       o->model_count ? "a model and a mountpoint are needed"
					      : "usage: moefs [options] MODELDIR... MOUNTPOINT");
	o->mountpoint = o->models[--o->model_count];
	return 0;
}

/* libfuse's parser leaves the = of --text=FILE in the value. */
static int options_take_text(struct options *o, struct err *e)
{
	if (*o->text == '=')
		memmove(o->text, o->text + 1, strlen(o->text));
	return options_absolute(&o->text, e);
}

int options_parse(struct options *o, int argc, char **argv, bool lenient, struct err *e)
{
	int code = options_parse_arguments(o, argc, argv, lenient, e);
	if (code || o->help || o->version)
		return code;
	o->foreground |= o->debug;
	if (o->mountpoint)
		code = options_absolute(&o->mountpoint, e);
	for (size_t i = 0; i < o->model_count && !code; i++)
		code = options_absolute(&o->models[i], e);
	if (o->text && !code)
		code = options_take_text(o, e);
	for (size_t i = 0; i < OPTION_VALUES && !code; i++)
		code = options_apply(o, i, e);
	if (o->refine || o->loss) /* they look into what the CPU computes */
		o->engine.gpu = GPU_OFF;
	if (!code && o->whose.changes && o->auto_unmount)
		code = err_set(e, EINVAL, "-o auto_unmount and uid= or gid= exclude each other");
	return code ? code : options_add_libfuse(o, e);
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

/* ---- mount.moefs, as mount(8) calls it ---- */

bool options_is_helper(const char *program)
{
	const char *slash = program ? strrchr(program, '/') : NULL;
	return program && !strcmp(slash ? slash + 1 : program, "mount.moefs");
}

int options_read_helper(struct options_helper *h, int argc, char **argv, struct err *e)
{
	static char moefs[] = "moefs", o[] = "-o", v[] = "-v";
	char *options = NULL;
	bool verbose = false;
	int c;
	*h = (struct options_helper){0};
	opterr = 0;
	while ((c = getopt(argc, argv, "sfnvN:o:t:")) != -1) {
		if (c == '?')
			return err_set(e, EINVAL,
				       "mount.moefs: mount(8) passes no option -%c; to mount "
				       "yourself, run "
				       "moefs",
				       optopt);
		if (c == 'N')
			return err_set(e, EINVAL,
				       "mount.moefs cannot mount in another namespace (-N)");
		h->lenient |= c == 's';
		h->fake |= c == 'f';
		verbose |= c == 'v';
		if (c == 'o')
			options = optarg;
	}
	if (argc - optind != 2)
		return err_set(e, EINVAL,
			       "usage: mount.moefs SOURCE MOUNTPOINT [-sfnv] [-o options]");
	h->arguments[h->count++] = moefs;
	if (verbose)
		h->arguments[h->count++] = v;
	if (options && *options) {
		h->arguments[h->count++] = o;
		h->arguments[h->count++] = options;
	}
	h->arguments[h->count++] = argv[optind];
	h->arguments[h->count++] = argv[optind + 1];
	return 0;
}

/* ---- words of commands ---- */

int options_refuse_words(char **words, size_t count, const char *before, struct err *e)
{
	for (size_t i = 0; i < count; i++) {
		size_t hyphens = strspn(words[i], "-");
		if ((hyphens == 1 || hyphens == 2) && isalpha((unsigned char)words[i][hyphens]) &&
		    !strpbrk(words[i], " \t\n"))
			return err_set(
				e, EINVAL,
				"%.200s: options come before %s; if it is not an option, put -- "
				"before %s",
				words[i], before, before);
	}
	return 0;
}
