/* The files at the top: README, version, error, and the folder cache/. */
#include "fs/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char readme_head[] =
	"Language models as files. Ask with echo, read with cat:\n"
	"\n"
	"    echo 'Why is the sky blue?' > MODEL/prompt; cat MODEL/output\n"
	"\n"
	"A prompt is submitted when its writer closes it. Reading output waits for text and ends "
	"with\n"
	"the answer. `mkdir MODEL/sessions/NAME` makes a conversation of its own, `rmdir` ends it; "
	"the\n"
	"files in MODEL are those of MODEL/sessions/default. What went wrong is said in error.\n"
	"\n"
	"    r: to read, w: to write. Sizes are in bytes or with K, M, G.\n"
	"\n";

static const char readme_tail[] =
	"\n"
	"experts/map has one line per layer and one character per expert: a digit where it is in\n"
	"memory, a letter where it is not; 0 to 9 and a to j say how often it was used, 9 and j as "
	"much\n"
	"as the most used expert of the model, each step down half as often; a dot was never "
	"used.\n"
	"Of the params, `system` and `stop` take effect when they are closed: `echo > "
	"params/system`\n"
	"clears it, while opening it with truncation alone changes nothing. The others take effect "
	"at\n"
	"each write, with the next turn.\n";

/* One line for each row of the tree. */
static void readme_row(const struct row *row, struct text *out)
{
	char path[NAME_SIZE];
	tree_path(row, path, sizeof path);
	if (S_ISDIR(row->mode))
		(void)snprintf(path + strlen(path), sizeof path - strlen(path), "/");
	const char *access = S_ISDIR(row->mode) ? "" : row->effect != EFFECT_NONE ? "rw" : "r";
	text_format(out, "    %-36s %-3s %s\n", path, access, row->about);
}

static void readme_params(struct text *out)
{
	text_string(out, "\nThe params:");
	for (size_t i = 0; i < params_count(); i++)
		text_format(out, " %s", params_name(i));
	text_string(out, ".\n");
}

void readme_render(const struct node *n, struct text *out)
{
	(void)n;
	text_string(out, readme_head);
	for (size_t i = FOLDER_ROOT + 1; i < tree_rows(); i++)
		readme_row(tree_row(i), out);
	readme_params(out);
	text_string(out, readme_tail);
}

void version_render(const struct node *n, struct text *out)
{
	(void)n;
	text_format(out, "%s\n", MOEFS_VERSION);
}

void mount_error_render(const struct node *n, struct text *out)
{
	models_watch(n->mount);
	if (*n->mount->error)
		text_format(out, "%s\n", n->mount->error);
}

/* ---- cache/ ---- */

static void size_render(uint64_t bytes, struct text *out)
{
	char size[32];
	size_print(size, sizeof size, bytes);
	text_format(out, "%s\n", size);
}

static int size_set(const struct node *n, const char *value, size_t length,
		    int (*set)(struct engine *, uint64_t, struct err *), struct err *e)
{
	char string[32];
	uint64_t bytes;
	while (length && (value[length - 1] == '\n' || value[length - 1] == ' '))
		length--;
	int shown = (int)(length < sizeof string ? length : sizeof string - 1);
	(void)snprintf(string, sizeof string, "%.*s", shown, value);
	if (length >= sizeof string || !size_parse(string, &bytes))
		return err_set(e, EINVAL, "cache/%s: '%s' is not a size such as 512M or 4G",
			       n->row->name, string);
	return set(n->mount->engine, bytes, e);
}

void budget_render(const struct node *n, struct text *out)
{
	struct pager_stats s;
	engine_cache_stats(n->mount->engine, &s);
	size_render(s.budget, out);
}

int budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	return size_set(n, value, length, engine_set_budget, e);
}

void context_budget_render(const struct node *n, struct text *out)
{
	size_render(engine_context_budget(n->mount->engine), out);
}

int context_budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	return size_set(n, value, length, engine_set_context_budget, e);
}

void policy_render(const struct node *n, struct text *out)
{
	(void)n;
	text_string(out, "lru\n");
}

void cache_stats_render(const struct node *n, struct text *out)
{
	struct pager_stats s;
	engine_cache_stats(n->mount->engine, &s);
	text_format(out, "budget %" PRIu64 "\n", s.budget);
	text_format(out, "used %" PRIu64 "\n", s.used);
	text_format(out, "peak %" PRIu64 "\n", s.peak);
	text_format(out, "experts_resident %" PRIu64 "\n", s.experts_resident);
	text_format(out, "hits %" PRIu64 "\n", s.hits);
	text_format(out, "misses %" PRIu64 "\n", s.misses);
	text_format(out, "evictions %" PRIu64 "\n", s.evictions);
	text_format(out, "bytes_read %" PRIu64 "\n", s.bytes_read);
	text_format(out, "wait_seconds %.3f\n", (double)s.wait_ns / 1e9);
	text_format(out, "context_budget %" PRIu64 "\n", engine_context_budget(n->mount->engine));
	text_format(out, "context_used %" PRIu64 "\n", engine_context_used(n->mount->engine));
}
