/* The files at the top: README, version, pid, error. */
#include "fs/files/files.h"
#include "fs/models/models.h"

#include <unistd.h>

void readme_render(const struct node *n, struct text *out)
{
	text_add(out, n->mount->readme.data, n->mount->readme.length);
}

void version_render(const struct node *n, struct text *out)
{
	(void)n;
	text_format(out, "%s\n", MOEFS_VERSION);
}

void pid_render(const struct node *n, struct text *out)
{
	(void)n;
	text_format(out, "%d\n", (int)getpid());
}

void mount_error_render(const struct node *n, struct text *out)
{
	models_watch(n->mount);
	text_add(out, n->mount->skipped.data, n->mount->skipped.length);
	const char *failure = mount_failure_seen(n->mount, n->viewer);
	if (*failure)
		text_format(out, "%s\n", failure);
}
