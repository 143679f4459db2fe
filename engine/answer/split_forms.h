/* How families write thoughts and tool calls: each form is a row, known by words of the templates
 * that teach it, and its calls begin in one of a few ways, each read by a function that has the
 * family's words for it. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_FORMS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_FORMS_H

#include "engine/answer/split_calls.h"

/* Objects in JSON: {NAME: a text, ARGUMENTS: an object, ID: a text}. */
struct json_words {
	const char *name; /* NULL: the only key is the name, and its value the arguments */
	const char *arguments[2];
	const char *id;	   /* NULL: none; it is carried if it is nine letters and digits */
	const char *fence; /* stands before them, or NULL */
	const char *end;   /* stands behind, unless the text ends; or NULL */
	bool list;	   /* a list of objects, or one */
	bool may_end;	   /* `end` may be left out */
};
/* Functions in tags: FUNCTION name STOP, PARAMETER key STOP value PARAMETER_END, FUNCTION_END. */
struct tag_words {
	const char *function, *function_end;
	const char *parameter, *parameter_end;
	const char *end;      /* of what functions stand in */
	const char *stop;     /* behind a name or key: one byte, then perhaps attributes, then > */
	const char *as_text;  /* an attribute, by which a value is a text, or NULL */
	const char *as_value; /* an attribute, by which a value is JSON, or NULL */
	bool lines;	      /* values stand on lines of their own */
	bool python;	      /* lists and objects may be Python's */
};
/* A name and an object in JSON, between marks. */
struct named_words {
	const char *id;	       /* a mark between name and id, or NULL */
	const char *separator; /* before the object */
	const char *end;       /* behind it, unless the text ends; or NULL */
	bool fenced;	       /* name may be a kind, and a name and the object in a fence follow */
	bool numbered;	       /* the name is the id as well: functions.NAME:0 */
};
/* Functions as Python calls them, or between marks of a family's own. */
struct python_words {
	const char *end;   /* stands behind, unless the text ends; or NULL */
	const char *call;  /* stands before a name, or behind it, or NULL */
	const char *quote; /* NULL: Python's quotes */
};

struct call_way;
/* Appends the calls that begin at i, where the way's mark stands, and returns the place behind
 * them; on a scan that is not good what was appended is cut off by the caller. */
typedef size_t call_reader(struct scan *s, size_t i, const struct call_way *way,
			   const struct json *tools, struct calls *calls);

struct call_way {
	const char *begin;
	call_reader *read;
	const char *open, *close; /* before the first call and behind the last; or NULL */
	bool line;		  /* at the start of a line or the content, or behind a call */
	bool whole;		  /* only where there is no content before */
	const struct json_words *json;
	const struct tag_words *tags;
	const struct named_words *named;
	const struct python_words *python;
};

enum { FORM_WAYS_MAX = 4, FORM_WORDS_MAX = 4 };
struct split_form {
	const char *name;
	const char *taught[FORM_WORDS_MAX]; /* its templates have one of these */
	const char *think_begin, *think_end;
	struct call_way ways[FORM_WAYS_MAX]; /* ends where begin is NULL */
	const char *silent[FORM_WORDS_MAX];  /* marks that are no content */
	bool channels;			     /* messages in channels, see split.c; no ways */
};

/* The form that a template teaches: of Hermes and Qwen, if it spells none of the others' words. */
const struct split_form *split_form_of(const char *template_text, size_t n);
/* By its name; NULL: none. NULL: that of Hermes and Qwen. */
const struct split_form *split_form_named(const char *name);
/* The i-th; NULL behind the last. */
const struct split_form *split_form_at(size_t i);
/* Whether a token is a mark of the form: it is to be given to the splitter as it is spelled, though
 * it is a control token. */
bool split_form_marks(const struct split_form *f, const char *token, size_t n);

/* ---- readers ---- */

/* JSON objects behind the mark, one or a list. */
call_reader split_json_read_calls;
/* One or more JSON objects that are all the rest of the text. If the mark is only the first brace,
 * each object must name a tool on offer. */
call_reader split_json_read_answer;
/* A name between marks and a JSON object (DeepSeek, Kimi, Mistral). */
call_reader split_json_read_named;
/* Functions in tags: one or more between a mark and its end; one that stands alone, of a tool on
 * offer; one of several in a block. */
call_reader tags_read_functions, tags_read_bare_function, tags_read_function;
/* A name, then keys and values in tags (GLM). */
call_reader tags_read_pairs;
/* NAME(KEY=VALUE, ...), several separated by commas or lines, perhaps in a list or a fence; Gemma's
 * NAME{KEY:VALUE, ...}. */
call_reader python_read_calls, python_read_brace_call;

/* If the schema asks for a list or an object and the value is one in Python: writes it as JSON.
 * False: it is not. */
bool python_write_by_schema(struct text_out *out, const char *value, size_t n,
			    const struct json *schema);

/* Marks that tags_read_pairs knows. */
#define PAIRS_KEY "<arg_key>"
#define PAIRS_KEY_END "</arg_key>"
#define PAIRS_VALUE "<arg_value>"
#define PAIRS_VALUE_END "</arg_value>"
#define PAIRS_END "</tool_call>"
#define PAIRS_SEPARATOR "<tool_sep>"
#define PAIRS_MARKS PAIRS_KEY PAIRS_KEY_END PAIRS_VALUE PAIRS_VALUE_END PAIRS_END PAIRS_SEPARATOR

/* Marks of answers in channels (gpt-oss), see split.c. */
#define CHANNEL_START "<|start|>"
#define CHANNEL_END "<|end|>"
#define CHANNEL_RETURN "<|return|>"
#define CHANNEL_CALL "<|call|>"
#define CHANNEL_NAME "<|channel|>"
#define CHANNEL_CONSTRAIN "<|constrain|>"
#define CHANNEL_MESSAGE "<|message|>"

#endif
