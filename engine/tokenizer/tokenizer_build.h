/* What a tokenizer is made of, and the steps of making one that both readers share.
 *
 * Merges come before added tokens, and the normalizer before both. Building may fail half way:
 * tokenizer_close takes whatever there is. `name` is the file for errors. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_BUILD_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_BUILD_H

#include "engine/json/json.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

/* The largest published tokenizer.json is about half of it. */
enum { TOKENIZER_FILE_MAX = 64 << 20 };

struct tokenizer {
	struct vocabulary vocabulary;
	struct bpe_merges merges;
	struct pretokenizer splitter;
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
/* What a reader's result means for the tokenizer that it was to fill: rc, and *out or no tokenizer.
 * Marks what ends a text or a turn: eos, and tokens that are known by their texts. */
int tokenizer_finish(struct tokenizer **out, struct tokenizer *t, int rc, const char *name,
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
int tokenizer_read_entry(struct added_entry *a, const struct json *object, const char *name,
			 struct err *e);
int tokenizer_append_entry(struct added_entries *l, const struct added_entry *a, struct err *e);

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

/* What tokenizer_config.json says beside the tokenizer itself: which tokens begin and end a text.
 */

enum { CONFIG_FILE_MAX = 16 << 20 };

/* Takes "bos_token", "eos_token" and "add_bos_token" into a tokenizer that has its tokens. What the
 * last says counts before the template of a tokenizer.json. `name` is the file for errors. */
int tokenizer_config_take(struct tokenizer *t, const struct json *config, const char *name,
			  struct err *e);
/* The same from a directory's file, if there is one. */
int tokenizer_config_read(struct tokenizer *t, const char *directory, struct err *e);

/* Reading vocab.json and merges.txt (GPT-2's layout). */

/* vocab.json and merges.txt in a directory, into a zeroed tokenizer. */
int gpt2_read(struct tokenizer *t, const char *directory, struct err *e);

/* Reading tokenizer.json (Hugging Face tokenizers). */

/* A tokenizer.json in memory, into a zeroed tokenizer. */
int tokenizer_json_read(struct tokenizer *t, const char *text, size_t n, const char *name,
			struct err *e);

#endif
