#include "fs/program/check.h"
#include "fs/models/scan.h"
#include "fs/mount/mount.h"

#include <errno.h>
#include <stdlib.h>

struct checking {
	struct engine *engine;
	struct text *tables, *wrong;
	size_t models; /* of the folder at hand */
};

static void check_one(struct checking *c, const char *path)
{
	struct err why = {0};
	char *text;
	size_t length;
	int failed = model_check(c->engine, path, &text, &length, &why);
	if (c->tables->length)
		text_string(c->tables, "\n");
	if (text)
		text_add(c->tables, text, length);
	if (failed)
		text_format(c->wrong, "%s\n", why.text);
	free(text);
	c->models++;
}

static void check_inside(void *ctx, const char *path, const char *name)
{
	struct err why;
	(void)name;
	if (model_locate(path, &why) != -ENOENT)
		check_one(ctx, path);
}

/* A folder that is no model by itself is one of models, or nothing. */
static void check_path(struct checking *c, const char *path)
{
	struct err e;
	c->models = 0;
	if (model_locate(path, &e))
		(void)scan_folder(path, check_inside, c, &e);
	if (!c->models)
		check_one(c, path);
}

int check_models(const struct options *o, struct text *tables, struct text *wrong, struct err *e)
{
	struct checking c = {.tables = tables, .wrong = wrong};
	int failed = engine_create(&c.engine, &o->engine, e);
	if (failed)
		return failed;
	for (size_t i = 0; i < o->model_count; i++)
		check_path(&c, o->models[i]);
	engine_destroy(c.engine);
	return tables->failed || wrong->failed ? err_set(e, ENOMEM, "no memory for the tables") : 0;
}
