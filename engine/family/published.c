#include "engine/family/published.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct published_format none = {.format = FORMAT_COUNT};

/* Formats in which weights are stored and computed with as they were published: all that the
 * kernels know. */
static bool is_kept(enum format f)
{
	return f != FORMAT_COUNT;
}

/* ---- finding ---- */

static struct published_format *entry(const struct published *p, enum tensor_role role,
				      uint32_t layer)
{
	return &p->of[(size_t)layer * TENSOR_ROLES + role];
}

static bool same(struct published_format a, struct published_format b)
{
	return a.format == b.format &&
	       (format_is_float(a.format) || (a.norms == b.norms && a.group == b.group));
}

static struct published_format format_of(const struct sources *s, struct tensor_id id)
{
	struct source from;
	if (sources_find(s, id, &from, NULL) || !is_kept(from.tensor->format) ||
	    from.view.way != VIEW_ALONG) /* codes do not lie as the kernels want them */
		return none;
	return (struct published_format){from.tensor->format, from.tensor->norms,
					 from.tensor->group};
}

/* Two formats of what has to have one: F32 holds the numbers of both. */
static struct published_format both(struct published_format a, struct published_format b)
{
	return same(a, b) ? a : (struct published_format){.format = FORMAT_F32};
}

static struct published_format find_role(const struct sources *s, enum tensor_role role,
					 uint32_t layer)
{
	struct tensor_id id = {role, layer, 0};
	struct published_format f = format_of(s, id);
	if (tensor_roles[role].place == PLACE_EXPERT)
		for (id.expert = 1; id.expert < s->config->experts; id.expert++)
			f = both(f, format_of(s, id));
	bool floats = tensor_roles[role].class == CLASS_HEADS;
	return floats && f.format != FORMAT_COUNT && !format_is_float(f.format) ? none : f;
}

static bool is_matrix(enum tensor_role role)
{
	return tensor_roles[role].class < CLASS_MATRICES;
}

int published_find(struct published *p, const struct sources *s, struct err *e)
{
	const struct config *c = s->config;
	published_free(p);
	p->layers = c->layers + (s->draft && c->draft ? CONFIG_DRAFT_LAYERS : 0);
	p->of = calloc((size_t)p->layers * TENSOR_ROLES, sizeof *p->of);
	if (!p->of)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (uint32_t layer = 0; layer < p->layers; layer++)
		for (int i = 0; i < TENSOR_ROLES; i++) {
			enum tensor_role role = (enum tensor_role)i;
			bool there = is_matrix(role) && config_has_tensor(c, role, layer);
			*entry(p, role, layer) = there ? find_role(s, role, layer) : none;
		}
	return 0;
}

void published_free(struct published *p)
{
	free(p->of);
	*p = (struct published){0};
}

static void apply(void *ctx, struct tensor_id id, struct shape *s)
{
	const struct published *p = ctx;
	if (id.layer >= p->layers || entry(p, id.role, id.layer)->format == FORMAT_COUNT)
		return;
	s->format = entry(p, id.role, id.layer)->format;
	s->norms = entry(p, id.role, id.layer)->norms;
	s->group = entry(p, id.role, id.layer)->group;
}

struct plan_formats published_formats(const struct published *p)
{
	return (struct plan_formats){apply, (void *)p};
}

/* ---- packages ---- */

static bool is_quantised(const struct package_tensor *t)
{
	return t->parts && !format_is_float(t->format);
}

bool published_any(const struct package *p)
{
	for (size_t i = 0; i < package_count(p); i++)
		if (is_quantised(package_tensor(p, i)) && is_kept(package_tensor(p, i)->format))
			return true;
	return false;
}

const char *published_encoding(const struct package *p)
{
	const struct encoding *most = NULL;
	size_t lead = 0; /* of `most` over all others so far (Boyer and Moore's vote) */
	for (size_t i = 0; i < package_count(p); i++) {
		const struct package_tensor *t = package_tensor(p, i);
		if (!is_quantised(t))
			continue;
		if (!lead)
			most = t->encoding;
		lead += t->encoding == most ? 1 : (size_t)-1;
	}
	return most ? most->name : NULL;
}
