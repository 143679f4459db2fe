/* Whether a model can be opened, by its headers alone (model.h): what model_open finds out before
 * it looks for a store. */
#include "engine/admin/check.h"
#include "engine/cpu/cpu.h"
#include "engine/family/config.h"
#include "engine/family/sources.h"
#include "engine/library/library.h"
#include "engine/library/ollama.h"
#include "engine/model.h"

#include <errno.h>
#include <stdlib.h>

/* Its tensors, by the plan of any recipe: which there must be is the same by every one. */
static int model_glance_tensors(const char *path, const struct config *c, struct err *e)
{
	struct sources s;
	struct recipe r;
	struct plan p;
	int failed = recipe_find(&r, NULL, e);
	if (!failed)
		failed = sources_open(&s, path, c, e);
	if (failed)
		return failed;
	r.draft = s.draft;
	failed = plan_make(&p, c, &r, e);
	if (!failed) {
		failed = sources_check(&s, &p, e);
		plan_free(&p);
	}
	sources_close(&s);
	return failed;
}

static int model_glance_files(const char *path, const struct ollama_model *said, struct err *e)
{
	struct config *c = malloc(sizeof *c);
	int failed = c ? check_files(path, e) : err_set(e, ENOMEM, "out of memory for a config");
	if (!failed)
		failed = config_read(c, path, e);
	if (!failed && said)
		failed = ollama_take_defaults(said, &c->generation, e);
	if (!failed)
		failed = cpu_backend.computes(c, e);
	if (!failed)
		failed = model_glance_tensors(path, c, e);
	free(c);
	return failed;
}

int model_glance(const char *path, struct err *e)
{
	struct model_place place;
	struct ollama_model *said;
	int failed = library_find(&place, &said, path, e);
	if (failed)
		return failed;
	failed = model_glance_files(place.path, said, e);
	place_free(&place);
	ollama_close(said);
	return failed;
}
