/* The interface of grammars: from a request to rules, from rules to a machine. */
#include "engine/grammar/grammar_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling ---- */

struct grammar_compilation {
	const struct grammar_request *r;
	struct grammar_build b;
	struct schema_rules schemas;
	struct json *schema; /* owned; parsed from the source */
};

static uint32_t grammar_form_expr(struct grammar_compilation *q)
{
	struct grammar_source *s = &q->b.source;
	struct err e;
	switch (q->r->form) {
	case FORM_JSON:
		return expr_either(s, json_rule_call(&q->schemas.json, JSON_RULE_OBJECT),
				   json_rule_call(&q->schemas.json, JSON_RULE_LIST));
	case FORM_REGEX:
		return regex_expr(s, q->r->source, q->r->source_n, true, SPELL_PLAIN, "regex");
	case FORM_SCHEMA:
		if (json_parse_text(&q->schema, q->r->source, q->r->source_n, "schema", &e))
			return grammar_fail(s, EINVAL, "%s", e.text);
		q->schemas.root = q->schema;
		return schema_expr(&q->schemas, q->schema);
	default:
		return calls_none_expr(&q->b);
	}
}

static uint32_t grammar_content_expr(struct grammar_compilation *q)
{
	struct grammar_source *s = &q->b.source;
	enum grammar_choice choice = q->r->choice;
	bool tools = q->r->tools && json_count(q->r->tools);
	if (!tools && choice >= CHOICE_REQUIRED)
		return grammar_fail(s, EINVAL, "a tool must be called, but tools.json has none");
	uint32_t calls = tools && choice != CHOICE_NONE ? calls_expr(&q->b, &q->schemas) : NOTHING;
	if (choice >= CHOICE_REQUIRED)
		return calls;
	return expr_either(s, calls, grammar_form_expr(q));
}

/* The first rule: thoughts, then the content. */
static uint32_t grammar_text_expr(struct grammar_compilation *q)
{
	struct grammar_source *s = &q->b.source;
	uint32_t content = grammar_content_expr(q), any = content;
	if (q->r->thinking != THINKING_OFF && q->b.writes->channels)
		return grammar_fail(s, ENOTSUP,
				    "answers in channels (%s) cannot be constrained yet",
				    q->b.writes->name);
	/* Not if the model has no token that begins thoughts. */
	bool thinks = q->r->thinking == THINKING_OPEN ||
		      (q->r->thinking == THINKING_AUTO &&
		       calls_mark_is_token(&q->b, q->b.writes->think_begin));
	if (thinks) {
		uint32_t thoughts = until_expr(s, q->b.writes->think_end, NULL, false);
		uint32_t blank = expr_either(s, expr_bytes(s, '\t', '\n'),
					     expr_either(s, expr_word(s, "\r"), expr_word(s, " ")));
		uint32_t blanks = expr_repeat(s, blank, 0, 4);
		uint32_t begun = SEQUENCE(s, thoughts, blanks, content);
		/* No text is allowed before the mark, since after blanks the mark would be the only
		 * way to continue. */
		uint32_t first = calls_mark_expr(&q->b, q->b.writes->think_begin);
		any = q->r->thinking == THINKING_OPEN
			      ? begun
			      : expr_either(s, content, expr_then(s, first, begun));
	}
	return q->r->space ? expr_then(s, expr_word(s, " "), any) : any;
}

static int grammar_compile(struct grammar_compilation *q, struct machine *m, struct err *e)
{
	struct grammar_source *s = &q->b.source;
	struct grammar_nodes nodes = {0};
	grammar_source_init(s);
	q->b.request = q->r;
	q->b.writes = q->r->writes ? q->r->writes : split_form_named(NULL);
	q->schemas.s = q->schemas.json.s = s;
	if (q->r->source_n > GRAMMAR_MAX_SOURCE)
		grammar_fail(s, EFBIG, "the grammar has %zu bytes; at most %d are allowed",
			     q->r->source_n, GRAMMAR_MAX_SOURCE);
	uint32_t first = expr_new_rule(s);
	if (!s->failed)
		expr_set_rule(s, first, grammar_text_expr(q));
	schema_rules_finish(&q->schemas);
	if (s->failed && e)
		*e = s->error;
	int failed = s->failed ? s->failed : nodes_build(&nodes, s, e);
	schema_rules_free(&q->schemas);
	json_free(q->schema);
	grammar_source_free(s);
	return failed ? failed : machine_init(m, &nodes, e);
}

/* ---- life ---- */

int grammar_new(struct grammar **out, const struct grammar_request *r, struct err *e)
{
	struct grammar_compilation q = {.r = r};
	struct grammar *g = calloc(1, sizeof *g);
	if (!g)
		return err_set(e, ENOMEM, "out of memory for a grammar");
	g->mask_count = 1;
	for (uint32_t byte = 0; byte < 256; byte++)
		g->group_of[byte] = grammar_byte_group((uint8_t)byte);
	int failed = grammar_compile(&q, &g->machine, e);
	if (failed) {
		free(g);
		return failed;
	}
	pthread_mutex_init(&g->lock, NULL);
	*out = g;
	return 0;
}

void grammar_free(struct grammar *g)
{
	if (!g)
		return;
	mask_forget(g);
	free(g->masks);
	free(g->bits);
	free(g->exits);
	machine_free(&g->machine);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

int grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e)
{
	struct grammar_request r = {
		.form = form, .source = source, .source_n = n, .thinking = THINKING_OFF};
	struct grammar *g;
	int failed = grammar_new(&g, &r, e);
	if (!failed)
		grammar_free(g);
	return failed;
}

/* ---- reading ---- */

void grammar_begin(struct grammar *g, struct spots *p)
{
	pthread_mutex_lock(&g->lock);
	machine_begin(&g->machine, p);
	pthread_mutex_unlock(&g->lock);
}

bool grammar_read(struct grammar *g, struct spots *p, const char *bytes, size_t n)
{
	pthread_mutex_lock(&g->lock);
	bool goes_on = machine_read(&g->machine, p, bytes, n);
	pthread_mutex_unlock(&g->lock);
	return goes_on;
}

bool grammar_may_end(struct grammar *g, const struct spots *p)
{
	pthread_mutex_lock(&g->lock);
	bool may = machine_may_end(&g->machine, p);
	pthread_mutex_unlock(&g->lock);
	return may;
}

bool grammar_may_go_on(struct grammar *g, const struct spots *p)
{
	pthread_mutex_lock(&g->lock);
	bool may = machine_may_go_on(&g->machine, p);
	pthread_mutex_unlock(&g->lock);
	return may;
}

int grammar_failed(struct grammar *g, struct err *e)
{
	pthread_mutex_lock(&g->lock);
	int failed = machine_error(&g->machine, e);
	pthread_mutex_unlock(&g->lock);
	return failed;
}

static size_t grammar_machine_bytes(const struct machine *m)
{
	return m->row_room * sizeof *m->rows + m->set_room * sizeof *m->sets +
	       m->level_room * sizeof *m->levels + m->by_set_room * sizeof *m->by_set +
	       m->calls_room * sizeof *m->calls + m->stack_room * sizeof *m->stacks +
	       m->by_stack.room * sizeof *m->by_stack.slots +
	       (m->nodes.room + (size_t)m->nodes.count) * sizeof *m->nodes.nodes +
	       m->nodes.count * (5 * sizeof *m->seen);
}

size_t grammar_bytes(struct grammar *g)
{
	pthread_mutex_lock(&g->lock);
	size_t bytes = g->mask_bytes + grammar_machine_bytes(&g->machine);
	pthread_mutex_unlock(&g->lock);
	return bytes;
}
