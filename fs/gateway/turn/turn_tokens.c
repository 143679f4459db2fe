/* How many tokens a model would read: see turn_tokens in turn.h. */
#include "fs/gateway/turn/client.h"
#include "fs/gateway/turn/turn_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Looking loads nothing: who must know asks for it. */
static int load(struct turn *t, int client, struct problem *p)
{
	enum { LOOK_MS = 50 };
	char verb[NAME_MAX + 8], state[32] = "";
	(void)snprintf(verb, sizeof verb, "load %s\n", t->session.model);
	int code = tree_write(turn_tree(t), verb, strlen(verb), "ctl");
	if (code)
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "the model cannot be loaded: %s",
				   strerror(-code));
	while (strcmp(state, "ready") != 0) {
		if (client_wait(client, NULL, 0, LOOK_MS) < 0)
			return problem_set(p, PROBLEM_GONE, NULL, "the client has gone away");
		tree_line(turn_tree(t), state, sizeof state, "%s/info/state", t->session.model);
		if (!strcmp(state, "failed") || !*state)
			return turn_refused(t, -EIO, NULL, p);
	}
	return 0;
}

int turn_tokens(struct turn *t, int client, uint64_t *tokens, struct problem *p)
{
	struct text number = {0};
	int code = -EAGAIN;
	for (int i = 0; i < 2 && code == -EAGAIN; i++) {
		if (i && load(t, client, p)) {
			text_free(&number);
			return -1;
		}
		text_cut(&number, 0);
		code = tree_read(turn_tree(t), &number, "%s/sessions/%s/rendered_tokens",
				 t->session.model, t->session.name);
	}
	text_add(&number, "", 1);
	*tokens = number.data ? strtoull(number.data, NULL, 10) : 0;
	text_free(&number);
	return code ? turn_refused(t, code, NULL, p) : 0;
}
