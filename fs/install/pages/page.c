/* A template and its entries. See pages.c. */
#include "fs/install/pages/pages.h"

#include <stdio.h>
#include <string.h>

bool span_is(struct span s, const char *word)
{
	return s.length == strlen(word) && !memcmp(s.text, word, s.length);
}

bool span_line(struct span *rest, struct span *line)
{
	if (!rest->length)
		return false;
	const char *end = memchr(rest->text, '\n', rest->length);
	line->text = rest->text;
	line->length = end ? (size_t)(end - rest->text) : rest->length;
	size_t cut = line->length + (end ? 1 : 0);
	rest->text += cut;
	rest->length -= cut;
	return true;
}

void page_wrong(struct page *p, const char *what, struct span name, const char *remedy)
{
	(void)fprintf(stderr, "%s: %s \"@ %.*s\"%s\n", p->name, what, (int)name.length, name.text,
		      remedy);
	p->wrong = true;
}

static struct entry *find_entry(struct page *p, struct span name)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entries[i].name.length == name.length &&
		    !memcmp(p->entries[i].name.text, name.text, name.length))
			return &p->entries[i];
	return NULL;
}

void page_split(struct page *p, struct span template)
{
	struct span rest = template, line;
	struct entry *last = NULL;
	p->body = (struct span){template.text, template.length};
	while (span_line(&rest, &line)) {
		if (line.length < 2 || memcmp(line.text, "@ ", 2) != 0) {
			if (last)
				last->text.length = (size_t)(rest.text - last->text.text);
			continue;
		}
		struct span name = {line.text + 2, line.length - 2};
		if (!last)
			p->body.length = (size_t)(line.text - template.text);
		if (find_entry(p, name))
			page_wrong(p, "has twice", name, "");
		if (p->count == ENTRIES_MOST) {
			page_wrong(p, "has no room for", name, ": raise ENTRIES_MOST");
			return;
		}
		last = &p->entries[p->count++];
		*last = (struct entry){.name = name, .text = {rest.text, 0}};
	}
}

/* Without the empty lines at its end. */
void page_entry(struct page *p, const char *name, const char *of)
{
	struct entry *e = find_entry(p, (struct span){name, strlen(name)});
	if (!e) {
		(void)fprintf(stderr,
			      "%s: has no entry for %s: add a line \"@ %s\", and behind it what a "
			      "reader has to know of it beyond its line there, if anything\n",
			      p->name, of, name);
		p->wrong = true;
		return;
	}
	e->used = true;
	size_t length = e->text.length;
	while (length && e->text.text[length - 1] == '\n')
		length--;
	text_add(&p->out, e->text.text, length);
	text_string(&p->out, length ? "\n" : "");
}
