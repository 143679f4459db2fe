/* What auto comes to for one source, and the formats that it is published in. */
#include "engine/family/published.h"
#include "engine/serve/load.h"
#include "engine/serve/model_identity.h"
#include "engine/source/file.h"
#include "engine/source/quantization.h"

/* Whether the headers have to be asked: for most checkpoints config.json says enough, and theirs
 * are megabytes. */
static int may_be_quantised(const char *directory, bool *may, struct err *e)
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

int load_choose_recipe(struct model_identity *id, const struct recipe *asked, struct err *e)
{
	struct package *p;
	bool may, kept = false;
	id->recipe = *asked;
	int failed = may_be_quantised(id->directory, &may, e);
	if (!failed && may)
		failed = package_open(&p, id->directory, e);
	if (failed)
		return failed;
	if (may) {
		id->encoding = published_encoding(p);
		kept = published_any(p);
		package_close(p);
	}
	if (id->recipe.as_published && kept)
		id->recipe.codec = CODEC_NONE; /* codes do not shrink */
	else if (id->recipe.as_published)
		recipe_keep_none(&id->recipe);
	return 0;
}

int load_published(struct published *p, const struct model_identity *id, struct err *e)
{
	struct sources s;
	if (!id->recipe.as_published)
		return 0;
	int failed = sources_open(&s, id->directory, &id->config, e);
	if (failed)
		return failed;
	failed = published_find(p, &s, e);
	sources_close(&s);
	return failed;
}
