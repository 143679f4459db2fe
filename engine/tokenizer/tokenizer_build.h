/* The parts of a tokenizer, and the steps of building one that all readers share.
 *
 * Add merges before added tokens, and set the normalizer before both. Building may fail half
 * way: tokenizer_close frees whatever there is. `name` is the file in errors. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_BUILD_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_BUILD_H

#include "engine/json/json.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

/* The largest published tokenizer.json has about half of this. */
enum { TOKENIZER_FILE_MAX = 64 << 20 };

struct tokenizer {
	struct vocabulary vocabulary;
	struct bpe_merges merges;
	struct pretokenizer splitter;
	/* Looked for before normalising, and after. */
	struct added_tokens literal, normalized;
	struct normalizer normalizer;
	/* SentencePiece: which texts get a space in front if they have none: those at the
	 * beginning, or all between added tokens. */
	enum { LEAD_NEVER, LEAD_FIRST, LEAD_ALWAYS } lead;
	bool split_spaces;  /* each space begins a word */
	bool ignore_merges; /* a word that is a token is that token */
	bool strip_space;   /* the space in front is not part of the text */
	bool add_bos;	    /* a text begins with `bos` */
	int64_t bos, eos;   /* ids; -1: none */
	int64_t end;	    /* of the token that ends a text (tokenizer_end); -1: none */
};

/* An empty tokenizer; NULL: out of memory. */
struct tokenizer *tokenizer_new(void);
/* Ends a reader's work with the result `rc`: sets *out, or frees the tokenizer. Marks the tokens
 * that end a text or a turn: eos, and tokens known by their texts. */
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
/* Reads the content and flags of an object as in tokenizer.json; not the id. */
int tokenizer_read_entry(struct added_entry *a, const struct json *object, const char *name,
			 struct err *e);
int tokenizer_append_entry(struct added_entries *l, const struct added_entry *a, struct err *e);

/* Lists "added_tokens_decoder" of tokenizer_config.json: an object {"ID": {"content", flags}}. */
int tokenizer_list_decoder(struct added_entries *list, const struct json *decoder,
			   const char *name, struct err *e);

/* Sizes t->vocabulary for `vocab` and `added`, and fills it from `vocab`: {spelling: id}. */
int tokenizer_add_vocabulary(struct tokenizer *t, const struct json *vocab,
			     const struct added_entries *added, const char *name, struct err *e);
/* Adds the merge of two spellings; both and their joint spelling must be tokens. */
int tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_n, const char *right,
			size_t right_n, uint32_t rank, const char *name, struct err *e);
/* Adds the merge "LEFT RIGHT". */
int tokenizer_add_merge_line(struct tokenizer *t, const char *line, size_t n, uint32_t rank,
			     const char *name, struct err *e);
/* Defines the added tokens and prepares looking for them. */
int tokenizer_add_tokens(struct tokenizer *t, const struct added_entries *added, const char *name,
			 struct err *e);
/* tokenizer_find for text[n]. */
int64_t tokenizer_find_text(const struct tokenizer *t, const char *text, size_t n);

/* tokenizer_config.json: which tokens begin and end a text. */

enum { CONFIG_FILE_MAX = 16 << 20 };

/* Takes "bos_token", "eos_token" and "add_bos_token" into a tokenizer that has its tokens.
 * "add_bos_token" overrides the template of a tokenizer.json. `name` is the file in errors. */
int tokenizer_config_take(struct tokenizer *t, const struct json *config, const char *name,
			  struct err *e);
/* Does the same from a directory's file, if there is one. */
int tokenizer_config_read(struct tokenizer *t, const char *directory, struct err *e);

/* Readers of file formats, each into a new tokenizer: GPT-2's vocab.json and merges.txt, or a
 * tiktoken.model, in a directory, */

/* vocab.json and merges.txt in a directory, into a zeroed tokenizer. */
int gpt2_read(struct tokenizer *t, const char *directory, struct err *e);

/* Whether a directory has a tiktoken.model. */
bool tiktoken_is(const char *directory);
/* tiktoken.model in a directory, into a zeroed tokenizer. */
int tiktoken_read(struct tokenizer *t, const char *directory, struct err *e);

/* and a tokenizer.json (Hugging Face) in memory. */

/* A tokenizer.json in memory, into a zeroed tokenizer. */
int tokenizer_json_read(struct tokenizer *t, const char *text, size_t n, const char *name,
			struct err *e);

#endif
