/* What a tokenizer is made of, and the steps of making one that both readers share.
 *
 * Merges come before added tokens, and the normalizer before both. Building may fail half way:
 * tokenizer_free takes whatever there is. `name` is the file for errors. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_BUILD_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_BUILD_H

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/json/json.h"
#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/split_pattern.h"
#include "engine/tokenizer/vocabulary.h"

/* The largest published tokenizer.json is about half of it. */
enum { TOKENIZER_FILE_MAX = 64 << 20 };

struct tokenizer {
	struct vocabulary vocabulary;
	struct merges merges;
	struct splitter splitter;
	/* By whether they are looked for before normalising. */
	struct added_tokens literal, normalized;
	struct normalizer normalizer;
	/* Pieces: which texts get a space in front where they have none: those at the beginning of
	 * the whole, or all between added tokens. */
	enum { LEAD_NEVER, LEAD_FIRST, LEAD_ALWAYS } lead;
	bool split_spaces;  /* each space begins a word */
	bool ignore_merges; /* a word that is a token is that token */
	bool strip_space;   /* the space in front is no part of what was written */
	bool add_bos;	    /* a text begins with `bos` */
	int64_t bos, eos;   /* ids; -1: none */
};

/* One with nothing in it; NULL: out of memory. */
struct tokenizer *tokenizer_new(void);
void tokenizer_free(struct tokenizer *t); /* NULL is fine */
/* What a reader's result means for the tokenizer that it was to fill: rc, and *out or no tokenizer.
 * Marks what ends a text or a turn: eos, and tokens that are known by their texts. */
int tokenizer_built(struct tokenizer **out, struct tokenizer *t, int rc, const char *name,
		    struct err *e);

/* An added token as a file has it. */
struct added_entry {
	const char *content; /* borrowed */
	size_t length;
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
/* tokenizer_find, for a text of so many bytes. */
int64_t tokenizer_find_text(const struct tokenizer *t, const char *text, size_t n);

#endif
