/* A model's own way to write conversations: its checkpoint's templates, or ChatML where it has
 * none.
 *
 * Where they are: chat_template.jinja; "chat_template" of tokenizer_config.json, a text or a list
 * of
 * {"name", "template"}, of which "default" and "tool_use" count; a GGUF file's keys, from whoever
 * read it. */
#ifndef MOEFS_ENGINE_TEMPLATE_CHAT_TEMPLATE_H
#define MOEFS_ENGINE_TEMPLATE_CHAT_TEMPLATE_H

#include "engine/template/chat_messages.h"
#include "engine/answer/split_forms.h"
#include "engine/template/template.h"
#include "engine/tokenizer/tokenizer.h"

struct chat_template; /* immutable; any number of threads may use it */

/* Opens what a directory has; ChatML where it has none and the tokenizer has its tokens. The
 * tokenizer outlives it. -ENODATA: neither, in words. */
int chat_template_open(struct chat_template **out, const char *directory, const struct tokenizer *t,
		       struct err *e);
/* Opens one that somebody read: `with_tools` is used where there are tools, and may be NULL. Both
 * NULL: ChatML. `origin` is what errors and chat_template_origin call it. */
int chat_template_open_text(struct chat_template **out, const char *text, const char *with_tools,
			    const char *origin, const struct tokenizer *t, struct err *e);
void chat_template_close(struct chat_template *c); /* NULL is fine */

/* Where it comes from: a file, with the key, or "ChatML". */
const char *chat_template_origin(const struct chat_template *c);
/* Whether any of its templates reads a variable that it may be given. */
bool chat_template_reads(const struct chat_template *c, const char *variable);

/* Whether a token ends an answer by the form of conversations, beside those that the tokenizer
 * knows to end turns. */
bool chat_template_ends(const struct chat_template *c, uint32_t id);
/* Whether the template that is used with tools reads the tool calls of earlier answers. */
bool chat_template_writes_calls(const struct chat_template *c);
/* How the model writes thoughts and calls, by the words of the template that is used; `tools`:
 * whether there are any. For split_set_form. */
const struct split_form *chat_template_form(const struct chat_template *c, bool tools);
/* Of a form that has both, whether calls are taught as functions in tags, not as JSON. */
bool chat_template_tags(const struct chat_template *c);

/* What a conversation is rendered with. */
struct chat_input {
	const struct messages *messages;
	const struct json *tools;     /* NULL or empty: none */
	const struct json *variables; /* an object of more, or NULL: see chat_variables_check */
	const struct tm *clock;
	bool answer; /* what makes the model answer follows */
};
/* -EINVAL: a name that is the template's own (messages, tools, add_generation_prompt, *_token). */
int chat_variables_check(const struct json *variables, struct err *e);
/* Renders; out->from is left as rights (enum token_right), one a byte. Errors as of
 * template_render. */
int chat_render(const struct chat_template *c, const struct chat_input *in,
		const _Atomic bool *stop, struct template_text *out, struct err *e);
/* Appends the ids of what chat_render gave. */
int chat_encode_text(const struct chat_template *c, const struct template_text *text,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e);
/* Renders and appends the ids. */
int chat_encode(const struct chat_template *c, const struct chat_input *in,
		const _Atomic bool *stop, struct token_list *ids, struct err *e);

#endif
