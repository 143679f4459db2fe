/* Conversations as text for the model: ChatML now, the checkpoint's own template later, behind the
 * same function. A model has chat if its tokenizer knows <|im_start|> and <|im_end|>. */
#ifndef MOEFS_ENGINE_TEXT_CHAT_H
#define MOEFS_ENGINE_TEXT_CHAT_H

#include "engine/text/tokenizer.h"

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };
const char *role_name(enum role r);

struct chat; /* a model's way to write conversations; immutable */
/* -ENOTSUP: the tokenizer has no ChatML tokens, in words. The tokenizer outlives the chat. */
int chat_open(struct chat **out, const struct tokenizer *t, struct err *e);
void chat_close(struct chat *c);

/* Appends the ids of one whole message: <|im_start|>role\ntext<|im_end|>\n. stop as in
 * tokenizer_encode. */
int chat_message(const struct chat *c, enum role role, const char *text, size_t length,
		 const _Atomic bool *stop, struct token_list *ids, struct err *e);
/* Appends what makes the model answer: <|im_start|>assistant\n */
int chat_answer_begin(const struct chat *c, struct token_list *ids, struct err *e);
/* Appends what closes an answer after the ids that the model generated (its end token not among
 * them): <|im_end|>\n */
int chat_answer_end(const struct chat *c, struct token_list *ids, struct err *e);
/* The token that ends an answer. */
uint32_t chat_end_token(const struct chat *c);

#endif
