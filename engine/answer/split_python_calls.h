/* Tool calls as Python writes them, and Gemma's, which are much like it. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_PYTHON_CALLS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_PYTHON_CALLS_H

#include "engine/answer/split_forms.h"

/* Readers, as call_reader of split_forms.h: NAME(KEY=VALUE, ...), several with commas or lines
 * between them, perhaps in a list or a fence; Gemma's NAME{KEY:VALUE, ...}. */
call_reader read_python_calls, read_brace_call;

#endif
