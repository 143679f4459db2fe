/* A first word that is neither a command nor anything to mount, and what was perhaps meant. See
 * commands.h. */
#include "fs/base/human.h"
#include "fs/commands/commands.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* What others call it. Not every word has a command of ours. */
static const struct foreign {
	const char *word, *command; /* NULL: there is none, but advice */
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
	{"unmount", "umount", NULL},
	{"stop", "umount", NULL},
	{"eject", "umount", NULL},
	{"store", "stores", NULL},
	{"cache", "stores", NULL},
	{"rm", "stores", NULL},
	{"delete", "stores", NULL},
	{"mount", NULL, "to mount takes no command: moefs MODELDIR... MOUNTPOINT"},
	{"load", NULL, "to mount takes no command: moefs MODELDIR... MOUNTPOINT"},
	{"open", NULL, "to mount takes no command: moefs MODELDIR... MOUNTPOINT"},
	{"pull", NULL,
	 "moefs downloads nothing: get the model's files yourself, then moefs MODELDIR MOUNTPOINT"},
	{"download", NULL,
	 "moefs downloads nothing: get the model's files yourself, then moefs MODELDIR MOUNTPOINT"},
	{"serve", NULL, "to serve over HTTP: moefs -o http MODELDIR... MOUNTPOINT"},
	{"show", NULL, "to look at a model: moefs --check MODELDIR"},
	{"info", NULL, "to look at a model: moefs --check MODELDIR"},
	{"check", NULL, "to look at a model: moefs --check MODELDIR"},
	{"refine", NULL, "did you mean --refine?"},
	{"version", NULL, "did you mean --version?"},
	{"help", NULL, "did you mean --help?"},
};

/* The command that is spelt most like the word; NULL: none is like it. */
static const char *nearest(const char *word)
{
	const struct command *c;
	struct spelling found = {.word = word};
	for (unsigned i = 0; (c = command_row(i)); i++)
		human_try_spelling(&found, c->name);
	return found.nearest;
}

/* A mistyped checkpoint: that it does not exist is said where models are looked for. */
static bool is_file_name(const char *word)
{
	const char *end = strrchr(word, '.');
	return end && (!strcasecmp(end, ".gguf") || !strcasecmp(end, ".safetensors"));
}

static void list_commands(char *names, size_t size)
{
	const struct command *c;
	size_t used = 0;
	*names = 0;
	for (unsigned i = 0; (c = command_row(i)) && used < size; i++)
		used += (size_t)snprintf(names + used, size - used, "%s%s", i ? ", " : "", c->name);
}

int command_check_word(const char *word, struct err *e)
{
	const char *meant = NULL, *advice = NULL;
	char names[256], hint[128] = "";
	if (!*word || *word == '-' || strchr(word, '/') || is_file_name(word) ||
	    access(word, F_OK) == 0 || errno != ENOENT)
		return 0;
	for (size_t i = 0; i < sizeof foreigners / sizeof *foreigners; i++)
		if (!strcmp(foreigners[i].word, word)) {
			meant = foreigners[i].command;
			advice = foreigners[i].advice;
		}
	if (!meant && !advice)
		meant = nearest(word);
	list_commands(names, sizeof names);
	if (advice)
		(void)snprintf(hint, sizeof hint, "%s%s ", advice,
			       advice[strlen(advice) - 1] == '?' ? "" : ";");
	else if (meant)
		(void)snprintf(hint, sizeof hint, "did you mean %s? ", meant);
	return err_set(e, EINVAL,
		       "\"%.200s\" is neither a command nor a folder; %sthe commands are %s; see "
		       "moefs --help",
		       word, hint, names);
}
