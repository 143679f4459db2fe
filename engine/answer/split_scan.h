/* Reads a text that is still growing: a question about it may have to wait for more bytes. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_SCAN_H
#define MOEFS_ENGINE_ANSWER_SPLIT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct split_scan {
	const char *bytes;
	size_t n;
	bool whole;   /* no more bytes follow */
	bool cut;     /* whole, but cut off: a call without an end is not complete */
	size_t reach; /* the offset after the last byte that was read */
	/* The first result other than SCAN_GOOD stays; results of later calls mean nothing. */
	enum { SCAN_GOOD, SCAN_MORE, SCAN_BAD } state;
};

/* The byte at i; -1 at the end, which sets SCAN_MORE unless the text is whole. */
int scan_at(struct split_scan *s, size_t i);
/* Whether the word is at i; SCAN_MORE if the text ends within the word. */
bool scan_word(struct split_scan *s, size_t i, const char *word);
/* scan_word for a word that ends a call: in a text that was cut off, its beginning is enough. */
bool scan_end(struct split_scan *s, size_t i, const char *word);
/* The offset of the first byte from i on that is not a space, tab, LF or CR. */
size_t scan_space(struct split_scan *s, size_t i);
bool scan_is_space(int c);
/* The offset of the first `stop`; SCAN_BAD if a byte of `never`, or the end, comes first. */
size_t scan_until(struct split_scan *s, size_t i, char stop, const char *never);
/* The offset after the word, which must be at i: else SCAN_BAD. */
size_t scan_over(struct split_scan *s, size_t i, const char *word);
/* The offset after the name at i, which ends at white space, a bracket or a quote. SCAN_BAD if the
 * name is empty. */
size_t scan_name(struct split_scan *s, size_t i);
/* The offset after the JSON value at i, read strictly (RFC 8259). SCAN_BAD: not JSON, or nested
 * deeper than SCAN_DEPTH_MAX. */
size_t scan_json(struct split_scan *s, size_t i);
void scan_fail(struct split_scan *s);
/* Whether bytes[n] is one JSON value and white space. *first: its first byte that is not white
 * space. */
bool scan_is_json(const char *bytes, size_t n, char *first);
/* Whether bytes[n] is a JSON number and nothing else. */
bool scan_is_number(const char *bytes, size_t n);

/* Less than JSON_DEPTH_MAX, since a call is later nested in a list of messages. */
enum { SCAN_DEPTH_MAX = 24 };

#endif
