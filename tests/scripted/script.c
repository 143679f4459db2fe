#include "tests/scripted/script.h"
#include "engine/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SCRIPT_BYTES_MOST = 16 << 20 };

static int check_keys(const struct json *item, const char *path, struct err *e)
{
	if (json_kind(item) != JSON_OBJECT)
		return json_wrong(item, "an entry", path, "an object", e);
	for (const struct json *v = NULL; (v = json_next(item, v));)
		if (strcmp(json_key(v), "after") != 0 && strcmp(json_key(v), "say") != 0)
			return err_set(e, EINVAL, "%s: an entry has \"after\" and \"say\", not %s",
				       path, json_key(v));
	return 0;
}

/* Its first token may be another behind the words before it. */
static int add_after(struct token_list *to, const char *text, const struct tokenizer *t,
		     struct err *e)
{
	struct token_list ids = {0};
	size_t length = 0;
	int code = tokenizer_encode(t, text, strlen(text), NULL, &ids, e);
	if (!code && ids.count)
		(void)tokenizer_bytes(t, ids.ids[0], false, &length);
	if (!code && ids.count < 2)
		code = err_set(e, EINVAL, "\"after\" is \"%s\": that is too short", text);
	size_t from = length ? 1 : 0; /* a special one has no bytes */
	if (!code)
		code = token_list_append(to, ids.ids + from, ids.count - from, e);
	token_list_free(&ids);
	return code;
}

static int read_entry(struct script_entry *to, const struct json *item, const char *path,
		      const struct tokenizer *t, struct err *e)
{
	const char *after, *say;
	int code = check_keys(item, path, e);
	if (!code)
		code = json_get_string(item, "after", path, &after, e);
	if (!code)
		code = json_get_string(item, "say", path, &say, e);
	if (!code)
		code = add_after(&to->tokens, after, t, e);
	to->said_from = to->tokens.count;
	return code ? code : tokenizer_encode(t, say, strlen(say), NULL, &to->tokens, e);
}

int script_read(struct script *s, const char *path, const struct tokenizer *t, struct err *e)
{
	struct json *document;
	int code = json_parse_file(&document, path, SCRIPT_BYTES_MOST, e);
	if (code)
		return code;
	size_t count = json_count(document);
	if (json_kind(document) != JSON_LIST || !count)
		code = json_wrong(document, "the script", path, "a list of what is said", e);
	else if (!(s->entries = calloc(count, sizeof *s->entries)))
		code = err_set(e, ENOMEM, "no memory for %s", path);
	for (const struct json *v = NULL; !code && (v = json_next(document, v));)
		code = read_entry(&s->entries[s->count++], v, path, t, e);
	json_free(document);
	return code;
}

void script_free(struct script *s)
{
	for (size_t i = 0; i < s->count; i++)
		token_list_free(&s->entries[i].tokens);
	free(s->entries);
	*s = (struct script){0};
}
