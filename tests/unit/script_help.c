/* A scripted model; see the header. */
#include "script_help.h"

#include "checkpoint_help.h"
#include "engine/tokenizer/tokenizer.h"
#include "golden.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCABULARY = 384, END = 383, TOKENS_MOST = 64 /* the least hidden size */ };

struct script {
	struct tokenizer *known;
	struct json_object *added;	     /* of tokenizer.json */
	uint32_t size;			     /* of the vocabulary */
	uint32_t tokens[TOKENS_MOST], count; /* that another one follows; each has a direction */
	uint32_t next[TOKENS_MOST];
};

/* ---- tokens ---- */

static struct json_object *member(struct json_object *of, const char *key)
{
	struct json_object *value;
	if (!json_object_object_get_ex(of, key, &value))
		fail_msg("the script lacks \"%s\"", key);
	return value;
}

static uint32_t add_token(struct script *s, const char *text)
{
	size_t n = strlen(text);
	bool special = n > 4 && !strncmp(text, "<|", 2) && !strcmp(text + n - 2, "|>");
	struct json_object *token = json_object_new_object();
	json_object_object_add(token, "id", json_object_new_int((int)s->size));
	json_object_object_add(token, "content", json_object_new_string(text));
	static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized"};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		json_object_object_add(token, flags[i], json_object_new_boolean(0));
	json_object_object_add(token, "special", json_object_new_boolean(special));
	json_object_array_add(s->added, token);
	return s->size++;
}

static uint32_t token_of(struct script *s, const char *text)
{
	int64_t id = tokenizer_find(s->known, text);
	for (size_t i = 0; id < 0 && i < json_object_array_length(s->added); i++) {
		struct json_object *token = json_object_array_get_idx(s->added, i);
		if (!strcmp(json_object_get_string(member(token, "content")), text))
			id = json_object_get_int(member(token, "id"));
	}
	return id < 0 ? add_token(s, text) : (uint32_t)id;
}

static void follow(struct script *s, uint32_t token, uint32_t next)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->tokens[i] == token) {
			if (s->next[i] != next)
				fail_msg("two tokens are to follow token %u", token);
			return;
		}
	if (s->count == TOKENS_MOST)
		fail_msg("the script has more than %d tokens", TOKENS_MOST);
	s->tokens[s->count] = token;
	s->next[s->count++] = next;
}

static bool is_followed(const struct script *s, uint32_t token)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->tokens[i] == token)
			return true;
	return false;
}

static void read_answers(struct script *s, struct json_object *answers)
{
	for (size_t i = 0; i < json_object_array_length(answers); i++) {
		struct json_object *answer = json_object_array_get_idx(answers, i);
		uint32_t last = 0;
		for (size_t k = 0; k < json_object_array_length(answer); k++) {
			uint32_t token = token_of(
				s, json_object_get_string(json_object_array_get_idx(answer, k)));
			if (k)
				follow(s, last, token);
			last = token;
		}
		if (!is_followed(s, last))
			follow(s, last, END);
	}
}

/* ---- weights ---- */

static void fill(struct test_tensor *t, float value)
{
	for (size_t i = 0; i < test_tensor_elements(t); i++)
		test_tensor_set(t, i, value);
}

static struct test_tensor *ending_in(const struct test_checkpoint *c, const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < c->count; i++) {
		size_t have = strlen(c->tensors[i].name);
		if (have >= n && !strcmp(c->tensors[i].name + have - n, name))
			return &c->tensors[i];
	}
	fail_msg("the fixture has no %s", name);
	return NULL;
}

static void resize(struct test_tensor *t, uint32_t rows)
{
	t->bytes = t->bytes / VOCABULARY * rows;
	t->shape[0] = rows;
	free(t->data);
	t->data = calloc(1, t->bytes);
	assert_non_null(t->data);
}

static void write_weights(const struct script *s, struct test_checkpoint *c)
{
	struct test_tensor *embedding = ending_in(c, "model.embed_tokens.weight"),
			   *head = ending_in(c, "lm_head.weight");
	size_t width = embedding->shape[1];
	for (size_t i = 0; i < c->count; i++) {
		const char *name = c->tensors[i].name;
		if (strstr(name, "o_proj") || strstr(name, "out_proj") || strstr(name, "down_proj"))
			fill(&c->tensors[i], 0);
	}
	fill(ending_in(c, "model.norm.weight"), 1);
	resize(embedding, s->size);
	resize(head, s->size);
	for (uint32_t i = 0; i < s->count; i++) {
		test_tensor_set(embedding, (size_t)s->tokens[i] * width + i, 1);
		test_tensor_set(head, (size_t)s->next[i] * width + i, 8);
	}
}

/* ---- files ---- */

static struct json_object *read_json(const char *folder, const char *name, char path[512])
{
	(void)snprintf(path, 512, "%s/%s", folder, name);
	struct json_object *read = json_object_from_file(path);
	assert_non_null(read);
	return read;
}

static void write_json(const char *path, struct json_object *document)
{
	assert_int_equal(json_object_to_file(path, document), 0);
	json_object_put(document);
}

static void change_files(struct script *s, struct json_object *script, const char *folder)
{
	char path[512];
	struct json_object *tokenizer = read_json(folder, "tokenizer.json", path);
	s->added = member(tokenizer, "added_tokens");
	read_answers(s, member(script, "answers"));
	write_json(path, tokenizer);
	struct json_object *config = read_json(folder, "config.json", path), *whole = config;
	if (!json_object_object_get_ex(whole, "text_config", &config))
		config = whole;
	json_object_object_add(config, "vocab_size", json_object_new_int((int)s->size));
	json_object_object_add(config, "max_position_embeddings", json_object_new_int(32768));
	write_json(path, whole);
	(void)snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
	const char *text = json_object_get_string(member(script, "template"));
	test_file_write(path, text, strlen(text));
}

void test_script_make(const char *script, const char *folder)
{
	struct test_checkpoint c;
	struct script s = {.size = VOCABULARY};
	struct err e;
	char path[512];
	struct json_object *parsed = json_tokener_parse(script), *fixture = NULL;
	assert_non_null(parsed);
	json_object_object_get_ex(parsed, "fixture", &fixture);
	const char *name = fixture ? json_object_get_string(fixture) : "qwen3";
	test_checkpoint_files(name, folder);
	if (tokenizer_open(&s.known, folder, &e))
		fail_msg("%s", e.text);
	change_files(&s, parsed, folder);
	test_checkpoint_read(&c, name);
	write_weights(&s, &c);
	(void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
	test_checkpoint_write(&c, 0, c.count, path);
	test_checkpoint_free(&c);
	tokenizer_close(s.known);
	json_object_put(parsed);
}
