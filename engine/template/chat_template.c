#include "engine/template/chat_template.h"

#include "engine/json/text_out.h"
#include "engine/tokenizer/tokenizer_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chat_template {
	const struct tokenizer *tokenizer;
	char *origin;
	struct template *plain, *with_tools; /* with_tools: NULL if it is the same template */
	const struct split_form *form, *form_with_tools;
	bool tags; /* the template used with tools spells functions in tags */
	bool writes_calls;
	bool chatml;
	int64_t end; /* <|im_end|>, which not every file marks as special; -1: none */
};

static const char CHATML[] =
	"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
	"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

void chat_template_close(struct chat_template *c)
{
	if (!c)
		return;
	template_close(c->plain);
	template_close(c->with_tools);
	free(c->origin);
	free(c);
}

/* Whether a text is one token, control or not. */
static bool chat_is_token(const struct tokenizer *t, const char *text)
{
	struct token_list ids = {0};
	struct err ignored = {0};
	int rc = tokenizer_encode(t, text, strlen(text), NULL, &ids, &ignored);
	bool one = rc == 0 && ids.count == 1 && (int64_t)ids.ids[0] == tokenizer_find(t, text);
	token_list_free(&ids);
	return one;
}

int chat_template_open_text(struct chat_template **out, const char *text, const char *with_tools,
			    const char *origin, const struct tokenizer *t, struct err *e)
{
	bool chatml = !text && !with_tools;
	int rc = 0;
	bool ends = chat_is_token(t, "<|im_end|>");
	if (chatml && !(chat_is_token(t, "<|im_start|>") && ends))
		return err_set(e, ENODATA,
			       "the model has no chat template, and its tokenizer has no "
			       "<|im_start|> for ChatML; turn chat off to send text as it is");
	struct chat_template *c = calloc(1, sizeof *c);
	if (!c || !(c->origin = strdup(chatml ? "ChatML" : origin))) {
		free(c);
		return err_set(e, ENOMEM, "out of memory for a chat template");
	}
	c->tokenizer = t;
	c->chatml = chatml;
	c->end = ends ? tokenizer_find(t, "<|im_end|>") : -1;
	const char *plain = chatml ? CHATML : text ? text : with_tools;
	c->form = c->form_with_tools = split_form_of(plain, strlen(plain));
	c->tags = strstr(text && with_tools ? with_tools : plain, "<function=");
	c->writes_calls = strstr(with_tools ? with_tools : plain, "tool_calls");
	rc = template_open(&c->plain, plain, strlen(plain), c->origin, e);
	if (rc == 0 && text && with_tools) {
		c->form_with_tools = split_form_of(with_tools, strlen(with_tools));
		rc = template_open(&c->with_tools, with_tools, strlen(with_tools), c->origin, e);
	}
	if (rc < 0)
		chat_template_close(c);
	else
		*out = c;
	return rc;
}

/* ---- templates of a directory ---- */

/* A template of a list, by its name; NULL: none. */
static const char *chat_named_template(const struct json *list, const char *name)
{
	for (const struct json *v = NULL; (v = json_next(list, v));) {
		size_t n;
		const char *text = json_bytes(json_find(v, "template"), &n);
		if (json_is_text(json_find(v, "name"), name, strlen(name)) && n > 0 &&
		    strlen(text) == n)
			return text;
	}
	return NULL;
}

static int chat_open_config(struct chat_template **out, const char *directory,
			    const struct tokenizer *t, struct err *e)
{
	struct json *config;
	const char *text = NULL;
	int rc = json_parse_object_in(&config, directory, "tokenizer_config.json", CONFIG_FILE_MAX,
				      e);
	const struct json *value = json_find(config, "chat_template");
	if (rc == 0 && config && json_kind(value) != JSON_LIST)
		rc = json_get_string_or(config, "chat_template", "tokenizer_config.json", NULL,
					&text, e);
	rc = rc < 0 ? rc
	     : json_kind(value) == JSON_LIST
		     ? chat_template_open_text(out, chat_named_template(value, "default"),
					       chat_named_template(value, "tool_use"),
					       "tokenizer_config.json chat_template", t, e)
		     : chat_template_open_text(out, text, NULL,
					       "tokenizer_config.json chat_template", t, e);
	json_free(config);
	return rc;
}

int chat_template_open(struct chat_template **out, const char *directory, const struct tokenizer *t,
		       struct err *e)
{
	char *path, *text = NULL;
	size_t n;
	struct err own = {0};
	if (asprintf(&path, "%s/chat_template.jinja", directory) < 0)
		return err_set(e, ENOMEM, "%s: out of memory for a path", directory);
	int rc = json_read_file(&text, &n, path, TEMPLATE_BYTES_MAX, &own);
	free(path);
	if (rc == -ENOENT)
		return chat_open_config(out, directory, t, e);
	if (rc < 0)
		return err_set(e, own.code, "%s", own.text);
	if (strlen(text) != n)
		rc = err_set(e, EINVAL, "chat_template.jinja: a NUL at byte %zu", strlen(text));
	else
		rc = chat_template_open_text(out, text, NULL, "chat_template.jinja", t, e);
	free(text);
	return rc;
}

