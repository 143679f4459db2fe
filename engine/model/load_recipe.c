/* Chooses the recipe for a source if auto was asked for, and finds the source's published formats.
 */
#include "engine/family/sources.h"
#include "engine/model/load.h"
#include "engine/model/model_identity.h"
#include "engine/source/source_file.h"
#include "engine/source/quantization.h"

/* Whether the headers of the weights must be read to find out. They have megabytes, and for most
 * checkpoints config.json is enough. */
static int load_may_be_quantised(const char *directory, bool *may, struct err *e)
{
	struct quantization q = {0};
	*may = true;
	if (source_is_file(directory))
		return 0;
	int failed = quantization_read(&q, directory, e);
	*may = q.is_said;
	quantization_free(&q);
	return failed;
}

static int load_find_recipe(struct model_identity *id, struct published *p, struct err *e)
{
	struct sources s;
	int failed = sources_open(&s, id->directory, &id->config, e);
	if (failed)
		return failed;
	id->encoding = sources_encoding(s.package);
	if (!id->recipe.as_published) {
		sources_close(&s);
		return 0;
	}
	if (sources_any_quantised(s.package)) {
		id->recipe.codec = CODEC_NONE; /* quantised records cannot be compressed */
		failed = sources_find_published(p, &s, e);
	} else {
		recipe_keep_none(&id->recipe, &id->config);
	}
	sources_close(&s);
	return failed;
}

int load_choose_recipe(struct model_identity *id, const struct recipe *asked, struct published *p,
		       struct err *e)
{
	bool may;
	id->recipe = *asked;
	id->recipe.published = p;
	int failed = load_may_be_quantised(id->directory, &may, e);
	if (!failed && may)
		return load_find_recipe(id, p, e);
	if (!failed && id->recipe.as_published)
		recipe_keep_none(&id->recipe, &id->config);
	return failed;
}

int load_published(struct published *p, const struct model_identity *id, struct err *e)
{
	struct sources s;
	if (!id->recipe.as_published)
		return 0;
	int failed = sources_open(&s, id->directory, &id->config, e);
	if (failed)
		return failed;
	failed = sources_find_published(p, &s, e);
	sources_close(&s);
	return failed;
}
