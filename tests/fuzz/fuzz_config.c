/* libFuzzer on config.json: any text is a config or an error with a sentence, and the tensors of
 * any config can be listed and laid out. */
#include "engine/family/family.h"
#include "engine/family/plan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int failed, const struct err *e)
{
	if (failed && (e->code != -failed || !e->text[0]))
		abort();
}

/* The last number of the last row of what a role reads lies within the tensor that the view names. A vector is one row. */
static void check_view(const struct view *v, uint32_t rows, uint32_t cols)
{
	uint64_t run, whole = 1, each = v->upright ? v->upright : 1, last = cols / each - 1;
	for (uint32_t d = 0; d + 1 < v->dims; d++)
		whole *= v->shape[d];
	struct view_place at = view_place(v, rows - 1, last);
	if (cols % each || (at.row + 1) * each > whole || at.column >= v->shape[v->dims - 1] ||
	    (v->way != VIEW_ACROSS && (view_row(v, rows - 1, &run) + run) * each > whole))
		abort();
}

static void check_tensor(const struct config *c, struct tensor_id id)
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	char name[256];
	uint32_t rows, cols, count = family_alternatives(c->family, id.role, names);
	config_tensor_shape(c, id.role, id.layer, &rows, &cols);
	if (!rows || !format_fits(rows, cols ? cols : 1) ||
	    !family_store_name(c, id, name, sizeof name))
		abort();
	for (uint32_t i = 0; i < count; i++) {
		struct view v;
		if (!names[i].view)
			continue;
		names[i].view(&v, c, id.expert);
		check_view(&v, cols ? rows : 1, cols ? cols : rows);
	}
}

static void list_tensors(const struct config *c)
{
	for (uint32_t layer = c->layers - 1; layer < c->layers + c->draft; layer++)
		for (int role = 0; role < TENSOR_ROLES; role++)
			if ((tensor_roles[role].place != PLACE_DRAFT || c->draft) &&
			    config_has_tensor(c, (enum tensor_role)role, layer))
				check_tensor(c,
					     (struct tensor_id){(enum tensor_role)role, layer,
								c->experts ? c->experts - 1 : 0});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config c; /* large */
	static struct plan p;
	struct recipe r;
	struct err e = {0};
	int failed = config_parse(&c, (const char *)data, size, "config.json", &e);
	check(failed, &e);
	if (!failed) {
		list_tensors(&c);
		if (recipe_find(&r, NULL, &e))
			abort();
		r.draft = true;
		failed = plan_make(&p, &c, &r, &e);
		check(failed, &e);
		if (!failed)
			plan_free(&p);
	}
	return 0;
}
