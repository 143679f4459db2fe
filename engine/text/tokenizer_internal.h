/* The parts of a tokenizer and what they ask of each other; only engine/tokenizer*.c and its parts
 * include this. In the order in which a text meets them:
 *
 *     added_tokens.c  cuts out the tokens that are spelled literally
 *     normalize.c     NFC
 *     pretokenize.c   splits into words by the file's patterns (PCRE2; split_pattern.c)
 *     bpe.c           merges the bytes of a word by rank
 *     vocabulary.c    id <-> bytes
 *
 * tokenizer_json.c reads tokenizer.json, tokenizer_gpt2.c vocab.json and merges.txt, both with
 * tokenizer_build.c; tokenizer.c is the public face and runs the pipeline. Building may fail half
 * way: every part's _free takes whatever there is, zeroed memory included.
 */
#ifndef MOEFS_ENGINE_TEXT_TOKENIZER_INTERNAL_H
#define MOEFS_ENGINE_TEXT_TOKENIZER_INTERNAL_H

#include "engine/text/json.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <stdatomic.h>

enum {
	TOKENIZER_FILE_MAX =
		64 << 20, /* the largest published tokenizer.json is about half of it */
	TOKEN_ID_MAX = (1 << 24) - 1,
	MERGE_BYTES_MAX = 4096,	      /* of the spelling of a merge's product */
	ADDED_TOKEN_BYTES_MAX = 1024, /* of one added token's text */
	SPLIT_STAGES_MAX = 16,	      /* pre-tokenizers in a sequence */
	PATTERN_BYTES_MAX = 16384,
	TEXT_BYTES_MAX = 1 << 30, /* of one text to encode; positions fit 32 bits */
};

/* --- ending early --- */

/* What takes long looks now and then whether it is to go on; `stop` may be NULL. */
static inline bool stop_asked(const _Atomic bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}
static inline int stop_error(struct err *e)
{
	return err_set(e, ECANCELED, "tokenizing was stopped");
}

/* --- vocabulary.c: tokens by id and by bytes --- */

/* How the vocabulary spells bytes: 188 as the character of the same number, the other 68 from
 * U+0100 on (Radford et al. 2019, so that vocab.json is printable). */
struct token {
	uint32_t offset, length; /* its bytes in vocabulary.bytes */
	bool known, special;
};
struct vocabulary {
	struct token *tokens; /* [size]; ids that the files do not define are not `known` */
	uint32_t size;
	char *bytes;
	size_t bytes_used, bytes_capacity;
	uint32_t *slots; /* hash table of ids by bytes; open addressing, SLOT_EMPTY where free */
	size_t slot_count;
	uint64_t seed;	      /* random, so that no file can choose keys that collide */
	int32_t byte_id[256]; /* id of each single byte, -1 where there is none */
};

/* Room for ids 0 .. size-1, of which `count` are spelled in bytes. */
int vocabulary_init(struct vocabulary *v, uint32_t size, size_t count, struct err *e);
void vocabulary_free(struct vocabulary *v);
/* Defines a token by its spelling in the byte alphabet. As in Hugging Face's decoder, a spelling
 * with any other character stands for itself; no merge makes it. `name` is the file for errors. */
int vocabulary_add(struct vocabulary *v, uint32_t id, const char *spelling, size_t n,
		   const char *name, struct err *e);
/* Gives an id the bytes of an added token. If the id has a spelling already it must be the very
 * same text. */
int vocabulary_add_literal(struct vocabulary *v, uint32_t id, const char *text, size_t length,
			   bool special, const char *name, struct err *e);
/* Id of the token with these bytes, added tokens aside; -1 where there is none. */
int64_t vocabulary_find(const struct vocabulary *v, const char *bytes, size_t n);
/* The same for a spelling of n bytes; buffer has room for n. Sets *length to the bytes spelled. */
int64_t vocabulary_find_spelling(const struct vocabulary *v, const char *spelling, size_t n,
				 char *buffer, size_t *length);

/* --- bpe.c: merging a word's bytes by rank (Sennrich et al. 2016) --- */

struct merge {
	uint32_t left, right, product; /* ids */
	uint32_t rank;		       /* MERGE_NONE: the slot is free */
};
enum { MERGE_NONE = UINT32_MAX };
struct merges {
	struct merge *slots; /* hash table by (left, right), open addressing */
	size_t slot_count, count;
	uint64_t seed;
};
/* Zero-initialise but for the seed. The last of equal pairs counts, as in Hugging Face. */
int merges_add(struct merges *m, struct merge merge, struct err *e);
void merges_free(struct merges *m);

