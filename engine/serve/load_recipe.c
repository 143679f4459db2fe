/* What auto comes to for one source, and the formats that it is published in. */
#include "engine/serve/internal.h"
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

int load_choose_recipe(struct model *m, struct err *e)
{
	struct package *p;
	bool may, kept = false;
	m->recipe = m->engine->recipe;
	m->recipe.published = &m->published;
	int failed = may_be_quantised(m->directory, &may, e);
	if (!failed && may)
		failed = package_open(&p, m->directory, e);
	if (failed)
		return failed;
	if (may) {
		m->encoding = published_encoding(p);
		kept = published_any(p);
		package_close(p);
	}
	if (m->recipe.as_published && !kept) {
		enum recipe_codec codec = m->recipe.codec;
		failed = recipe_find(&m->recipe, NULL, e);
		m->recipe.codec = codec;
	}
	return failed;
}

int load_published(struct model *m, struct err *e)
{
	struct sources s;
	if (!m->recipe.as_published)
		return 0;
	int failed = sources_open(&s, m->directory, &m->config, e);
	if (failed)
		return failed;
	failed = published_find(&m->published, &s, e);
	sources_close(&s);
	return failed;
}
