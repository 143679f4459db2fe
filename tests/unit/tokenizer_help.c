#include "tests/unit/tokenizer_help.h"

#include "engine/json/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dirent.h>

#include <cmocka.h>
#include <zstd.h>

void must(int rc, const struct err *e)
{
	if (rc != 0)
		fail_msg("%d: %s", rc, e->text);
}

const char *foreign(const char *path)
{
	static char full[4096];
	const char *root = getenv("MOEFS_TESTDATA");
	snprintf(full, sizeof full, "%s/%s", root ? root : "../shared", path);
	if (access(full, R_OK) == 0)
		return full;
	print_message("%s is missing; MOEFS_TESTDATA says where to look\n", full);
	return NULL;
}

char *temporary_directory(void)
{
	char *directory = strdup("/tmp/moefs-tokenizer-XXXXXX");
	assert_non_null(directory);
	assert_non_null(mkdtemp(directory));
	return directory;
}

void remove_directory(char *directory)
{
	DIR *d = opendir(directory);
	assert_non_null(d);
	for (struct dirent *entry; (entry = readdir(d));)
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	rmdir(directory);
	free(directory);
}

void write_file(const char *directory, const char *name, const char *bytes, size_t n)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

char *read_any(const char *path, size_t *n)
{
	struct err e = {0};
	char *bytes;
	must(json_read_file(&bytes, n, path, 64 << 20, &e), &e);
	size_t length = strlen(path);
	if (length < 4 || strcmp(path + length - 4, ".zst") != 0)
		return bytes;
	enum { UNPACKED_MAX = 64 << 20 };
	char *unpacked = malloc(UNPACKED_MAX + 1);
	assert_non_null(unpacked);
	size_t size = ZSTD_decompress(unpacked, UNPACKED_MAX, bytes, *n);
	assert_false(ZSTD_isError(size));
	unpacked[size] = '\0';
	*n = size;
	free(bytes);
	return unpacked;
}

bool copy_foreign(const char *directory, const char *folder, ...)
{
	va_list files;
	va_start(files, folder);
	bool there = true;
	for (const char *file; there && (file = va_arg(files, const char *));) {
		char path[512];
		snprintf(path, sizeof path, "%s/%s", folder, file);
		const char *full = foreign(path);
		there = full != NULL;
		if (!there)
			break;
		size_t n;
		char *bytes = read_any(full, &n);
		char name[256];
		snprintf(name, sizeof name, "%s", file);
		char *packed = strstr(name, ".zst");
		if (packed)
			*packed = '\0';
		write_file(directory, name, bytes, n);
		free(bytes);
	}
	va_end(files);
	return there;
}

/* A list of numbers up to the end of the line. */
static struct token_list parse_ids(const char *line)
{
	struct token_list ids = {0};
	struct err e = {0};
	while (*line && *line != '\n') {
		char *end;
		uint32_t id = (uint32_t)strtoul(line, &end, 10);
		if (end == line)
			break;
		must(token_list_append(&ids, &id, 1, &e), &e);
		line = end + strspn(end, " ");
	}
	return ids;
}

size_t each_pair(const char *name, check_pair *check, void *context)
{
	return each_pair_of("tokenizers/pairs", name, check, context);
}

size_t each_pair_of(const char *folder, const char *name, check_pair *check, void *context)
{
	static const char SEPARATOR[] = "\n__ggml_vocab_test__\n";
	char path[256];
	size_t n, count = 0;
	snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf.inp", folder, name);
	const char *full = foreign(path);
	assert_non_null(full);
	char *texts = read_any(full, &n);
	snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf.out", folder, name);
	char *lines = read_any(foreign(path), &n);
	const char *line = lines;
	for (char *text = texts, *next; text; text = next) {
		next = strstr(text, SEPARATOR);
		size_t length = next ? (size_t)(next - text) : strlen(text);
		next = next ? next + strlen(SEPARATOR) : NULL;
		struct token_list ids = parse_ids(line + strspn(line, " "));
		check(context, text, length, &ids);
		token_list_free(&ids);
		count++;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	free(texts);
	free(lines);
	return count;
}

void check_exact(void *tokenizer, const char *text, size_t n, const struct token_list *ids)
{
	const struct tokenizer *t = tokenizer;
	struct token_list got = {0};
	struct err e = {0};
	must(tokenizer_encode(t, text, n, NULL, &got, &e), &e);
	assert_int_equal(got.count, ids->count);
	size_t at_byte = 0;
	bool space = tokenizer_leads_with_space(t); /* which is not the text's own */
	for (size_t i = 0; i < got.count; i++) {
		assert_int_equal(got.ids[i], ids->ids[i]);
		size_t length;
		const char *bytes = tokenizer_bytes(t, got.ids[i], true, &length);
		if (space && length > 0) {
			assert_int_equal(bytes[0], ' ');
			bytes++;
			length--;
			space = false;
		}
		assert_true(length <= n - at_byte);
		assert_memory_equal(bytes, text + at_byte, length);
		at_byte += length;
	}
	assert_int_equal(at_byte, n);
	token_list_free(&got);
}

int open_document(struct tokenizer **t, struct json_object *document, struct err *e)
{
	size_t n;
	const char *text = json_object_to_json_string_length(document, JSON_C_TO_STRING_PLAIN, &n);
	int rc = tokenizer_open_text(t, text, n, "tokenizer.json", e);
	json_object_put(document);
	return rc;
}

struct json_object *fixture_document(void)
{
	struct json_object *document = json_object_from_file(FIXTURE "/tokenizer.json");
	assert_non_null(document);
	return document;
}

struct json_object *at(struct json_object *document, const char *path)
{
	char keys[256];
	snprintf(keys, sizeof keys, "%s", path);
	char *rest = keys;
	for (char *key; document && (key = strsep(&rest, "."));)
		document = json_object_is_type(document, json_type_array)
				   ? json_object_array_get_idx(document, strtoul(key, NULL, 10))
				   : json_object_object_get(document, key);
	assert_non_null(document);
	return document;
}

struct json_object *json(const char *text)
{
	enum json_tokener_error why;
	struct json_object *value = json_tokener_parse_verbose(text, &why);
	if (why != json_tokener_success)
		fail_msg("%s: %s", text, json_tokener_error_desc(why));
	return value;
}

const char *ids_of(const struct tokenizer *t, const char *text, size_t n)
{
	static char line[4096];
	struct token_list ids = {0};
	struct err e = {0};
	must(tokenizer_encode(t, text, n, NULL, &ids, &e), &e);
	size_t used = 0;
	line[0] = '\0';
	for (size_t i = 0; i < ids.count && used < sizeof line; i++)
		used += (size_t)snprintf(line + used, sizeof line - used, i ? " %u" : "%u",
					 ids.ids[i]);
	token_list_free(&ids);
	return line;
}

const char *tokens_of(const struct tokenizer *t, const char *text)
{
	static char line[4096];
	struct token_list ids = {0};
	struct err e = {0};
	must(tokenizer_encode(t, text, strlen(text), NULL, &ids, &e), &e);
	size_t used = 0;
	line[0] = '\0';
	for (size_t i = 0; i < ids.count && used < sizeof line; i++) {
		size_t n;
		const char *bytes = tokenizer_bytes(t, ids.ids[i], true, &n);
		used += (size_t)snprintf(line + used, sizeof line - used, "[%.*s]", (int)n, bytes);
	}
	token_list_free(&ids);
	return line;
}
