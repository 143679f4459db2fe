/* Reads tiktoken.model: a line for each token, its bytes in base64 and its rank, which is its id. What
 * neighbours spell together merges by the rank of the product, so there is no list of merges. How
 * text is split is in the model's Python code; of such classes Kimi's is known. */
#include "engine/tokenizer/tokenizer_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	TIKTOKEN_BYTES_MAX = 1024, /* of one token */
	KIMI_RESERVED = 256,	   /* ids after the ranks, for control tokens */
	RESERVED_TEXT = 40,
};

/* What is read of a directory; borrowed names are in errors. */
struct tiktoken_files {
	char *path, *config_path, *text;
	size_t length;
	struct json *config;
};

bool tiktoken_is(const char *directory)
{
	char *path;
	if (asprintf(&path, "%s/tiktoken.model", directory) < 0)
		return false;
	bool there = access(path, F_OK) == 0;
	free(path);
	return there;
}

/* ---- the class ---- */

/* "auto_map": {"AutoTokenizer": ["FILE.CLASS", …]} names the Python code that splits text. */
static int tiktoken_check_class(const struct tiktoken_files *f, struct err *e)
{
	static const char kimi[] = "tokenization_kimi.";
	const struct json *map = json_find(f->config, "auto_map"),
			  *code = map && json_kind(map) == JSON_OBJECT
					  ? json_find(map, "AutoTokenizer")
					  : NULL;
	if (code && json_kind(code) == JSON_LIST)
		code = json_next(code, NULL);
	const char *text = "";
	if (code && json_kind(code) == JSON_TEXT)
		(void)json_as_string(code, "AutoTokenizer", f->config_path, &text, e);
	if (!strncmp(text, kimi, sizeof kimi - 1))
		return 0;
	return err_set(e, ENOTSUP,
		       "%s: how text is split is in Python code (\"auto_map\": \"%.64s\"), and of such "
		       "tokenizers only Kimi's is supported; add the model's tokenizer.json, or mount "
		       "a GGUF file of the model",
		       f->config_path, text);
}

/* ---- lines ---- */

static int tiktoken_digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Base64 of n characters into out[TIKTOKEN_BYTES_MAX]: how many bytes; 0: it is not base64. */
static size_t tiktoken_decode(const char *text, size_t n, char *out)
{
	size_t count = 0, digits = n;
	while (digits > 0 && n - digits < 2 && text[digits - 1] == '=')
		digits--;
	if (n == 0 || n % 4 || n / 4 * 3 > TIKTOKEN_BYTES_MAX)
		return 0;
	uint32_t bits = 0;
	for (size_t i = 0; i < digits; i++) {
		int digit = tiktoken_digit(text[i]);
		if (digit < 0)
			return 0;
		bits = bits << 6 | (uint32_t)digit;
		if (i % 4)
			out[count++] = (char)(bits >> (6 - i % 4 * 2));
	}
	return count;
}

/* One line, without its end. */
static int tiktoken_add_line(struct tokenizer *t, const char *line, size_t n, size_t number,
			     size_t lines, const char *name, struct err *e)
{
	char bytes[TIKTOKEN_BYTES_MAX];
	const char *space = memchr(line, ' ', n);
	size_t digits = space ? n - (size_t)(space + 1 - line) : 0, rank = 0;
	for (size_t i = 0; i < digits && rank <= lines; i++) {
		unsigned digit = (unsigned)(space[1 + i] - '0');
		rank = digit > 9 ? lines + 1 : 10 * rank + digit;
	}
	size_t length = space ? tiktoken_decode(line, (size_t)(space - line), bytes) : 0;
	if (!length || !digits || rank >= lines)
		return err_set(e, EINVAL,
			       "%s: line %zu is not a token in base64 and a rank below %zu, the "
			       "number of tokens",
			       name, number, lines);
	return vocabulary_add_bytes(&t->vocabulary, (uint32_t)rank, bytes, length, name, e);
}

static size_t tiktoken_count(const struct tiktoken_files *f)
{
	size_t lines = 0;
	for (size_t i = 0; i < f->length; i++)
		lines += f->text[i] == '\n' || i + 1 == f->length;
	return lines;
}

static int tiktoken_add_lines(struct tokenizer *t, const struct tiktoken_files *f, size_t lines,
			      struct err *e)
{
	const char *line = f->text, *end = f->text + f->length;
	int rc = 0;
	for (size_t number = 1; rc == 0 && line < end; number++) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		stop = stop ? stop : end;
		size_t n = (size_t)(stop - line);
		n -= n > 0 && line[n - 1] == '\r';
		rc = tiktoken_add_line(t, line, n, number, lines, f->path, e);
		line = stop + 1;
	}
	return rc;
}

/* The order of merges is that of ids. */
static int tiktoken_rank(struct tokenizer *t)
{
	uint32_t size = t->vocabulary.size;
	t->merges.by_score = malloc(size * sizeof *t->merges.by_score);
	if (!t->merges.by_score)
		return -ENOMEM;
	for (uint32_t id = 0; id < size; id++)
		t->merges.by_score[id] = id;
	return 0;
}

