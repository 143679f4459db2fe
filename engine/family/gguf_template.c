#include "engine/family/gguf_template.h"

#include "engine/source/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY "tokenizer.chat_template"

/* Terminated; NULL without the key. */
static int read_template(const struct gguf *g, const char *key, const char *name, char **out,
			 struct err *e)
{
	const char *text;
	size_t n;
	*out = NULL;
	if (!gguf_has(g, key))
		return 0;
	int rc = gguf_get_string(g, key, name, &text, &n, e);
	if (rc < 0)
		return rc;
	if (n > TEMPLATE_BYTES_MAX || memchr(text, 0, n))
		return err_set(e, EINVAL, "%s: %s must be a text without NULs of at most %d bytes",
			       name, key, TEMPLATE_BYTES_MAX);
	*out = strndup(text, n);
	return *out ? 0 : err_set(e, ENOMEM, "%s: no memory for its chat template", name);
}

int source_template_open(struct chat_template **out, const char *path, const struct tokenizer *t,
			 struct err *e)
{
	struct gguf *g;
	char *plain = NULL, *with_tools = NULL;
	if (!gguf_is(path))
		return chat_template_open(out, path, t, e);
	int rc = gguf_open(&g, path, 0, e);
	if (rc < 0)
		return rc;
	rc = read_template(g, KEY, path, &plain, e);
	if (rc == 0)
		rc = read_template(g, KEY ".tool_use", path, &with_tools, e);
	if (rc == 0)
		rc = chat_template_open_text(out, plain, with_tools, "GGUF " KEY, t, e);
	gguf_close(g);
	free(plain);
	free(with_tools);
	return rc;
}
