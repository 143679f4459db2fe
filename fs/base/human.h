/* Sizes and times as people write and read them, and the known word that a mistyped one resembles.
 */
#ifndef MOEFS_FS_BASE_HUMAN_H
#define MOEFS_FS_BASE_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a size: digits, perhaps with a point and a unit K, M, G or T (powers of 1024; KB and KiB
 * are the same), or a percentage of `whole` bytes (0: the whole is unknown). False: not a size,
 * more than the whole, or beyond 64 bits. */
bool human_parse_size(const char *string, uint64_t whole, uint64_t *bytes);
/* Reads a whole number in a base, at most `most`. False: not a number, or too high. */
bool human_parse_number(const char *string, int base, uint64_t most, uint64_t *number);
/* Reads a time: a whole number and s, m or h. False: not a time, 0, or beyond 32 bits. */
bool human_parse_seconds(const char *string, uint32_t *seconds);
/* Writes a size exactly, in the largest unit that divides it: human_parse_size reads the same
 * value. */
void human_print_size(char *buffer, size_t size, uint64_t bytes);
/* Writes a size in at most five characters, as ls -h does: 940B, 1.5G, 23M. */
void human_round_size(char *buffer, size_t size, uint64_t bytes);

/* For "did you mean": */
struct spelling {
	const char *word;    /* as typed */
	const char *nearest; /* of the words that were tried; NULL: none resembles it */
	unsigned changes;    /* edits between the two */
};

/* Compares with one known word, which has to live as long as `nearest` is used. */
void human_try_spelling(struct spelling *s, const char *known);

#endif
