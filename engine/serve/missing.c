#include "engine/serve/missing.h"

#include "engine/family/sources.h"
#include "engine/serve/check.h"
#include "engine/source/source_file.h"
#include "engine/source/source.h"

#include <stdlib.h>

struct telling {
	void (*each)(void *ctx, const char *name);
	void *ctx;
	uint32_t count;
};

static void tell(void *ctx, const char *name)
{
	struct telling *t = ctx;
	t->each(t->ctx, name);
	t->count++;
}

/* As check_files wants them. */
static void tell_files(struct telling *t, const char *folder)
{
	static const char *const beside[] = {"merges.txt", "tokenizer_config.json"};
	if (!check_has(folder, "config.json"))
		tell(t, "config.json");
	if (check_has(folder, "tokenizer.json"))
		return;
	if (!check_has(folder, "vocab.json")) {
		tell(t, "tokenizer.json");
		return;
	}
	for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
		if (!check_has(folder, beside[i]))
			tell(t, beside[i]);
}

/* Which tensors there must be is the same by every recipe. */
static void tell_of(struct telling *t, const struct sources *s, const struct config *c)
{
	struct recipe r;
	struct plan p;
	struct err none;
	if (recipe_find(&r, NULL, &none))
		return;
	r.draft = s->draft;
	if (plan_make(&p, c, &r, &none))
		return;
	sources_missing(s, &p, tell, t);
	plan_free(&p);
}

static void tell_tensors(struct telling *t, const char *path)
{
	struct sources s;
	struct err none;
	struct config *c = malloc(sizeof *c);
	if (c && !config_read(c, path, &none) && !sources_open(&s, path, c, &none)) {
		tell_of(t, &s, c);
		sources_close(&s);
	}
	free(c);
}

void missing_tell(const char *path, void (*each)(void *ctx, const char *name), void *ctx)
{
	struct telling files = {each, ctx, 0}, weights = {each, ctx, 0};
	if (!source_is_file(path))
		tell_files(&files, path);
	source_missing_files(path, tell, &weights);
	if (!weights.count)
		tell_tensors(&weights, path);
}
