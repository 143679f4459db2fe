/* GET /v1/models and /v1/models/NAME: the folders of the tree. */
#include "fs/gateway/fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/tree.h"
#include "fs/gateway/turn.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct listing {
	const char *tree;
	struct json_object *data;
};

/* OpenAI's members and Anthropic's, and the context, by which agents decide when to shorten a
 * conversation. */
static struct json_object *model_object(const char *tree, const char *name)
{
	static const char *const sizes[] = {"context_length", "max_input_tokens", "max_tokens"};
	static const char *const unknown[] = {"capabilities", "deprecated_at", "line",
					      "retires_at"};
	struct json_object *m = json_object_new_object();
	char context[32], path[TREE_PATH], made[32] = "";
	struct stat st = {0};
	struct tm utc;
	tree_line(tree, context, sizeof context, "%s/info/context", name);
	if (tree_path(path, tree, "%s/config.json", name))
		(void)stat(path, &st);
	if (gmtime_r(&st.st_mtime, &utc))
		strftime(made, sizeof made, "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_object_object_add(m, "id", json_object_new_string(name));
	json_object_object_add(m, "object", json_object_new_string("model"));
	json_object_object_add(m, "created", json_object_new_int64(st.st_mtime));
	json_object_object_add(m, "owned_by", json_object_new_string("moefs"));
	json_object_object_add(m, "type", json_object_new_string("model"));
	json_object_object_add(m, "display_name", json_object_new_string(name));
	json_object_object_add(m, "created_at", json_object_new_string(made));
	json_object_object_add(m, "lifecycle", json_object_new_string("active"));
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		json_object_object_add(m, sizes[i],
				       json_object_new_int64(strtoll(context, NULL, 10)));
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
		json_object_object_add(m, unknown[i], NULL);
	return m;
}

static int add_model(void *ctx, const char *name)
{
	struct listing *l = ctx;
	json_object_array_add(l->data, model_object(l->tree, name));
	return 0;
}

/* The id at a place of the list; NULL, which is null there: nothing is. */
static struct json_object *id_at(struct json_object *data, size_t place)
{
	struct json_object *id = NULL;
	json_object_object_get_ex(json_object_array_get_idx(data, place), "id", &id);
	return json_object_get(id);
}

/* ---- paging, which Anthropic's clients ask for: OpenAI's take all ---- */

struct page {
	size_t from, to; /* places in the list; to: behind the last */
	bool more;	 /* beyond it, in the direction that is asked for */
};

static const char *page_query(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

static int page_limit(const struct request *r, size_t *limit, struct problem *p)
{
	enum { MOST = 1000 };
	const char *text = page_query(r, "limit");
	*limit = SIZE_MAX;
	if (!text)
		return 0;
	*limit = strspn(text, "0123456789") == strlen(text) && strlen(text) < 6
			 ? strtoul(text, NULL, 10)
			 : 0;
	return *limit && *limit <= MOST ? 0
					: problem_set(p, PROBLEM_INVALID, "limit",
						      "limit: must be a number from 1 to %d", MOST);
}

/* The place of the model that a query names; SIZE_MAX: it names none. */
static int page_place(const struct request *r, const char *query, struct json_object *data,
		      size_t *place, struct problem *p)
{
	const char *id = page_query(r, query);
	size_t count = json_object_array_length(data);
	*place = SIZE_MAX;
	if (!id)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct json_object *is = field_get(json_object_array_get_idx(data, i), "id");
		if (strcmp(json_object_get_string(is), id) == 0) {
			*place = i;
			return 0;
		}
	}
	return problem_set(p, PROBLEM_INVALID, query, "%s: there is no model '%.100s'", query, id);
}

static int page_read(const struct request *r, struct json_object *data, struct page *page,
		     struct problem *p)
{
	size_t limit, after, before, count = json_object_array_length(data);
	if (page_limit(r, &limit, p) || page_place(r, "after_id", data, &after, p) ||
	    page_place(r, "before_id", data, &before, p))
		return -1;
	page->from = after == SIZE_MAX ? 0 : after + 1;
	page->to = before == SIZE_MAX ? count : before;
	if (page->to < page->from)
		page->to = page->from;
	page->more = page->to - page->from > limit;
	if (page->more && before != SIZE_MAX)
		page->from = page->to - limit;
	else if (page->more)
		page->to = page->from + limit;
	return 0;
}

enum MHD_Result models_list(struct request *r)
{
	struct listing l = {r->gateway->options->tree, json_object_new_array()};
	struct problem p = {0};
	struct page page;
	int code = tree_models(l.tree, add_model, &l);
	if (code)
		problem_set(&p, PROBLEM_NOT_NOW, NULL, "the tree cannot be read: %s",
			    strerror(-code));
	if (code || page_read(r, l.data, &page, &p)) {
		json_object_put(l.data);
		return reply_problem(r, &p);
	}
	size_t count = json_object_array_length(l.data);
	json_object_array_del_idx(l.data, page.to, count - page.to);
	json_object_array_del_idx(l.data, 0, page.from);
	struct json_object *all = json_object_new_object();
	json_object_object_add(all, "object", json_object_new_string("list"));
	json_object_object_add(all, "first_id", id_at(l.data, 0));
	json_object_object_add(all, "last_id", id_at(l.data, page.to - page.from - 1));
	json_object_object_add(all, "has_more", json_object_new_boolean(page.more));
	json_object_object_add(all, "data", l.data);
	return reply_json(r, MHD_HTTP_OK, all);
}

enum MHD_Result models_one(struct request *r)
{
	struct problem p = {0};
	if (turn_model(r, r->rest, &p))
		return reply_problem(r, &p);
	return reply_json(r, MHD_HTTP_OK, model_object(r->gateway->options->tree, r->rest));
}
