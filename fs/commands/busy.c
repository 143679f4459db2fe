/* See busy.h. */
#include "fs/commands/busy.h"
#include "fs/base/proc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct busy {
	bool (*is)(pid_t id, const char *what);
	const char *what;
	char *words;
	size_t size;
};

static int busy_add(void *ctx, pid_t id)
{
	const struct busy *b = ctx;
	char name[64];
	size_t used = strlen(b->words);
	if (id == getpid() || used + 1 >= b->size || !b->is(id, b->what))
		return 0;
	(void)proc_name(id, name, sizeof name);
	(void)snprintf(b->words + used, b->size - used, "%s%s (%ld)", used ? ", " : "", name,
		       (long)id);
	return 0;
}

void busy_words(const char *point, char *words, size_t size)
{
	struct busy b = {proc_uses, point, words, size};
	*words = 0;
	(void)proc_each(busy_add, &b);
}

void busy_elsewhere(const char *device, char *words, size_t size)
{
	struct busy b = {proc_has_mounted, device, words, size};
	*words = 0;
	(void)proc_each(busy_add, &b);
}
