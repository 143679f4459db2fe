/* See commands.h. */
#include "fs/commands/commands.h"
#include "fs/base/human.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- the table ---- */

static const char demo_help[] =
	"Mounts the small model that is installed with moefs, asks three questions with\n"
	"echo and cat, shows each command, and unmounts.\n"
	"\n"
	"    --path             only print where the model is, as for moefs chat\n"
	"    -h, --help         show this help\n";
static const char list_help[] =
	"Prints a line for each mount: mountpoint, source, process, and its models with\n"
	"their states, separated by tabs. If a mount cannot be read, the line has the\n"
	"reason instead of models.\n"
	"\n"
	"    --json             print a list of JSON objects instead\n"
	"    -h, --help         show this help\n";
static const char stores_help[] =
	"Lists stores, the converted weights that mounts keep on the disk. Without a PATH:\n"
	"the stores in ~/.cache/moefs (XDG_CACHE_HOME). With one: the stores in it and, if\n"
	"it is a model, the model's own store.\n"
	"\n"
	"    --delete STORE...  delete these stores, but no checkpoint: the next mount\n"
	"                       converts the checkpoint again. Stores in use stay\n"
	"    --anywhere         also delete stores outside MODEL.moefs folders and the\n"
	"                       cache folder\n"
	"    -n                 only print which files --delete would delete\n"
	"    -h, --help         show this help\n";
static const char top_help[] =
	"Shows what mounts do: tokens a second, hits and misses, the disk, memory, the\n"
	"sessions that you may read, how many are hidden, and the maps of experts. On a\n"
	"terminal again and again, until q or Ctrl-C; else once. Without a mountpoint:\n"
	"all mounts.\n"
	"\n"
	"    -d SECONDS         look so often (default: 1)\n"
	"    -n TIMES           end after so many looks\n"
	"    -h, --help         show this help\n";
static const char umount_help[] =
	"Unmounts a mountpoint, or the only mount that has the MODEL. Returns when all is\n"
	"written and the daemon has ended. A mount in use stays, and the processes that\n"
	"use it are named.\n"
	"\n"
	"    -z, --lazy         unmount even if it is in use; it ends with its last user\n"
	"    -h, --help         show this help\n";

static const struct command commands[] = {
	{"ask", "[options] MODEL [WORDS...]", "ask one question; stdin is added to it", NULL,
	 ask_run},
	{"chat", "[options] MODEL", "hold a conversation, line by line", NULL, chat_run},
	{"demo", "[--path]", "show a first answer, from a small model that is installed with moefs",
	 demo_help, demo_run},
	{"list", "[--json]", "list the mounts of moefs", list_help, list_run},
	{"stores", "[PATH...] | --delete [-n] [--anywhere] STORE...",
	 "list or delete stores (converted weights on the disk)", stores_help, stores_run},
	{"top", "[-d SECONDS] [-n TIMES] [MOUNTPOINT|MODEL]", "show what mounts do now, like top",
	 top_help, top_run},
	{"umount", "[-z] MOUNTPOINT|MODEL", "unmount; with -z also if it is in use", umount_help,
	 umount_run},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const struct command *command_row(unsigned i)
{
	return i < COMMANDS ? &commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

int command_run(const struct command *c, int argc, char **argv, struct err *e)
{
	if (c->help && argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		(void)printf("usage: moefs %s %s\n\n%s\nSee moefs-%s(1).\n", c->name, c->usage,
			     c->help, c->name);
		return 0;
	}
	int status = c->run(argc, argv, e);
	if (status == COMMAND_WRONG) {
		struct err wrong = *e;
		err_set(e, EINVAL, "%s%susage: moefs %s %s", wrong.code ? wrong.text : "",
			wrong.code ? "; " : "", c->name, c->usage);
	}
	return status;
}

/* ---- words that are not commands ---- */

#define ADVICE_MOUNT "to mount: moefs MODELDIR... MOUNTPOINT"
#define ADVICE_DOWNLOAD \
	"moefs downloads nothing: get the model's files yourself, then moefs MODELDIR MOUNTPOINT"
#define ADVICE_CHECK "to look at a model: moefs --check MODELDIR"

/* Names of commands in other programs. */
static const struct foreign {
	const char *word, *command; /* NULL: there is no such command, only advice */
	const char *advice;
} foreigners[] = {
	{"run", "ask", NULL},
	{"generate", "ask", NULL},
	{"prompt", "ask", NULL},
	{"complete", "ask", NULL},
	{"talk", "chat", NULL},
	{"ls", "list", NULL},
	{"ps", "list", NULL},
	{"mounts", "list", NULL},
	{"models", "list", NULL},
	{"status", "list", NULL},
	{"htop", "top", NULL},
	{"unmount", "umount", NULL},
	{"stop", "umount", NULL},
	{"eject", "umount", NULL},
	{"store", "stores", NULL},
	{"cache", "stores", NULL},
	{"rm", "stores", NULL},
	{"delete", "stores", NULL},
	{"mount", NULL, ADVICE_MOUNT},
	{"load", NULL, ADVICE_MOUNT},
	{"open", NULL, ADVICE_MOUNT},
	{"pull", NULL, ADVICE_DOWNLOAD},
	{"download", NULL, ADVICE_DOWNLOAD},
	{"serve", NULL, "to serve over HTTP: moefs -o http MODELDIR... MOUNTPOINT"},
	{"show", NULL, ADVICE_CHECK},
	{"info", NULL, ADVICE_CHECK},
	{"check", NULL, ADVICE_CHECK},
	{"refine", NULL, "did you mean --refine?"},
	{"version", NULL, "did you mean --version?"},
	{"help", NULL, "did you mean --help?"},
};

/* Returns a command, or advice, for a word; both NULL: no suggestion. */
static struct foreign command_meant(const char *word)
{
	struct spelling s = {.word = word};
	for (size_t i = 0; i < sizeof foreigners / sizeof *foreigners; i++)
		if (!strcmp(foreigners[i].word, word))
			return foreigners[i];
	for (unsigned i = 0; i < COMMANDS; i++)
		human_try_spelling(&s, commands[i].name);
	return (struct foreign){.word = word, .command = s.nearest};
}

int command_check_word(const char *word, struct err *e)
{
	char names[256] = "", hint[128] = "";
	const char *end = strrchr(word, '.');
	/* A missing checkpoint file is reported later, by the code that opens models. */
	bool is_file = end && (!strcasecmp(end, ".gguf") || !strcasecmp(end, ".safetensors"));
	if (!*word || *word == '-' || strchr(word, '/') || is_file || access(word, F_OK) == 0 ||
	    errno != ENOENT)
		return 0;
	const struct foreign meant = command_meant(word);
	for (unsigned i = 0, used = 0; i < COMMANDS && used < sizeof names; i++)
		used += (unsigned)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
					   commands[i].name);
	if (meant.advice)
		(void)snprintf(hint, sizeof hint, "%s%s ", meant.advice,
			       meant.advice[strlen(meant.advice) - 1] == '?' ? "" : ";");
	else if (meant.command)
		(void)snprintf(hint, sizeof hint, "did you mean %s? ", meant.command);
	return err_set(e, EINVAL,
		       "\"%.200s\" is neither a command nor a folder; %sthe commands are %s; see "
		       "moefs --help",
		       word, hint, names);
}
