#include "cache/err.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_clean_text(char *text)
{
	for (char *s = text; *s;) {
		size_t n = (uint8_t)*s < 0x20 || *s == 0x7f ? 0 : utf8_length(s, strnlen(s, 4));
		if (!n)
			*s = '?';
		s += n ? n : 1;
	}
}

static void err_fill(struct err *e, int code, const char *format, va_list args)
{
	char text[sizeof e->text]; /* e's own may be among the arguments */
	(void)vsnprintf(text, sizeof text, format, args);
	err_clean_text(text);
	e->code = code;
	memcpy(e->text, text, strlen(text) + 1);
	e->word = NULL;
	e->reason = 0;
	memset(e->numbers, 0, sizeof e->numbers);
}

int err_set(struct err *e, int code, const char *format, ...)
{
	if (e) {
		va_list args;
		va_start(args, format);
		err_fill(e, code, format, args);
		va_end(args);
	}
	return -code;
}

int err_sys(struct err *e, int code, const char *format, ...)
{
	if (!code) /* nobody set errno: a failure must not count as success */
		code = EIO;
	if (e) {
		va_list args;
		va_start(args, format);
		err_fill(e, code, format, args);
		va_end(args);
		if (code == EIO)
			e->word = "read_failed";
		size_t used = strlen(e->text);
		char words[128];
		/* The GNU strerror_r is safe in any thread; strerror is not. */
		(void)snprintf(e->text + used, sizeof e->text - used, ": %s",
			       strerror_r(code, words, sizeof words));
	}
	return -code;
}

int err_damaged(struct err *e, const char *format, ...)
{
	if (e) {
		va_list args;
		va_start(args, format);
		err_fill(e, EIO, format, args);
		va_end(args);
		e->word = "damaged";
	}
	return -EIO;
}

int err_because(struct err *e, const struct err *cause, int code, const char *format, ...)
{
	if (e) {
		struct err why = *cause;
		va_list args;
		va_start(args, format);
		err_fill(e, code, format, args);
		va_end(args);
		e->word = err_word(&why);
		memcpy(e->numbers, why.numbers, sizeof e->numbers);
		if (why.reason)
			err_reason(e, err_why(&why));
	}
	return -code;
}

int err_name(struct err *e, const char *word)
{
	if (!e)
		return 0;
	e->word = word;
	return -e->code;
}

void err_number(struct err *e, const char *name, uint64_t value)
{
	for (unsigned i = 0; e && i < ERR_NUMBERS; i++)
		if (!e->numbers[i].name) {
			e->numbers[i].name = name;
			e->numbers[i].value = value;
			return;
		}
}

void err_reason(struct err *e, const char *why)
{
	size_t n = strlen(why), all = e ? strlen(e->text) : 0;
	if (n && n <= all && !strcmp(e->text + all - n, why))
		e->reason = (unsigned)n;
}

const char *err_why(const struct err *e)
{
	return e->reason ? e->text + strlen(e->text) - e->reason : NULL;
}

const char *err_word(const struct err *e)
{
	static const struct {
		int code;
		const char *word;
	} words[] = {
		{EINVAL, "bad_value"},	    {ERANGE, "out_of_range"},
		{EILSEQ, "not_utf8"},	    {ENOENT, "not_found"},
		{EEXIST, "exists"},	    {EBUSY, "busy"},
		{EPERM, "not_permitted"},   {EACCES, "not_permitted"},
		{EFBIG, "too_large"},	    {E2BIG, "too_large"},
		{ENAMETOOLONG, "bad_name"}, {ENODATA, "nothing_to_do"},
		{ENOMEM, "no_memory"},	    {ENOSPC, "no_space"},
		{EDQUOT, "too_many"},	    {ENOTSUP, "not_supported"},
		{EAGAIN, "not_ready"},	    {ECANCELED, "stopped"},
		{ESTALE, "changed"},	    {EBADMSG, "template_refused"},
	};
	if (e->word)
		return e->word;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (words[i].code == e->code)
			return words[i].word;
	return "failed";
}
