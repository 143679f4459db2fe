/* error and error.json, of a session and of the mount: the last failures as sentences for people,
 * and as codes and numbers for programs. mount/failures.c decides which failures are recorded. */
#include "fs/files/files.h"
#include "fs/models/models.h"

#include <inttypes.h>
#include <string.h>

/* Why the session's last turn failed; false: it did not fail. If a turn waits for a model that
 * could not be loaded, the reason is the model's. */
static bool error_of_turn(const struct node *n, struct err *why)
{
	session_failure(n->conversation->session, why);
	if (!*why->text && model_state(n->model->model) == MODEL_FAILED)
		model_failure(n->model->model, why);
	return *why->text;
}

void error_session_render(const struct node *n, struct text *out)
{
	struct err why;
	if (error_of_turn(n, &why))
		text_format(out, "%s\n", why.text);
	if (n->conversation->refused)
		text_format(out, "%s\n", n->conversation->refused->text);
	if (n->conversation->denied)
		text_format(out, "%s\n", n->conversation->denied->text);
}

void error_mount_render(const struct node *n, struct text *out)
{
	models_watch(n->mount);
	text_add(out, n->mount->skipped.data, n->mount->skipped.length);
	const struct err *failure = failures_seen(n->mount, n->viewer);
	if (failure)
		text_format(out, "%s\n", failure->text);
	const struct err *denied = failures_denial_seen(n->mount, n->viewer);
	if (denied)
		text_format(out, "%s\n", denied->text);
}

/* ---- as JSON ---- */

/* Appends the members of a failure's object, without its braces. */
static void error_add_members(struct text *out, const struct err *why)
{
	text_string(out, "\"code\": ");
	text_json(out, err_word(why));
	text_string(out, ", \"message\": ");
	text_json(out, why->text);
	if (err_why(why)) {
		text_string(out, ", \"reason\": ");
		text_json(out, err_why(why));
	}
	text_string(out, ", \"numbers\": {");
	for (unsigned i = 0; i < ERR_NUMBERS && why->numbers[i].name; i++)
		text_format(out, "%s\"%s\": %" PRIu64, i ? ", " : "", why->numbers[i].name,
			    why->numbers[i].value);
	text_string(out, "}");
}

/* Appends the first of these failures as the object's members, and the later ones as members named
 * `refused` and `denied`. NULL: there is no such failure. False: there is none at all. */
static bool error_add_failures(struct text *out, const struct err *const why[3])
{
	static const char *const names[3] = {NULL, "refused", "denied"};
	bool begun = false;
	for (unsigned i = 0; i < 3; i++) {
		if (why[i] && begun)
			text_format(out, ",\n \"%s\": {", names[i]);
		if (why[i])
			error_add_members(out, why[i]);
		if (why[i] && begun)
			text_string(out, "}");
		begun |= why[i] != NULL;
	}
	return begun;
}

void error_session_json_render(const struct node *n, struct text *out)
{
	struct err why;
	const struct conversation *c = n->conversation;
	bool failed = error_of_turn(n, &why);
	text_string(out, "{");
	(void)error_add_failures(
		out, (const struct err *[]){failed ? &why : NULL, c->refused, c->denied});
	text_string(out, "}\n");
}

/* Appends each line as a string of a JSON list. */
static void error_add_lines(struct text *out, const struct text *lines)
{
	char line[sizeof((struct err *)0)->text];
	for (size_t at = 0, length; at < lines->length; at += length + 1) {
		const char *from = lines->data + at;
		length = (size_t)((const char *)memchr(from, '\n', lines->length - at) - from);
		size_t shown = length < sizeof line - 1 ? length : sizeof line - 1;
		memcpy(line, from, shown);
		line[shown] = 0;
		text_string(out, at ? ", " : "");
		text_json(out, line);
	}
}

void error_mount_json_render(const struct node *n, struct text *out)
{
	models_watch(n->mount);
	const struct mount *m = n->mount;
	text_string(out, "{");
	if (error_add_failures(out, (const struct err *[]){failures_seen(m, n->viewer), NULL,
							   failures_denial_seen(m, n->viewer)}))
		text_string(out, ",\n ");
	text_string(out, "\"not_mounted\": [");
	error_add_lines(out, &n->mount->skipped);
	text_string(out, "]}\n");
}