struct bpe_work; /* memory for merging, reused from word to word */
struct bpe_work *bpe_work_new(const _Atomic bool *stop);
void bpe_work_free(struct bpe_work *w);
/* Appends the ids of one word of n bytes, in time O(n log n). */
int bpe_encode(const struct vocabulary *v, const struct merges *m, struct bpe_work *w,
	       const char *word, size_t n, struct token_list *ids, struct err *e);

/* --- pretokenize.c: words --- */

struct split_stage {
	struct pcre2_real_code_8 *near; /* NULL: does not split */
	struct pcre2_real_code_8 *far;	/* the same pattern, made so that its work can be counted */
	bool prefix_space;		/* first puts a space before what does not begin with one */
};
struct splitter {
	struct split_stage stages[SPLIT_STAGES_MAX]; /* each splits what the one before it left */
	uint32_t count;
	char *name; /* of the file, for errors; owned */
};
extern const char GPT2_PATTERN[], QWEN2_PATTERN[];
/* `pattern` as Hugging Face reads it (Oniguruma's syntax), or NULL for none. Matches and the gaps
 * between them both become pieces. What PCRE2 would read differently is refused. */
int splitter_add(struct splitter *s, const char *pattern, bool prefix_space, const char *name,
		 struct err *e);
void splitter_free(struct splitter *s);

struct split_work; /* for one text of so many bytes */
struct split_work *split_work_new(size_t bytes, const _Atomic bool *stop);
void split_work_free(struct split_work *w);
typedef int split_word(void *context, const char *word, size_t n, struct err *e);
/* Calls `each` for every word of text[n] (valid UTF-8) in order, until one returns nonzero. */
int splitter_run(const struct splitter *s, struct split_work *w, const char *text, size_t n,
		 split_word *each, void *context, struct err *e);

/* --- normalize.c --- */

/* NFC of valid UTF-8 that may hold NULs, into memory that the caller frees. Linear, whatever the
 * order of combining marks. */
int normalize_nfc(const char *text, size_t n, const _Atomic bool *stop, char **out, size_t *out_n,
		  struct err *e);

/* --- added_tokens.c: tokens spelled literally in the text --- */

struct added_token {
	char *text; /* as it is matched: normalised if `normalized` */
	uint32_t length, id;
	bool single_word;    /* only where no word character touches it */
	bool lstrip, rstrip; /* takes the white space on that side with it */
	bool normalized;     /* looked for after normalising, among what the others left */
};
struct added_tokens { /* sorted by text once added_tokens_finish was called */
	struct added_token *items;
	size_t count, capacity;
	bool first[256]; /* bytes that some token begins with */
};
/* Copies token->text. */
int added_tokens_append(struct added_tokens *a, const struct added_token *token, struct err *e);
/* Sorts; two tokens with the same text are an error, but for normalised ones (the lower id). */
int added_tokens_finish(struct added_tokens *a, const char *name, struct err *e);
void added_tokens_free(struct added_tokens *a);
/* Id of the token with this very text, or -1. */
int64_t added_tokens_find(const struct added_tokens *a, const char *text, size_t n);

/* A walk over a text; start with from = next = 0. */
struct added_scan {
	size_t from;		  /* where the text begins that has not been handed out */
	size_t next;		  /* where to look for the next token */
	const _Atomic bool *stop; /* once true, nothing more is looked for */
};
struct added_hit {
	size_t gap, gap_length; /* ordinary text before the token; may be empty */
	int64_t id;		/* -1: the gap is the rest of the text */
};
/* The next ordinary piece and the token after it; false when the text is used up. */
bool added_tokens_next(const struct added_tokens *a, const char *text, size_t n,
		       struct added_scan *scan, struct added_hit *hit);

/* --- the whole --- */

struct tokenizer {
	struct vocabulary vocabulary;
	struct merges merges;
	struct splitter splitter;
	struct added_tokens literal, normalized; /* by whether they are looked for before NFC */
	bool nfc;
	bool ignore_merges; /* a word that is a token is that token */
};

/* --- tokenizer_build.c: what both readers share --- */

/* Merges come before added tokens, and t->nfc before both. `name` is the file for errors. */

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

/* --- the readers --- */

/* A tokenizer.json in memory, into a zeroed tokenizer. */
int tokenizer_read_json(struct tokenizer *t, const char *text, size_t n, const char *name,
			struct err *e);
/* vocab.json and merges.txt in a directory, into a zeroed tokenizer. */
int tokenizer_read_gpt2(struct tokenizer *t, const char *directory, struct err *e);
/* tokenizer_open for a tokenizer.json in memory. */
int tokenizer_open_text(struct tokenizer **out, const char *text, size_t n, const char *name,
			struct err *e);

#endif
