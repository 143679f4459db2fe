/* See mountinfo.h. */
#include "fs/base/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blanks and the like stand there as a backslash and three octal digits. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++, to++) {
		*to = *from;
		if (*from != '\\' || strspn(from + 1, "01234567") < 3)
			continue;
		*to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
		from += 3;
	}
	*to = 0;
}

/* The device is the third field, the point the fifth; type, source and options follow a lone hyphen. */
static bool split(char *line, struct mountinfo *out)
{
	enum { DEVICE = 2, POINT = 4 };
	char *save = NULL, *field = strtok_r(line, " \n", &save);
	*out = (struct mountinfo){0};
	for (int i = 0; field && strcmp(field, "-") != 0; i++) {
		if (i == DEVICE)
			out->device = field;
		if (i == POINT)
			out->point = field;
		field = strtok_r(NULL, " \n", &save);
	}
	out->type = strtok_r(NULL, " \n", &save);
	out->source = strtok_r(NULL, " \n", &save);
	out->options = strtok_r(NULL, " \n", &save);
	if (!out->point || !out->options)
		return false;
	unescape(out->point);
	unescape(out->source);
	return true;
}

int mountinfo_each(const char *table, int (*visit)(void *ctx, const struct mountinfo *m), void *ctx)
{
	FILE *f = fopen(table ? table : "/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int code = 0;
	if (!f)
		return -errno;
	while (!code && getline(&line, &size, f) > 0) {
		struct mountinfo m;
		if (split(line, &m))
			code = visit(ctx, &m);
	}
	if (!code && !feof(f))
		code = -errno;
	free(line);
	(void)fclose(f);
	return code;
}
