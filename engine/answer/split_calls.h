/* Tool calls as they are taken out of an answer, and those that are written as JSON. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_CALLS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_CALLS_H

#include "engine/json/text_out.h"
#include "engine/answer/split_scan.h"

enum { CALLS_MAX = 1024, CALL_ID_MAX = 256 };

struct call {
	char *name; /* owned, NUL-terminated, and so is what follows */
	size_t name_n;
	char *arguments; /* a JSON object */
	size_t arguments_n;
	char *id; /* as the model wrote it; NULL where it wrote none, or one that came before */
	size_t id_n;
};
struct calls { /* zero-initialise; freed by calls_free */
	struct call *items;
	size_t count, room;
	bool failed; /* memory was out */
};
void calls_free(struct calls *c);
/* Forgets those behind the first `count`. */
void calls_cut(struct calls *c, size_t count);
/* Appends a call and takes its texts over. False: there are CALLS_MAX. */
bool calls_append(struct calls *c, struct text_out *name, struct text_out *arguments);
/* Gives the last one an id, unless it is too long or another has it. */
void calls_give_id(struct calls *c, const char *id, size_t n);
/* Whether an id is what Mistral's templates take: nine letters and digits. */
bool is_short_id(const char *id, size_t n);

struct call_way;
/* Readers, as call_reader of split_forms.h: of objects in JSON behind the mark, one or a list; */
size_t read_json_calls(struct scan *s, size_t i, const struct call_way *way,
		       const struct json *tools, struct calls *calls);
/* of one or more objects that are all the rest of the text, each naming a tool on offer if the
 * mark is no mark but the first brace itself. */
size_t read_json_answer(struct scan *s, size_t i, const struct call_way *way,
			const struct json *tools, struct calls *calls);

#endif
