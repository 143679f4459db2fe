/* ChatML, see chat.h. A message is written out as text and encoded as one, because text merges
 * across the seam: "user\n" followed by "\nHello" is not the tokens of both. What cuts are the
 * added tokens, so whole messages may be encoded one after the other.
 *
 * A message that spells <|im_end|> ends there, as with the checkpoint's own template: who writes
 * the conversation owns it. */
#include "engine/text/chat.h"

#include "engine/text/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN "<|im_start|>"
#define END "<|im_end|>"

struct chat {
	const struct tokenizer *tokenizer;
	uint32_t end_token;
};

static const char *const ROLE_NAMES[] = {
	[ROLE_SYSTEM] = "system", [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant"};

const char *role_name(enum role r)
{
	return ROLE_NAMES[r];
}

/* The id of a token that a text spells; being in the vocabulary alone does not make it one. -EINVAL
 * of the tokenizer: not even its bytes have tokens. */
static int spelled_token(const struct tokenizer *t, const char *text, uint32_t *id, struct err *e)
{
	struct token_list ids = {0};
	int rc = tokenizer_encode(t, text, strlen(text), NULL, &ids, e);
	bool found = rc == 0 && ids.count == 1 && (int64_t)ids.ids[0] == tokenizer_find(t, text);
	if (!found && (rc == 0 || rc == -EINVAL))
		rc = err_set(e, ENOTSUP,
			     "the tokenizer has no %s, which conversations are written with; turn "
			     "chat off to give the model text as it stands",
			     text);
	if (rc == 0)
		*id = ids.ids[0];
	token_list_free(&ids);
	return rc;
}

int chat_open(struct chat **out, const struct tokenizer *t, struct err *e)
{
	uint32_t begin, end;
	int rc = spelled_token(t, BEGIN, &begin, e);
	if (rc == 0)
		rc = spelled_token(t, END, &end, e);
	if (rc < 0)
		return rc;
	struct chat *c = malloc(sizeof *c);
	if (!c)
		return err_set(e, ENOMEM, "no memory for a chat");
	*c = (struct chat){t, end};
	*out = c;
	return 0;
}

void chat_close(struct chat *c)
{
	free(c);
}

int chat_message(const struct chat *c, enum role role, const char *text, size_t length,
		 const _Atomic bool *stop, struct token_list *ids, struct err *e)
{
	/* Checked alone first, so that an error names the offset in the writer's own text. */
	int rc = utf8_check(text, length, e);
	if (rc < 0)
		return rc;
	char head[64];
	int head_n = snprintf(head, sizeof head, BEGIN "%s\n", role_name(role));
	static const char TAIL[] = END "\n";
	size_t n = (size_t)head_n + length + sizeof TAIL - 1;
	char *written = length < SIZE_MAX - sizeof head - sizeof TAIL ? malloc(n) : NULL;
	if (!written)
		return err_set(e, ENOMEM, "no memory for a message of %zu bytes", length);
	memcpy(written, head, (size_t)head_n);
	if (length > 0)
		memcpy(written + head_n, text, length);
	memcpy(written + head_n + length, TAIL, sizeof TAIL - 1);
	rc = tokenizer_encode(c->tokenizer, written, n, stop, ids, e);
	free(written);
	return rc;
}

int chat_answer_begin(const struct chat *c, struct token_list *ids, struct err *e)
{
	static const char TEXT[] = BEGIN "assistant\n";
	return tokenizer_encode(c->tokenizer, TEXT, sizeof TEXT - 1, NULL, ids, e);
}

int chat_answer_end(const struct chat *c, struct token_list *ids, struct err *e)
{
	static const char TEXT[] = END "\n";
	return tokenizer_encode(c->tokenizer, TEXT, sizeof TEXT - 1, NULL, ids, e);
}

uint32_t chat_end_token(const struct chat *c)
{
	return c->end_token;
}
