/* See human.h. */
#include "fs/base/human.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- sizes and times ---- */

static const char units[] = "KMGTP"; /* powers of 1024; people write up to T */
enum { UNITS_PARSED = 4 };

/* Reads "", "K", "KB" or "KiB" as a power of two. */
static bool human_parse_unit(const char *string, unsigned *shift)
{
	const char *unit =
		*string ? memchr(units, toupper((unsigned char)*string), UNITS_PARSED) : NULL;
	*shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	string += unit != NULL;
	return !*string || (unit && (!strcasecmp(string, "B") || !strcasecmp(string, "iB")));
}

bool human_parse_size(const char *string, uint64_t whole, uint64_t *bytes)
{
	unsigned shift;
	uint64_t millionths = 0;
	char *end;
	if (!isdigit((unsigned char)*string))
		return false;
	errno = 0;
	uintmax_t value = strtoumax(string, &end, 10);
	if (errno || value > UINT64_MAX)
		return false;
	if (*end == '.') { /* digits after the sixth are ignored */
		if (!isdigit((unsigned char)*++end))
			return false;
		for (uint64_t place = 100000; isdigit((unsigned char)*end); end++, place /= 10)
			millionths += (uint64_t)(*end - '0') * place;
	}
	if (!strcmp(end, "%")) { /* whole MiB, which looks like a size chosen by a person */
		double percent = (double)value + (double)millionths * 1e-6;
		if (!whole || percent > 100)
			return false;
		*bytes = (uint64_t)((double)whole * (percent / 100)) >> 20 << 20;
		return true;
	}
	if (!human_parse_unit(end, &shift) || (millionths && !shift) || value > UINT64_MAX >> shift)
		return false;
	/* 20 bits of millionths, shifted by at most 40. */
	return !__builtin_add_overflow((uint64_t)value << shift, (millionths << shift) / 1000000,
				       bytes);
}

bool human_parse_number(const char *string, int base, uint64_t most, uint64_t *number)
{
	char *end;
	errno = 0;
	uintmax_t value = strtoumax(string, &end, base);
	*number = value;
	return isdigit((unsigned char)*string) && !*end && !errno && value <= most;
}

bool human_parse_seconds(const char *string, uint32_t *seconds)
{
	static const struct {
		const char *name;
		uint32_t seconds;
	} each[] = {{"s", 1}, {"m", 60}, {"h", 3600}};
	char *end;
	errno = 0;
	uintmax_t value = isdigit((unsigned char)*string) ? strtoumax(string, &end, 10) : 0;
	for (size_t i = 0; value && !errno && i < sizeof each / sizeof *each; i++)
		if (!strcmp(end, each[i].name) && value <= UINT32_MAX / each[i].seconds) {
			*seconds = (uint32_t)value * each[i].seconds;
			return true;
		}
	return false;
}

void human_print_size(char *buffer, size_t size, uint64_t bytes)
{
	unsigned unit = 0;
	while (bytes && bytes % 1024 == 0 && unit < UNITS_PARSED) {
		bytes /= 1024;
		unit++;
	}
	const char letter[] = {unit ? units[unit - 1] : 0, 0};
	(void)snprintf(buffer, size, "%" PRIu64 "%s", bytes, letter);
}

void human_round_size(char *buffer, size_t size, uint64_t bytes)
{
	double n = (double)bytes;
	size_t unit = 0;
	while (n >= 1024 && unit < sizeof units - 1) {
		n /= 1024;
		unit++;
	}
	(void)snprintf(buffer, size, unit && n < 10 ? "%.1f%c" : "%.0f%c", n,
		       unit ? units[unit - 1] : 'B');
}

/* ---- spelling ---- */

enum { WORD_MOST = 32, CHANGES_MOST = 2, SHORT_WORD = 4 };

static unsigned human_least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Damerau and Levenshtein's distance in its restricted form: missing, extra, wrong letters, and
 * letters swapped with their neighbour. Both words have fewer than WORD_MOST bytes. */
static unsigned human_distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MOST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
	size_t n = strlen(b);
	for (unsigned j = 0; j <= n; j++)
		above[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned other = above[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = human_least(other, human_least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = human_least(row[j], before[j - 2] + 1);
		}
		unsigned *oldest = before;
		before = above;
		above = row;
		row = oldest;
	}
	return above[n];
}

void human_try_spelling(struct spelling *s, const char *known)
{
	size_t length = strlen(s->word);
	if (length >= WORD_MOST || strlen(known) >= WORD_MOST)
		return;
	unsigned changes = human_distance(s->word, known);
	if (changes > (length > SHORT_WORD ? CHANGES_MOST : 1) ||
	    (s->nearest && changes >= s->changes))
		return;
	s->nearest = known;
	s->changes = changes;
}
