/* Reading a text that is still being written: what a part of it is may not be decided yet. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_SCAN_H
#define MOEFS_ENGINE_ANSWER_SPLIT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct scan {
	const char *bytes;
	size_t n;
	bool whole;   /* nothing more comes */
	bool cut;     /* and the text was cut off: what has no end is not complete */
	size_t reach; /* behind the last byte that was looked at */
	/* The first that was met; everything after it says nothing. */
	enum { SCAN_GOOD, SCAN_MORE, SCAN_BAD } state;
};

/* The byte at i; -1 behind the end, which is SCAN_MORE unless the text is whole. */
int scan_at(struct scan *s, size_t i);
/* Whether a word stands at i; SCAN_MORE where its beginning does, at the end. */
bool scan_word(struct scan *s, size_t i, const char *word);
/* The same of a word that ends a call; of a text that was cut off its beginning is enough. */
bool scan_end(struct scan *s, size_t i, const char *word);
/* The place of the first that is no space, tab, LF or CR. */
size_t scan_space(struct scan *s, size_t i);
bool scan_is_space(int c);
/* The place of the first `stop`; SCAN_BAD where one of `never`, or the end, comes before. */
size_t scan_until(struct scan *s, size_t i, char stop, const char *never);
/* Behind a word that must stand at i; SCAN_BAD if another text does. */
size_t scan_over(struct scan *s, size_t i, const char *word);
/* Behind the name at i: up to white space or a character that no name has. SCAN_BAD if it is empty.
 */
size_t scan_name(struct scan *s, size_t i);
/* Behind the JSON value at i, read strictly (RFC 8259); deeper than SCAN_DEPTH_MAX is SCAN_BAD. */
size_t scan_json(struct scan *s, size_t i);
void scan_fail(struct scan *s);
/* Whether all of a text is one JSON value, but for white space; sets what it begins with. */
bool scan_is_json(const char *bytes, size_t n, char *first);
/* Whether it is a JSON number, alone. */
bool scan_is_number(const char *bytes, size_t n);

/* Less than json.h reads, by what a call lies in among messages. */
enum { SCAN_DEPTH_MAX = 24 };

#endif
