/* Messages as clients write them, in the tree's form: what messages.json has, and nothing else. */
#ifndef MOEFS_FS_GATEWAY_BODY_MESSAGES_H
#define MOEFS_FS_GATEWAY_BODY_MESSAGES_H

#include "fs/gateway/problem.h"

#include <regex.h>

/* A list in OpenAI's form. *out is a new one, from which lines of system texts that fit `ignored`
 * (NULL: none) are taken. What cannot be given to a model is refused. */
int messages_take(struct json_object *list, const regex_t *ignored, struct json_object **out,
		  struct problem *p);
/* A text without the lines that fit; a new object. */
struct json_object *messages_without(const char *text, const regex_t *ignored);

#endif
