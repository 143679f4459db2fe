/* A tokenizer's tokens, by id and by bytes. vocabulary_free accepts zeroed memory and the rest
 * of a failed vocabulary_init or _add. */
#ifndef MOEFS_ENGINE_TOKENIZER_VOCABULARY_H
#define MOEFS_ENGINE_TOKENIZER_VOCABULARY_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TOKEN_ID_MAX = (1 << 24) - 1,
	PIECE_BYTES_MAX = 1024, /* published ones have at most about a hundred */
};

enum spelling {
	/* Each byte as a character: 188 as that of the same number, the other 68 from U+0100 on
	 * (Radford et al. 2019, so that vocab.json is printable). */
	SPELLED_BYTES,
	/* As text with U+2581 for a space; bytes of characters that are no token have tokens of
	 * their own, spelled <0x0A> (SentencePiece: Kudo and Richardson 2018). */
	SPELLED_PIECES,
};
enum { ENDS_TEXT = 1, ENDS_TURN = 2 }; /* what a token ends: a text, or a turn of a conversation */
struct token {
	uint32_t offset, length; /* its bytes in vocabulary.bytes */
	bool known, special;
	uint8_t ends;
};
struct vocabulary {
	enum spelling spelling; /* set before tokens are added */
	struct token *tokens;	/* [size]; ids that the files do not define are not `known` */
	uint32_t size;
	char *bytes;
	size_t bytes_used, bytes_capacity;
	uint32_t *slots; /* hash table of ids by bytes; open addressing, SLOT_EMPTY where free */
	size_t slot_count;
	uint64_t seed;		  /* random: no file can choose keys that collide */
	int32_t byte_id[256];	  /* id of each single byte, -1 where there is none */
	int32_t fallback_id[256]; /* of pieces: id of <0x00> …, -1 where there is none */
	uint32_t longest;	  /* bytes of the longest token that merges may make */
	uint64_t *joints; /* of pieces: pairs of characters that stand side by side in a token */
};

/* Makes room for ids 0 .. size-1, of which `count` have spellings. */
int vocabulary_init(struct vocabulary *v, uint32_t size, size_t count, struct err *e);
void vocabulary_free(struct vocabulary *v);
/* Defines a token by its spelling, valid UTF-8. As in Hugging Face's decoder, a byte-level
 * spelling with any other character stands for itself. No merge makes such a token, nor a piece
 * with a space (texts have U+2581), nor an empty one. `name` is the file in errors. */
int vocabulary_add(struct vocabulary *v, uint32_t id, const char *spelling, size_t n,
		   const char *name, struct err *e);
/* Defines a token by its bytes, at least one, in a byte-level vocabulary. */
int vocabulary_add_bytes(struct vocabulary *v, uint32_t id, const char *bytes, size_t n,
			 const char *name, struct err *e);
/* Gives an id the bytes of an added token; in pieces, U+2581 becomes a space. If the id already
 * has a spelling, it must be the same text. */
int vocabulary_add_literal(struct vocabulary *v, uint32_t id, const char *text, size_t length,
			   bool special, const char *name, struct err *e);
/* Id of the token with these bytes, or -1. Finds neither added tokens nor the single-byte tokens
 * of pieces. */
int64_t vocabulary_find(const struct vocabulary *v, const char *bytes, size_t n);
/* vocabulary_find for a spelling of n bytes; `buffer` has room for n. *length is the number of
 * bytes spelled. */
int64_t vocabulary_find_spelling(const struct vocabulary *v, const char *spelling, size_t n,
				 char *buffer, size_t *length);

/* False if no token that merges make has these two characters side by side: nothing merges
 * across such a place. True may be wrong. Of pieces. */
bool vocabulary_joins(const struct vocabulary *v, uint32_t left, uint32_t right);

#endif
