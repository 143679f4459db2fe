/* Sizes and times as people write and read them, and suggestions for misspelled words. */
#ifndef MOEFS_FS_BASE_HUMAN_H
#define MOEFS_FS_BASE_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a size: digits, optionally with a point and a unit K, M, G or T (powers of 1024; KB and KiB
 * are the same), or a percentage of `whole` bytes (0: the whole is unknown). False: not a size,
 * more than the whole, or beyond 64 bits. */
bool human_parse_size(const char *string, uint64_t whole, uint64_t *bytes);
/* Reads a whole number in a base, at most `most`. False: not a number, or too large. */
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
	const char *nearest; /* of the known words; NULL: none is similar */
	unsigned changes;    /* edits between the two */
};

/* Compares the typed word with one known word. `known` must live as long as `nearest` is used. */
void human_try_spelling(struct spelling *s, const char *known);

#endif
