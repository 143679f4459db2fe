/* See verbs.h. */
#include "fs/files/verbs.h"
#include "fs/mount/node.h"

#include <errno.h>
#include <string.h>

const struct verb *verbs_at(const struct verbs *v, size_t index)
{
	const char *rows = v->rows;
	return index < v->count ? (const struct verb *)(const void *)(rows + index * v->bytes)
				: NULL;
}

void verbs_names(const struct verbs *v, struct text *out)
{
	for (size_t i = 0; i < v->count; i++)
		text_format(out, "%s%s", i ? ", " : "", verbs_at(v, i)->name);
}

const void *verbs_find(const struct verbs *v, const char *word, size_t n, struct err *e)
{
	enum { SHOWN = 64 };
	struct text names = {0};
	for (size_t i = 0; i < v->count; i++) {
		const struct verb *row = verbs_at(v, i);
		if (strlen(row->name) == n && !memcmp(row->name, word, n))
			return row;
	}
	verbs_names(v, &names);
	text_add(&names, "", 1);
	(void)err_set(e, EINVAL, "%s: '%.*s' is not a verb; there are %s (`cat %s`)", v->file,
		      (int)(n < SHOWN ? n : SHOWN), word, names.failed ? "others" : names.data,
		      v->file);
	text_free(&names);
	return NULL;
}

void verbs_render(const struct node *n, struct text *out)
{
	const struct verb *row;
	for (size_t i = 0; (row = verbs_at(n->row->verbs, i)); i++)
		text_format(out, "%s%s%s\t%s\n", row->name, row->takes ? " " : "",
			    row->takes ? row->takes : "", row->about);
}
