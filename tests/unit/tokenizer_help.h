/* Helpers for tests of tokenizers: foreign vocabularies unpacked into a temporary directory, pairs
 * of texts and ids, and tokenizers made from a changed copy of a fixture. */
#ifndef MOEFS_TESTS_UNIT_TOKENIZER_HELP_H
#define MOEFS_TESTS_UNIT_TOKENIZER_HELP_H

#include "engine/tokenizer/tokenizer.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#define FIXTURE "tests/data/fixtures/qwen3_moe"

/* Fails the test with the error's sentence unless rc is 0. */
void must(int rc, const struct err *e);

/* The path of foreign data, in a static buffer; NULL, after printing a sentence, if it is missing:
 * the test then calls skip(). */
const char *foreign(const char *path);

/* Makes a temporary directory; removes it with its files. */
char *temporary_directory(void);
void remove_directory(char *directory);
/* Writes a file of the directory. */
void write_file(const char *directory, const char *name, const char *bytes, size_t n);
/* The whole of a file, unpacked if its name ends in .zst; freed by the caller, NUL-terminated. */
char *read_any(const char *path, size_t *n);
/* Copies foreign files (a NULL-terminated list) from a folder into the directory, unpacked; false
 * if the folder is missing. */
bool copy_foreign(const char *directory, const char *folder, ...);

/* Texts and their ids from llama.cpp's tests: calls `check` for each; returns their number. */
typedef void check_pair(void *context, const char *text, size_t n, const struct token_list *ids);
size_t each_pair(const char *name, check_pair *check, void *context);
/* The same for a folder. */
size_t each_pair_of(const char *folder, const char *name, check_pair *check, void *context);
/* Fails unless the text encodes to these ids and they give the text back. */
void check_exact(void *tokenizer, const char *text, size_t n, const struct token_list *ids);

/* Opens a document as a tokenizer.json and releases it. */
int open_document(struct tokenizer **t, struct json_object *document, struct err *e);
/* The fixture's tokenizer.json, to change. */
struct json_object *fixture_document(void);
/* A document's value by keys and list positions: "model.merges.0". */
struct json_object *at(struct json_object *document, const char *path);
/* A text as JSON, which must parse. */
struct json_object *json(const char *text);

/* The ids of a text as "1 2 3", in a static buffer. */
const char *ids_of(const struct tokenizer *t, const char *text, size_t n);
/* The texts of a text's tokens, special ones too, as "[Hello][ world]", in a static buffer. */
const char *tokens_of(const struct tokenizer *t, const char *text);

#endif
