/* What a tokenizer is made of, and the steps of making one that both readers share.
 *
 * Merges come before added tokens, and t->nfc before both. Building may fail half way:
 * tokenizer_close takes whatever there is. `name` is the file for errors. */
#ifndef MOEFS_ENGINE_TEXT_TOKENIZER_BUILD_H
#define MOEFS_ENGINE_TEXT_TOKENIZER_BUILD_H

#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/json.h"
#include "engine/text/split_pattern.h"
#include "engine/text/vocabulary.h"

/* The largest published tokenizer.json is about half of it. */
enum { TOKENIZER_FILE_MAX = 64 << 20 };

struct tokenizer {
	struct vocabulary vocabulary;
	struct merges merges;
	struct splitter splitter;
	struct added_tokens literal, normalized; /* by whether they are looked for before NFC */
	bool nfc;
	bool ignore_merges; /* a word that is a token is that token */
};

/* An added token as a file has it. */
struct added_entry {
	const char *content; /* borrowed */
	uint32_t id;
	bool special, single_word, lstrip, rstrip, normalized;
};
struct added_entries { /* zero-initialise; items are the caller's to free */
	struct added_entry *items;
	size_t count, capacity;
};
/* Reads content and flags of an object in tokenizer.json's form; the id is not read. */
int added_entry_read(struct added_entry *a, const struct json *object, const char *name,
		     struct err *e);
int added_entries_append(struct added_entries *l, const struct added_entry *a, struct err *e);

/* Sizes t->vocabulary for both and fills it from an object {spelling: id}. */
int tokenizer_add_vocabulary(struct tokenizer *t, const struct json *vocab,
			     const struct added_entries *added, const char *name, struct err *e);
/* Adds the merge of two spellings, which and whose joint spelling must be tokens. */
int tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_n, const char *right,
			size_t right_n, uint32_t rank, const char *name, struct err *e);
/* The same for "LEFT RIGHT". */
int tokenizer_add_merge_line(struct tokenizer *t, const char *line, size_t n, uint32_t rank,
			     const char *name, struct err *e);
/* Defines the added tokens and prepares looking for them. */
int tokenizer_add_tokens(struct tokenizer *t, const struct added_entries *added, const char *name,
			 struct err *e);

#endif
