/* How model families write thoughts and tool calls: the syntax, described once for the splitter
 * (split.c), which reads calls, and for grammars (../grammar/grammar_calls.c), which allow only
 * well-formed calls.
 *
 * A form is a row of a table. It is recognised by words of the chat template that teaches it. Its
 * calls begin in one of up to FORM_WAYS_MAX ways. A way names the function that reads the calls and
 * the words (marks, keys, separators) that the function looks for. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_FORMS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_FORMS_H

#include "engine/answer/split_calls.h"

/* Objects in JSON: {NAME: a text, ARGUMENTS: an object, ID: a text}. */
struct json_words {
	const char *name; /* NULL: the only key is the name, and its value the arguments */
	const char *arguments[2];
	const char *id;	   /* NULL: none; taken from the answer if it is nine letters and digits */
	const char *fence; /* before the objects, or NULL */
	const char *end;   /* after the objects, unless the text ends there; or NULL */
	bool list;	   /* one object or a list of objects; else one object */
	bool may_end;	   /* `end` may be missing */
};
/* Functions in tags: FUNCTION name STOP, PARAMETER key STOP value PARAMETER_END, FUNCTION_END. */
struct tag_words {
	const char *function, *function_end;
	const char *parameter, *parameter_end;
	const char *end;      /* of the block around functions */
	const char *stop;     /* after a name or key: one byte, then attributes, then > */
	const char *as_text;  /* the attribute of values that are strings, or NULL */
	const char *as_value; /* the attribute of values that are JSON, or NULL */
	bool lines;	      /* values are on lines of their own */
	bool python;	      /* lists and objects may be written in Python's syntax */
};
/* A name and an object in JSON, between marks. */
struct named_words {
	const char *id;	       /* the mark between name and id, or NULL */
	const char *separator; /* before the object */
	const char *end;       /* after the object, unless the text ends there; or NULL */
	bool fenced;   /* the name may be a kind, followed by the name and a fenced object */
	bool numbered; /* the name is also the id: functions.NAME:0 */
};
/* Function calls in Python's syntax, or in Gemma's. */
struct python_words {
	const char *end;   /* after the calls, unless the text ends there; or NULL */
	const char *call;  /* before the name (Gemma) or after the name (Llama), or NULL */
	const char *quote; /* around strings; NULL: Python's quotes */
};

struct call_way;
/* Appends the calls at offset i, where the way's mark is, and returns the offset after the calls.
 * If the scan is then not SCAN_GOOD, the caller removes the appended calls. */
typedef size_t call_reader(struct split_scan *s, size_t i, const struct call_way *way,
			   const struct json *tools, struct calls *calls);

struct call_way {
	const char *begin;
	call_reader *read;
	const char *open, *close; /* before the first call and after the last; or NULL */
	bool line;		  /* only at the start of a line or the content, or after a call */
	bool whole;		  /* only if no content comes before */
	const struct json_words *json;
	const struct tag_words *tags;
	const struct named_words *named;
	const struct python_words *python;
};

enum { FORM_WAYS_MAX = 4, FORM_WORDS_MAX = 4 };
struct split_form {
	const char *name;
	const char *taught[FORM_WORDS_MAX]; /* templates of this form contain one of these */
	const char *think_begin, *think_end;
	struct call_way ways[FORM_WAYS_MAX]; /* ends where begin is NULL */
	const char *silent[FORM_WORDS_MAX];  /* marks that are not content */
	bool channels;			     /* messages in channels (split.c), without ways */
};

/* The form that a chat template teaches: Hermes and Qwen's if no other form's words occur in it. */
const struct split_form *split_form_of(const char *template_text, size_t n);
/* The form of this name, or NULL. For the name NULL: that of Hermes and Qwen. */
const struct split_form *split_form_named(const char *name);
/* The i-th form; NULL after the last. */
const struct split_form *split_form_at(size_t i);
/* Whether a token is a mark of the form, or part of one. Such a token is passed to the splitter as
 * text even if it is a control token. */
bool split_form_marks(const struct split_form *f, const char *token, size_t n);

/* ---- readers ---- */

/* JSON objects after the mark, one or a list. */
call_reader split_json_read_calls;
/* One or more JSON objects up to the end of the text. If the mark is only the first brace, each
 * object must name a tool of the request. */
call_reader split_json_read_answer;
/* A name between marks and a JSON object (DeepSeek, Kimi, Mistral). */
call_reader split_json_read_named;
/* Functions in tags: one or more between a mark and its end; one without such marks, whose name
 * must be a tool of the request; one of several in a block. */
call_reader tags_read_functions, tags_read_bare_function, tags_read_function;
/* A name, then keys and values in tags (GLM). */
call_reader tags_read_pairs;
/* NAME(KEY=VALUE, ...), several separated by commas or lines, perhaps in a list or a fence; Gemma's
 * NAME{KEY:VALUE, ...}. */
call_reader python_read_calls, python_read_brace_call;

/* Writes value[n] as JSON if it is a list or an object in Python's syntax and the schema accepts
 * it. False: it is not. */
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
