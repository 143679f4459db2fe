/* Tool calls in tags: Qwen's functions, and what is like them in other families. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_TAGS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_TAGS_H

#include "engine/answer/split_forms.h"

/* Readers, as call_reader of split_forms.h. Functions, one or more, behind a mark and before its
 * end; a function that stands alone, of a tool on offer; one of several in a block. */
call_reader read_functions, read_bare_function, read_function;

#endif
