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

/* Whether a tensor is unused because its layer has a table of experts (family.beside_list). */
static bool left_out_beside_list(const struct sources *s, const char *name)
{
	const struct config *c = s->config;
	char beside[256];
	for (uint32_t layer = 0; c->family->beside_list && layer < c->layers; layer++)
		if (c->layer[layer].listed &&
		    family_tensor_name(c, c->family->beside_list, s->stem,
				       (struct tensor_id){.layer = layer}, beside, sizeof beside) &&
		    !strcmp(name, beside))
			return true;
	return false;
}

bool left_out_is(const struct sources *s, const char *name)
{
	for (const char *const *k = s->config->family->skipped; k && *k; k++)
		if (left_out_begins_with(name, *k))
			return true;
	return family_leaves_out(s->config, name) || left_out_beside_list(s, name);
}

bool left_out_any(const struct config *c)
{
	return c->family->skipped || c->layers_left_out || c->family->beside_list;
}

/* The kinds of lines: tensors with a given beginning of their names, draft layers, tensors beside
 * tables of experts. */
enum left_out_part { LEFT_OUT_NAMED, LEFT_OUT_DRAFTS, LEFT_OUT_BESIDE };

static bool left_out_belongs(const struct sources *s, enum left_out_part part,
			     const char *beginning, const char *name)
{
	return part == LEFT_OUT_NAMED	 ? left_out_begins_with(name, beginning)
	       : part == LEFT_OUT_DRAFTS ? family_leaves_out(s->config, name)
					 : left_out_beside_list(s, name);
}

/* Prints the line of a part; beginning: of its tensors' names. */
static size_t left_out_line(const struct sources *s, enum left_out_part which,
			    const char *beginning, char *text, size_t size)
{
	uint64_t tensors = 0, bytes = 0;
	for (size_t i = 0; i < package_count(s->package); i++) {
		const struct package_tensor *t = package_tensor(s->package, i);
		if (!left_out_belongs(s, which, beginning, t->name))
			continue;
		tensors++;
		for (uint32_t part = 0; part < t->parts; part++)
			bytes += t->part[part].bytes;
	}
	if (!tensors)
		return 0;
	int n = snprintf(text, size, "%s tensors %" PRIu64 " bytes %" PRIu64 "\n", beginning,
			 tensors, bytes);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

void left_out_print(const struct sources *s, char *text, size_t size)
{
	const struct config *c = s->config;
	char layer[64];
	size_t used = 0;
	for (const char *const *k = c->family->skipped; k && *k; k++)
		used += left_out_line(s, LEFT_OUT_NAMED, *k, text + used, size - used);
	(void)snprintf(layer, sizeof layer, "%s%u", c->gguf ? "blk." : "model.layers.", c->layers);
	if (c->layers_left_out)
		used += left_out_line(s, LEFT_OUT_DRAFTS, layer, text + used, size - used);
	if (c->family->beside_list)
		used += left_out_line(s, LEFT_OUT_BESIDE, "layers.", text + used, size - used);
	if (used)
		text[used - 1] = 0; /* no newline after the last line */
	else
		(void)snprintf(text, size, "none");
}
