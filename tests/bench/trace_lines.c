/* The lines of a text file, plain or compressed by zstd. Memory is bounded whatever the file says:
 * it is decompressed piece by piece, and zstd itself refuses windows beyond 128 MiB. */
#include "tests/bench/trace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { PIECE = 1 << 16 };

struct trace_lines {
	const char *path; /* the caller's */
	FILE *file;
	ZSTD_DStream *zstd; /* NULL: the file is plain */
	size_t frame_left;  /* 0: the last frame is complete */
	ZSTD_inBuffer in;   /* what was read and not yet decompressed */
	uint8_t read[PIECE];
	uint8_t text[PIECE];
	size_t text_at, text_size;
	uint64_t total, number;
	char line[TRACE_LINE_MOST + 1];
};

/* ---- text ---- */

/* Reads the next piece of the file into l->in, which is used up; at the end it stays empty. */
static int read_piece(struct trace_lines *l, struct err *e)
{
	l->in = (ZSTD_inBuffer){l->read, fread(l->read, 1, sizeof l->read, l->file), 0};
	if (ferror(l->file))
		return err_sys(e, errno, "%s: cannot be read", l->path);
	return 0;
}

static int decompress(struct trace_lines *l, struct err *e)
{
	ZSTD_outBuffer out = {l->text, sizeof l->text, 0};
	while (!out.pos) {
		bool rest = l->in.pos < l->in.size;
		int failed = rest ? 0 : read_piece(l, e);
		if (failed)
			return failed;
		bool end = !l->in.size;
		if (end && !l->frame_left)
			break;
		size_t left = ZSTD_decompressStream(l->zstd, &out, &l->in);
		if (ZSTD_isError(left))
			return err_set(e, EINVAL, "%s: cannot be decompressed: %s", l->path,
				       ZSTD_getErrorName(left));
		if (end && !out.pos)
			return err_set(e, EINVAL, "%s: ends in the middle of its compressed data",
				       l->path);
		l->frame_left = left;
	}
	l->text_size = out.pos;
	return 0;
}

/* Replaces the text that is used up; none is left at the end of the file. */
static int next_text(struct trace_lines *l, struct err *e)
{
	int failed = 0;
	l->text_at = l->text_size = 0;
	if (l->zstd) {
		failed = decompress(l, e);
	} else {
		if (l->in.pos == l->in.size) /* else: the piece that told the kind of file */
			failed = read_piece(l, e);
		l->text_size = l->in.size;
		memcpy(l->text, l->read, l->in.size);
		l->in.pos = l->in.size;
	}
	l->total += l->text_size;
	if (!failed && l->total > TRACE_TEXT_MOST)
		failed = err_set(e, EFBIG, "%s: has more than %llu GiB of text", l->path,
				 (unsigned long long)(TRACE_TEXT_MOST >> 30));
	return failed;
}

/* ---- lines ---- */

int trace_lines_next(struct trace_lines *l, char **line, struct err *e)
{
	size_t length = 0;
	bool any = false;
	for (l->number++;; l->text_at++) {
		if (l->text_at == l->text_size) {
			int failed = next_text(l, e);
			if (failed)
				return failed;
			if (!l->text_size)
				break;
		}
		any = true;
		char c = (char)l->text[l->text_at];
		if (c == '\n') {
			l->text_at++;
			break;
		}
		if (!c || length == TRACE_LINE_MOST)
			return err_set(e, EINVAL, "%s:%llu: %s; a routing trace is wanted", l->path,
				       (unsigned long long)l->number,
				       c ? "the line is too long" : "this is no text");
		l->line[length++] = c;
	}
	if (length && l->line[length - 1] == '\r')
		length--;
	l->line[length] = '\0';
	*line = l->line;
	return any;
}

uint64_t trace_lines_number(const struct trace_lines *l)
{
	return l->number;
}

int trace_lines_open(struct trace_lines **out, const char *path, struct err *e)
{
	static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd}; /* RFC 8878, 3.1.1 */
	struct trace_lines *l = calloc(1, sizeof *l);
	if (!l)
		return err_set(e, ENOMEM, "%s: out of memory", path);
	l->path = path;
	l->file = fopen(path, "rbe");
	int failed = l->file ? read_piece(l, e) : err_sys(e, errno, "%s: cannot be opened", path);
	if (!failed && l->in.size >= sizeof magic && !memcmp(l->read, magic, sizeof magic)) {
		l->zstd = ZSTD_createDStream();
		if (!l->zstd)
			failed = err_set(e, ENOMEM, "%s: out of memory", path);
	}
	if (failed)
		trace_lines_close(l);
	else
		*out = l;
	return failed;
}

void trace_lines_close(struct trace_lines *l)
{
	if (!l)
		return;
	ZSTD_freeDStream(l->zstd); /* NULL is fine */
	if (l->file)
		(void)fclose(l->file);
	free(l);
}