const char *chat_template_origin(const struct chat_template *c)
{
	return c->origin;
}

bool chat_template_reads(const struct chat_template *c, const char *variable)
{
	return template_reads(c->plain, variable) ||
	       (c->with_tools && template_reads(c->with_tools, variable));
}

bool chat_template_ends(const struct chat_template *c, uint32_t id)
{
	return (int64_t)id == c->end;
}

bool chat_template_tags(const struct chat_template *c)
{
	return c->tags;
}

bool chat_template_writes_calls(const struct chat_template *c)
{
	return c->writes_calls;
}

const struct split_form *chat_template_form(const struct chat_template *c, bool tools)
{
	return tools ? c->form_with_tools : c->form;
}

/* ---- rendering ---- */

int chat_variables_check(const struct json *variables, struct err *e)
{
	static const char *const OWN[] = {"messages", "tools", "add_generation_prompt"};
	if (json_kind(variables) != JSON_OBJECT)
		return err_set(e, EINVAL, "template.json: must be an object of variables");
	for (const struct json *v = NULL; (v = json_next(variables, v));) {
		const char *key = json_key(v);
		size_t n = strlen(key);
		bool own = n >= 6 && strcmp(key + n - 6, "_token") == 0;
		for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
			own |= strcmp(key, OWN[i]) == 0;
		if (own)
			return err_set(
				e, EINVAL,
				"template.json: \"%.40s\" comes from the model and cannot be set",
				key);
	}
	return 0;
}

static void chat_write_token(struct text_out *o, const struct tokenizer *t, const char *name,
			     int64_t id)
{
	size_t n;
	if (id < 0)
		return; /* the variable stays undefined */
	const char *text = tokenizer_bytes(t, (uint32_t)id, true, &n);
	text_out_string(o, ", ");
	text_out_string(o, name);
	text_out_json_text(o, text, n);
}

static void chat_write_variables(struct text_out *o, const struct chat_template *c,
				 const struct chat_input *in)
{
	text_out_string(o, "{\"messages\": ");
	messages_for_template(in->messages, o);
	text_out_string(o, ", \"tools\": ");
	text_out_json(o, json_count(in->tools) > 0 ? in->tools : NULL);
	text_out_string(o, ", \"documents\": null");
	for (const struct json *v = NULL; (v = json_next(in->variables, v));) {
		text_out_string(o, ", ");
		text_out_json_text(o, json_key(v), strlen(json_key(v)));
		text_out_string(o, ": ");
		text_out_json(o, v);
	}
	chat_write_token(o, c->tokenizer, "\"bos_token\": ", tokenizer_bos(c->tokenizer));
	chat_write_token(o, c->tokenizer, "\"eos_token\": ", tokenizer_eos(c->tokenizer));
	text_out_string(o, in->answer ? ", \"add_generation_prompt\": true}"
				      : ", \"add_generation_prompt\": false}");
}

int chat_render(const struct chat_template *c, const struct chat_input *in,
		const _Atomic bool *stop, struct template_text *out, struct err *e)
{
	static const uint8_t RIGHTS[] = {
		[FROM_TEMPLATE] = MAY_ALL, [FROM_TEXT] = MAY_TEXT, [FROM_ASSISTANT] = MAY_MARKS};
	struct text_out written = {0};
	struct json *variables;
	bool tools = json_count(in->tools) > 0 && c->with_tools;
	chat_write_variables(&written, c, in);
	int rc = written.failed ? err_set(e, ENOMEM, "out of memory for the conversation's text")
				: 0;
	if (rc == 0)
		rc = json_parse_text(&variables, written.bytes, written.n, "the conversation", e);
	text_out_free(&written);
	if (rc < 0)
		return rc;
	rc = template_render(tools ? c->with_tools : c->plain, variables, in->clock, stop, out, e);
	json_free(variables);
	for (size_t i = 0; rc == 0 && i < out->length; i++)
		out->from[i] = RIGHTS[out->from[i]];
	return rc;
}

int chat_encode_text(const struct chat_template *c, const struct template_text *text,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e)
{
	/* The model's own template writes that token itself. */
	int rc = c->chatml ? tokenizer_begin(c->tokenizer, ids, e) : 0;
	if (rc == 0)
		rc = tokenizer_encode_rights(c->tokenizer, text->bytes, text->from, text->length,
					     stop, ids, e);
	return rc;
}

int chat_encode(const struct chat_template *c, const struct chat_input *in,
		const _Atomic bool *stop, struct token_list *ids, struct err *e)
{
	struct template_text text = {0};
	int rc = chat_render(c, in, stop, &text, e);
	if (rc == 0)
		rc = chat_encode_text(c, &text, stop, ids, e);
	template_text_free(&text);
	return rc;
}
