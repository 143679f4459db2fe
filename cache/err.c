#include "cache/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct err *e, int code, const char *format, va_list args)
{
	e->code = code;
	(void)vsnprintf(e->text, sizeof e->text, format, args);
	for (unsigned char *c = (unsigned char *)e->text; *c; c++)
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
}

int err_set(struct err *e, int code, const char *format, ...)
{
	if (e) {
		va_list args;
		va_start(args, format);
		fill(e, code, format, args);
		va_end(args);
	}
	return -code;
}

int err_sys(struct err *e, int code, const char *format, ...)
{
	if (e) {
		va_list args;
		va_start(args, format);
		fill(e, code, format, args);
		va_end(args);
		size_t used = strlen(e->text);
		char words[128];
		/* The GNU strerror_r is safe in any thread; strerror is not. */
		(void)snprintf(e->text + used, sizeof e->text - used, ": %s",
			       strerror_r(code, words, sizeof words));
	}
	return -code;
}
