/* See left_out.h. */
#include "engine/family/left_out.h"

#include "engine/family/family.h"
#include "engine/family/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool left_out_begins_with(const char *name, const char *beginning)
{
	return !strncmp(name, beginning, strlen(beginning));
}

bool left_out_is(const struct sources *s, const char *name)
{
	for (const char *const *k = s->config->family->skipped; k && *k; k++)
		if (left_out_begins_with(name, *k))
			return true;
	return family_leaves_out(s->config, name);
}

bool left_out_any(const struct config *c)
{
	return c->family->skipped || c->layers_left_out;
}

/* The line of a part, whose tensors begin with `beginning`; NULL: draft layers. */
static size_t left_out_line(const struct sources *s, const char *beginning, char *text, size_t size)
{
	const struct config *c = s->config;
	uint64_t tensors = 0, bytes = 0;
	char layer[64];
	for (size_t i = 0; i < package_count(s->package); i++) {
		const struct package_tensor *t = package_tensor(s->package, i);
		if (beginning ? !left_out_begins_with(t->name, beginning)
			      : !family_leaves_out(c, t->name))
			continue;
		tensors++;
		for (uint32_t part = 0; part < t->parts; part++)
			bytes += t->part[part].bytes;
	}
	if (!tensors)
		return 0;
	(void)snprintf(layer, sizeof layer, "%s%u", c->gguf ? "blk." : "model.layers.", c->layers);
	int n = snprintf(text, size, "%s tensors %" PRIu64 " bytes %" PRIu64 "\n",
			 beginning ? beginning : layer, tensors, bytes);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

void left_out_print(const struct sources *s, char *text, size_t size)
{
	size_t used = 0;
	for (const char *const *k = s->config->family->skipped; k && *k; k++)
		used += left_out_line(s, *k, text + used, size - used);
	if (s->config->layers_left_out)
		used += left_out_line(s, NULL, text + used, size - used);
	if (used)
		text[used - 1] = 0; /* the last line has no end */
	else
		(void)snprintf(text, size, "none");
}
