/* libFuzzer on config.json: any text is a config or an error in words, and of any config the
 * tensors can be listed and laid out. */
#include "engine/family/config.h"
#include "engine/family/plan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int failed, const struct err *e)
{
	if (failed && (e->code != -failed || !e->text[0]))
		abort();
}

static void list_tensors(const struct config *c)
{
	for (int role = 0; role < TENSOR_ROLES; role++) {
		uint32_t rows, cols;
		config_tensor_shape(c, (enum tensor_role)role, &rows, &cols);
		if (config_has_tensor(c, (enum tensor_role)role, c->layers - 1) &&
		    (!rows || !format_fits(rows, cols ? cols : 1)))
			abort();
	}
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
		failed = plan_make(&p, &c, &r, &e);
		check(failed, &e);
		if (!failed)
			plan_free(&p);
	}
	return 0;
}
