#include "fs/base/spelling.h"

#include <string.h>

enum { WORD_MOST = 32, CHANGES_MOST = 2, SHORT = 4 };

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Damerau and Levenshtein's distance in its restricted form: letters that are missing, too many,
 * wrong, or in the place of their neighbour. Both words have fewer than WORD_MOST bytes. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MOST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
	size_t n = strlen(b);
	for (unsigned j = 0; j <= n; j++)
		above[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned other = above[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = least(other, least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		unsigned *oldest = before;
		before = above;
		above = row;
		row = oldest;
	}
	return above[n];
}

void spelling_try(struct spelling *s, const char *known)
{
	size_t length = strlen(s->word);
	if (length >= WORD_MOST || strlen(known) >= WORD_MOST)
		return;
	unsigned changes = distance(s->word, known), most = length > SHORT ? CHANGES_MOST : 1;
	if (changes > most || (s->nearest && changes >= s->changes))
		return;
	s->nearest = known;
	s->changes = changes;
}
