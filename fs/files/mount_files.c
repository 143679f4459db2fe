/* The files at the top: README, version, pid. */
#include "fs/files/files.h"

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
