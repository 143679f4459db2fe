/* Keys, and comparing them without telling how much of one was right. See keys.h. */
#include "fs/gateway/keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEYS_MOST = 255, KEY_SIZE = 256, LINE_MOST = 4096 };

struct keys {
	size_t count;
	char of[KEYS_MOST][KEY_SIZE]; /* with zeros to the end */
};

/* A line without its newline, its bytes whatever they are. -1: there is none. One that fills `line` is
 * cut. */
static ssize_t read_line(FILE *file, char line[LINE_MOST])
{
	size_t n = 0;
	int c = EOF;
	while (n < LINE_MOST && (c = getc(file)) != EOF && c != '\n')
		line[n++] = (char)c;
	return c == EOF && !n ? -1 : (ssize_t)n;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* What no header can have. */
static bool has_control(const char *key, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)key[i] < ' ' || key[i] == 0x7f)
			return true;
	return false;
}

/* Blanks at a line's ends are no part of its key: clients' headers lose theirs as well. */
static int add(struct keys *k, const char *path, unsigned number, const char *line, size_t n,
	       struct err *e)
{
	if (n == LINE_MOST)
		return err_set(e, EINVAL, "%s: line %u has more than %d bytes", path, number,
			       LINE_MOST - 1);
	if (number == 1 && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) /* a mark of UTF-8 */
		line += 3, n -= 3;
	while (n && is_blank(*line))
		line++, n--;
	while (n && is_blank(line[n - 1]))
		n--;
	if (!n || *line == '#')
		return 0;
	if (n >= KEY_SIZE || k->count == KEYS_MOST)
		return err_set(e, EINVAL, "%s: at most %d keys of at most %d bytes", path,
			       KEYS_MOST, KEY_SIZE - 1);
	if (has_control(line, n))
		return err_set(e, EINVAL,
			       "%s: the key in line %u has a control character, which no client "
			       "can send",
			       path, number);
	memcpy(k->of[k->count++], line, n);
	return 0;
}

static int read_lines(struct keys *k, FILE *file, const char *path, struct err *e)
{
	char line[LINE_MOST];
	struct stat st;
	ssize_t n;
	int code = 0;
	if (fstat(fileno(file), &st) || (S_ISREG(st.st_mode) && st.st_mode & 077))
		return err_set(e, EPERM, "%s can be read by others: chmod 600", path);
	for (unsigned number = 1; !code && (n = read_line(file, line)) >= 0; number++)
		code = add(k, path, number, line, (size_t)n, e);
	if (!code && ferror(file))
		code = err_sys(e, errno, "%s cannot be read", path);
	if (!code && !k->count)
		code = err_set(e, EINVAL, "%s has no key", path);
	return code;
}

int keys_read(struct keys **out, const char *path, struct err *e)
{
	FILE *file = fopen(path, "re");
	struct keys *k = file ? calloc(1, sizeof *k) : NULL;
	int code = k ? read_lines(k, file, path, e) : err_sys(e, errno, "%s cannot be read", path);
	if (file)
		fclose(file);
	if (code)
		free(k);
	else
		*out = k;
	return code;
}

size_t keys_find(const struct keys *k, const char *given)
{
	char padded[KEY_SIZE] = "";
	size_t n = strlen(given), found = 0;
	memcpy(padded, given, n < KEY_SIZE - 1 ? n : KEY_SIZE - 1);
	for (size_t i = 0; i < k->count; i++) {
		volatile unsigned char differs = 0;
		for (size_t c = 0; c < KEY_SIZE; c++)
			differs |= (unsigned char)(padded[c] ^ k->of[i][c]);
		found |= differs ? 0 : i + 1;
	}
	return n < KEY_SIZE ? found : 0;
}

/* ---- marks ---- */

static uint64_t rotated(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotated(v[1], 13) ^ v[0];
	v[3] = rotated(v[3], 16) ^ v[2];
	v[0] = rotated(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotated(v[1], 17) ^ v[2];
	v[3] = rotated(v[3], 21) ^ v[0];
	v[2] = rotated(v[2], 32);
}

/* SipHash-2-4 (Aumasson and Bernstein 2012), of whole words: its result tells nothing of its key.
 */
static uint64_t sip(uint64_t k0, uint64_t k1, const uint64_t *words, size_t count)
{
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du,
			 k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
	for (size_t i = 0; i <= count; i++) {
		uint64_t word = i < count ? words[i] : (uint64_t)count << 59;
		v[3] ^= word;
		sip_round(v);
		sip_round(v);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* A key's bytes make the key of the hash, and the hash is of nothing else. */
void keys_mark(const struct keys *k, size_t number, char mark[KEY_MARK])
{
	uint64_t words[KEY_SIZE / sizeof(uint64_t)];
	const size_t count = sizeof words / sizeof *words;
	memcpy(words, k->of[number - 1], sizeof words);
	uint64_t k0 = sip(0, 1, words, count), k1 = sip(1, 0, words, count);
	(void)snprintf(mark, KEY_MARK, "%016llx", (unsigned long long)sip(k0, k1, NULL, 0));
}

void keys_free(struct keys *k)
{
	free(k);
}
