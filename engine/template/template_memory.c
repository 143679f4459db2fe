/* A run: its memory, its work, its failure. */
#include "engine/template/template_value.h"

#include "engine/tokenizer/token.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct value run_fail(struct run *r, int code, const char *format, ...)
{
	char words[768];
	va_list args;
	if (!r->failed) {
		va_start(args, format);
		(void)vsnprintf(words, sizeof words, format, args);
		va_end(args);
		r->failed = true;
		if (code == EBADMSG)
			err_set(r->e, code, "%s", words);
		else
			err_set(r->e, code, "%s line %u: %s", r->name, r->line, words);
	}
	return (struct value){.kind = V_UNDEFINED};
}

bool run_work(struct run *r, uint64_t steps)
{
	if (r->failed)
		return false;
	if (steps > r->work_left)
		run_fail(r, EFBIG,
			 "the template takes more work than any conversation should need");
	else if (token_stop_asked(r->stop)) {
		r->failed = true;
		token_stop_error(r->e);
	} else
		r->work_left -= steps;
	return !r->failed;
}

struct block {
	struct block *next;
	size_t used, size;
	max_align_t bytes[];
};
enum { BLOCK_BYTES = 64 << 10 };

void *run_allocate(struct run *r, size_t bytes)
{
	size_t unit = sizeof(max_align_t), need = (bytes + unit - 1) / unit * unit;
	if (r->failed)
		return NULL;
	if (bytes > r->memory_left) {
		run_fail(r, EFBIG,
			 "the template takes more memory than any conversation should need");
		return NULL;
	}
	if (!r->blocks || need > r->blocks->size - r->blocks->used) {
		size_t size = need > BLOCK_BYTES / 4 ? need : BLOCK_BYTES;
		struct block *b = malloc(sizeof *b + size);
		if (!b) {
			run_fail(r, ENOMEM, "no memory to render it");
			return NULL;
		}
		*b = (struct block){.next = r->blocks, .size = size};
		r->blocks = b;
		r->memory_left -= size < r->memory_left ? size : r->memory_left;
	}
	void *p = (char *)r->blocks->bytes + r->blocks->used;
	r->blocks->used += need;
	return p;
}

void run_free(struct run *r)
{
	for (struct block *b = r->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	r->blocks = NULL;
}
