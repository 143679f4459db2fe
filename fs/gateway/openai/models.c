/* GET /v1/models and /v1/models/NAME: the folders of the tree. */
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/listing.h"
#include "fs/gateway/turn/tree.h"
#include "fs/gateway/turn/turn.h"

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

/* Anthropic's clients page; OpenAI's take all, and so do those that say no limit. */
static const struct listing_way models_way = {"after_id", "before_id", SIZE_MAX, 1000};

enum MHD_Result models_list(struct request *r)
{
	struct listing l = {r->gateway->options->tree, json_object_new_array()};
	struct problem p = {0};
	int code = tree_models(l.tree, add_model, &l);
	bool gone = tree_is_gone(l.tree, r->gateway->device);
	if (!code && !gone)
		return listing_reply(r, l.data, &models_way);
	json_object_put(l.data);
	problem_set(&p, PROBLEM_NOT_NOW, NULL, gone ? "%s" : "the tree cannot be read: %s",
		    gone ? tree_gone_words : strerror(-code));
	return reply_problem(r, &p);
}

enum MHD_Result models_one(struct request *r)
{
	struct problem p = {0};
	const char *tree = r->gateway->options->tree;
	int code = turn_model(r, r->rest, &p);
	/* turn_model remembers a model for a second. */
	if (!code && tree_is_gone(tree, r->gateway->device))
		code = problem_set(&p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	return code ? reply_problem(r, &p)
		    : reply_json(r, MHD_HTTP_OK, model_object(tree, r->rest));
}
