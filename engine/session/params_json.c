/* The table of params as JSON, so that programs can make forms (info/params.json). */
#include "engine/session/param_kinds.h"
#include "engine/json/text_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void params_json_text(struct text_out *o, const char *key, const char *value)
{
	text_out_string(o, ", \"");
	text_out_string(o, key);
	text_out_string(o, "\": ");
	text_out_json_text(o, value, strlen(value));
}

static void params_json_number(struct text_out *o, const char *key, double value)
{
	char digits[NUMBER_SIZE];
	text_out_string(o, ", \"");
	text_out_string(o, key);
	text_out_string(o, "\": ");
	text_out_string(o, param_print_number(digits, value));
}

/* Writes the bounds of a number. Not for params/draft, where only a part of the value is a number.
 */
static void params_json_bounds(struct text_out *o, const struct params *p, const struct param *t)
{
	bool fewer = t->routed && p->model_experts < t->most;
	if (t->kind != &kind_number && t->kind != &kind_count && t->kind != &kind_seed)
		return;
	params_json_number(o, "least", t->least);
	params_json_number(o, "most", fewer ? p->model_experts : t->most);
}

static void params_json_choices(struct text_out *o, const struct param *t)
{
	text_out_string(o, ", \"choices\": [");
	for (size_t i = 0; t->words && t->words[i]; i++) {
		text_out_string(o, i ? ", " : "");
		text_out_json_text(o, t->words[i], strlen(t->words[i]));
	}
	text_out_string(o, "]");
}

static void params_json_row(struct text_out *o, const struct params *p, size_t i, bool has_chat)
{
	const struct param *t = param_row(i);
	char *value = params_get(p, i, has_chat);
	text_out_string(o, "{\"name\": ");
	text_out_json_text(o, t->name, strlen(t->name));
	params_json_text(o, "label", t->label);
	params_json_text(o, "help", t->about);
	params_json_text(o, "takes", t->what);
	params_json_text(o, "type", t->kind->field);
	params_json_choices(o, t);
	params_json_bounds(o, p, t);
	params_json_text(o, "default", value ? value : "");
	text_out_string(o, t->common ? ", \"common\": true}" : ", \"common\": false}");
	o->failed |= !value;
	free(value);
}

char *params_json(const struct params *p, bool has_chat)
{
	struct text_out o = {0};
	for (size_t i = 0; i < params_count(); i++) {
		text_out_string(&o, i ? ",\n " : "[");
		params_json_row(&o, p, i, has_chat);
	}
	text_out_string(&o, "]\n");
	if (!o.failed)
		return o.bytes;
	text_out_free(&o);
	return NULL;
}
