/* A tokenizer's tokens, by id and by bytes. vocabulary_free takes zeroed memory and what a failed
 * vocabulary_init or _add left. */
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
enum {
	ENDS_TEXT = 1,
	ENDS_TURN = 2
}; /* what a token ends: any text, or a turn of a conversation */
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
	uint64_t seed;		  /* random, so that no file can choose keys that collide */
	int32_t byte_id[256];	  /* id of each single byte, -1 where there is none */
	int32_t fallback_id[256]; /* of pieces: id of <0x00> …, -1 where there is none */
	uint32_t longest;	  /* bytes of the longest token that merges may make */
	uint64_t *joints; /* of pieces: which characters stand beside each other in one of those */
};

/* Room for ids 0 .. size-1, of which `count` are spelled in bytes. */
int vocabulary_init(struct vocabulary *v, uint32_t size, size_t count, struct err *e);
void vocabulary_free(struct vocabulary *v);
/* Defines a token by its spelling, valid UTF-8. As in Hugging Face's decoder, one that should spell
 * bytes and has any other character stands for itself; no merge makes it, nor a piece that has a
 * space (texts have none: theirs are U+2581), nor an empty one. `name` is the file for errors. */
int vocabulary_add(struct vocabulary *v, uint32_t id, const char *spelling, size_t n,
		   const char *name, struct err *e);
/* Gives an id the bytes of an added token, in which U+2581 is a space where pieces are spelled. If
 * the id has a spelling already it must be the very same text. */
int vocabulary_add_literal(struct vocabulary *v, uint32_t id, const char *text, size_t length,
			   bool special, const char *name, struct err *e);
/* Id of the token with these bytes, added tokens aside; -1 where there is none. What stands for a
 * single byte of a piece's character is not found. */
int64_t vocabulary_find(const struct vocabulary *v, const char *bytes, size_t n);
/* The same for a spelling of n bytes; buffer has room for n. Sets *length to the bytes spelled. */
int64_t vocabulary_find_spelling(const struct vocabulary *v, const char *spelling, size_t n,
				 char *buffer, size_t *length);

/* False: no token that merges may make has these two characters beside each other, so nothing
 * merges across such a place. (True where that is not sure.) Of pieces. */
bool vocabulary_joins(const struct vocabulary *v, uint32_t left, uint32_t right);

#endif
