/* Chat templates: the part of Jinja2 that they use.
 *
 * The environment is that of transformers' apply_chat_template: trim_blocks, lstrip_blocks, no
 * autoescape, loop controls, {% generation %}, raise_exception, strftime_now, and tojson as
 * json.dumps writes. (The language: jinja.palletsprojects.com/templates.) Refused by name:
 * import, include, extends, block, do, autoescape.
 *
 * Templates are hostile: source, depth, work, memory and output are bounded, and every error is
 * a sentence with a line. An open template is immutable; any number of threads may render it. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_H

#include "cache/err.h"
#include "engine/json/json.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
	TEMPLATE_BYTES_MAX = 1 << 20, /* the largest published one has 20 KB */
	TEMPLATE_OUTPUT_MAX = 64 << 20,
};

/* The origin of a byte of the rendered text. Only the template's bytes may become control
 * tokens. */
enum template_from {
	FROM_TEMPLATE,	/* and values of variables named *_token */
	FROM_TEXT,	/* from users, systems and tools */
	FROM_ASSISTANT, /* from the model */
};

struct template;

/* Compiles a template. `name` is for errors and must live as long as the template. -EINVAL: not
 * a template, with the line; -ENOTSUP: an unknown tag; -EFBIG. */
int template_open(struct template **out, const char *text, size_t n, const char *name,
		  struct err *e);
void template_close(struct template *t); /* NULL is fine */
/* Whether the template reads a variable of this name. */
bool template_reads(const struct template *t, const char *variable);

struct template_text { /* zero-initialised; freed by template_text_free */
	char *bytes;
	uint8_t *from; /* enum template_from, per byte */
	size_t length;
};
void template_text_free(struct template_text *t);

/* Renders with the members of an object as variables; others are undefined. strftime_now reads
 * `clock`. -EBADMSG: the template called raise_exception, and the error is its message alone;
 * -EINVAL: it cannot be rendered with these variables, with the line; -EFBIG: a limit was
 * reached; -ECANCELED: *stop. */
int template_render(const struct template *t, const struct json *variables, const struct tm *clock,
		    const _Atomic bool *stop, struct template_text *out, struct err *e);

#endif
