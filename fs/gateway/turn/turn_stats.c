/* What a turn has cost, by its session's stats. */
#include "fs/gateway/turn/turn_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of a line `KEY VALUE`; NULL: there is none such. */
static const char *value_of(const char *stats, const char *key)
{
	size_t n = strlen(key);
	for (const char *line = stats; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n) && line[n] == ' ')
			return line + n + 1;
	}
	return NULL;
}

uint64_t stats_number(const char *stats, const char *key)
{
	const char *value = value_of(stats, key);
	return value ? strtoull(value, NULL, 10) : 0;
}

void turn_usage(struct turn *t, struct usage *u)
{
	struct text stats = {0};
	if (t->counted) {
		*u = t->usage;
		return;
	}
	*u = (struct usage){.finish = "error"};
	int code = tree_read(turn_tree(t), &stats, "%s/sessions/%s/stats", t->session.model,
			     t->session.name);
	text_add(&stats, "", 1);
	if (!code && !stats.failed) {
		const char *finish = value_of(stats.data, "finish");
		u->prompt = stats_number(stats.data, "prompt_tokens");
		u->cached = stats_number(stats.data, "cached_tokens");
		u->output = stats_number(stats.data, "output_tokens");
		u->stop = (uint32_t)stats_number(stats.data, "stop_text");
		if (finish)
			(void)snprintf(u->finish, sizeof u->finish, "%.*s",
				       (int)strcspn(finish, "\n"), finish);
	}
	text_free(&stats);
	t->counted = t->over && !code;
	t->usage = *u;
}
