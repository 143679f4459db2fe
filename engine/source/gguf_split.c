#include "engine/source/gguf_split.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -00001-of-00003.gguf */
static const char pattern[] = "-ddddd-of-ddddd.gguf";
enum { ENDING = sizeof pattern - 1, DIGITS = 5, PART_AT = 1, COUNT_AT = 10 };

static bool ends_as_a_part(const char *ending)
{
	for (size_t i = 0; i < ENDING; i++)
		if (pattern[i] == 'd' ? !isdigit((unsigned char)ending[i])
				      : ending[i] != pattern[i])
			return false;
	return true;
}

static uint32_t digits(const char *text)
{
	uint32_t n = 0;
	for (int i = 0; i < DIGITS; i++)
		n = n * 10 + (uint32_t)(text[i] - '0');
	return n;
}

struct gguf_split gguf_split_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct gguf_split s = {.name = slash ? slash + 1 : path, .count = 1};
	size_t n = strlen(s.name);
	s.stem = n;
	if (n <= ENDING || !ends_as_a_part(s.name + n - ENDING))
		return s;
	uint32_t part = digits(s.name + n - ENDING + PART_AT),
		 count = digits(s.name + n - ENDING + COUNT_AT);
	if (part < 1 || part > count || count > GGUF_MAX_PARTS)
		return s;
	s.stem = n - ENDING;
	s.part = part - 1;
	s.count = count;
	return s;
}

int gguf_part_name(const struct gguf_split *s, uint32_t part, char *name, size_t size,
		   struct err *e)
{
	bool whole = !s->name[s->stem];
	int n = whole ? snprintf(name, size, "%s", s->name)
		      : snprintf(name, size, "%.*s-%05u-of-%05u.gguf", (int)s->stem, s->name,
				 part + 1, s->count);
	return n > 0 && (size_t)n < size
		       ? 0
		       : err_set(e, ENAMETOOLONG, "%.64s…: the name is too long", s->name);
}

int gguf_check_part(const struct gguf *g, const struct gguf_split *s, uint32_t part,
		    const char *path, struct err *e)
{
	uint64_t number = 0, count = 1;
	int failed = 0;
	if (gguf_has(g, "split.count"))
		failed = gguf_get_uint(g, "split.count", path, 0, UINT16_MAX, &count, e);
	if (!failed && gguf_has(g, "split.no"))
		failed = gguf_get_uint(g, "split.no", path, 0, UINT16_MAX, &number, e);
	if (failed)
		return failed;
	count = count ? count : 1;
	if (count != s->count || number != part)
		return err_set(e, EINVAL,
			       "%s says that it is part %llu of %llu, and its name does not end in "
			       "-%05llu-of-%05llu.gguf: give all the parts their names back",
			       path, (unsigned long long)number + 1, (unsigned long long)count,
			       (unsigned long long)number + 1, (unsigned long long)count);
	return 0;
}