/* ---- control tokens ---- */

/* Ids after the ranks that tokenizer_config.json does not name have texts, too. */
static int tiktoken_list_reserved(struct added_entries *list, size_t ranks,
				  char texts[KIMI_RESERVED][RESERVED_TEXT], struct err *e)
{
	size_t named = list->count;
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < KIMI_RESERVED; i++) {
		struct added_entry entry = {.content = texts[i],
					    .id = (uint32_t)ranks + i,
					    .special = true};
		bool known = false;
		for (size_t k = 0; k < named; k++)
			known |= list->items[k].id == entry.id;
		entry.length = (size_t)snprintf(texts[i], RESERVED_TEXT, "<|reserved_token_%u|>",
						entry.id);
		if (!known)
			rc = tokenizer_append_entry(list, &entry, e);
	}
	return rc;
}

/* The vocabulary has a place for each added token. */
static int tiktoken_check_added(const struct added_entries *list, size_t ranks, const char *name,
				struct err *e)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->items[i].id < ranks || list->items[i].id >= ranks + KIMI_RESERVED)
			return err_set(e, EINVAL,
				       "%s: added token \"%.*s\" has id %u, but those of the "
				       "tokenizer are %zu to %zu",
				       name, (int)list->items[i].length, list->items[i].content,
				       list->items[i].id, ranks, ranks + KIMI_RESERVED - 1);
	return 0;
}

/* ---- the whole ---- */

static int tiktoken_read_files(struct tiktoken_files *f, const char *directory, struct err *e)
{
	if (asprintf(&f->path, "%s/tiktoken.model", directory) < 0)
		f->path = NULL;
	if (asprintf(&f->config_path, "%s/tokenizer_config.json", directory) < 0)
		f->config_path = NULL;
	if (!f->path || !f->config_path)
		return -ENOMEM;
	int rc = json_parse_object_in(&f->config, directory, "tokenizer_config.json",
				      CONFIG_FILE_MAX, e);
	if (rc == 0 && !f->config)
		rc = err_set(e, ENOENT,
			     "%s: has a tiktoken.model but no tokenizer_config.json, which says whose "
			     "it is",
			     directory);
	if (rc == 0)
		rc = tiktoken_check_class(f, e);
	return rc < 0 ? rc : json_read_file(&f->text, &f->length, f->path, TOKENIZER_FILE_MAX, e);
}

static int tiktoken_build(struct tokenizer *t, const struct tiktoken_files *f,
			  struct added_entries *added, struct err *e)
{
	static const char decoder_key[] = "added_tokens_decoder";
	char(*texts)[RESERVED_TEXT] = calloc(KIMI_RESERVED, sizeof *texts);
	size_t ranks = tiktoken_count(f);
	const struct json *decoder = NULL;
	int rc = texts ? 0 : -ENOMEM;
	if (rc == 0 && (!ranks || ranks > TOKEN_ID_MAX - KIMI_RESERVED))
		rc = err_set(e, EINVAL, "%s: %zu tokens are not between 1 and %d", f->path, ranks,
			     TOKEN_ID_MAX - KIMI_RESERVED);
	if (rc == 0)
		rc = json_get_object_or_null(f->config, decoder_key, f->config_path, &decoder, e);
	if (rc == 0 && decoder)
		rc = tokenizer_list_decoder(added, decoder, f->config_path, e);
	if (rc == 0)
		rc = tiktoken_check_added(added, ranks, f->config_path, e);
	if (rc == 0)
		rc = tiktoken_list_reserved(added, ranks, texts, e);
	t->ignore_merges = true; /* a word that is a token is looked up first */
	if (rc == 0)
		rc = pretokenize_add(&t->splitter, KIMI_PATTERN, false, f->path, e);
	if (rc == 0)
		rc = vocabulary_init(&t->vocabulary, (uint32_t)ranks + KIMI_RESERVED, ranks, e);
	t->merges.seed = t->vocabulary.seed;
	if (rc == 0)
		rc = tiktoken_add_lines(t, f, ranks, e);
	if (rc == 0)
		rc = tiktoken_rank(t);
	if (rc == 0)
		rc = tokenizer_add_tokens(t, added, f->config_path, e);
	if (rc == 0)
		rc = tokenizer_config_take(t, f->config, f->config_path, e);
	free(texts);
	return rc;
}

int tiktoken_read(struct tokenizer *t, const char *directory, struct err *e)
{
	struct tiktoken_files f = {0};
	struct added_entries added = {0};
	int rc = tiktoken_read_files(&f, directory, e);
	if (rc == 0)
		rc = tiktoken_build(t, &f, &added, e);
	free(added.items);
	json_free(f.config);
	free(f.path);
	free(f.config_path);
	free(f.text);
	return rc;
}
