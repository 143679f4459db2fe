/* How conversations are written for a model: with its checkpoint's templates, or as ChatML if there
 * are none.
 *
 * Sources: chat_template.jinja; "chat_template" of tokenizer_config.json, a text or a list of
 * {"name", "template"}, of which "default" and "tool_use" count; the keys of a GGUF file, from
 * the caller. */
#ifndef MOEFS_ENGINE_TEMPLATE_CHAT_TEMPLATE_H
#define MOEFS_ENGINE_TEMPLATE_CHAT_TEMPLATE_H

#include "engine/template/chat_messages.h"
#include "engine/answer/split_forms.h"
#include "engine/template/template.h"
#include "engine/tokenizer/tokenizer.h"

struct chat_template; /* immutable; any number of threads may use it */

/* Opens a directory's template; ChatML if there is none and the tokenizer has its tokens. The
 * tokenizer must outlive it. -ENODATA: neither, in words. */
int chat_template_open(struct chat_template **out, const char *directory, const struct tokenizer *t,
		       struct err *e);
/* Opens a template that the caller has read. `with_tools` is used if there are tools, and may be
 * NULL. Both NULL: ChatML. `origin` is its name in errors and for chat_template_origin. */
int chat_template_open_text(struct chat_template **out, const char *text, const char *with_tools,
			    const char *origin, const struct tokenizer *t, struct err *e);
void chat_template_close(struct chat_template *c); /* NULL is fine */

/* Its source: a file with the key, or "ChatML". */
const char *chat_template_origin(const struct chat_template *c);
/* Whether any of the templates reads a variable that the caller may set. */
bool chat_template_reads(const struct chat_template *c, const char *variable);

/* Whether a token ends an answer in this form, besides those that the tokenizer knows. */
bool chat_template_ends(const struct chat_template *c, uint32_t id);
/* Whether the template that is used with tools reads the tool calls of earlier answers. */
bool chat_template_writes_calls(const struct chat_template *c);
/* How the model writes thoughts and calls, by the words of the template; `tools`: whether there
 * are tools. For split_set_form. */
const struct split_form *chat_template_form(const struct chat_template *c, bool tools);
/* For a form with both ways: whether the template teaches calls as functions in tags, not as
 * JSON. */
bool chat_template_tags(const struct chat_template *c);

/* Input of a rendering. */
struct chat_input {
	const struct messages *messages;
	const struct json *tools;     /* NULL or empty: none */
	const struct json *variables; /* an object, or NULL: see chat_variables_check */
	const struct tm *clock;
	bool answer; /* add the text that makes the model answer */
};
/* -EINVAL: a name that the model sets itself (messages, tools, add_generation_prompt, *_token). */
int chat_variables_check(const struct json *variables, struct err *e);
/* Renders. out->from holds rights (enum token_right), one per byte. Errors as of
 * template_render. */
int chat_render(const struct chat_template *c, const struct chat_input *in,
		const _Atomic bool *stop, struct template_text *out, struct err *e);
/* Appends the ids of a rendered text. */
int chat_encode_text(const struct chat_template *c, const struct template_text *text,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e);
/* Renders and appends the ids. */
int chat_encode(const struct chat_template *c, const struct chat_input *in,
		const _Atomic bool *stop, struct token_list *ids, struct err *e);

#endif
