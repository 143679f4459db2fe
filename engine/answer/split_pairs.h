/* Tool calls as a name between marks: with keys and values (GLM), or with an object in JSON
 * (DeepSeek, Kimi, Mistral). */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_PAIRS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_PAIRS_H

#include "engine/answer/split_forms.h"

/* Readers, as call_reader of split_forms.h. */
call_reader read_pairs, read_named_call;

/* What read_pairs knows. */
#define PAIRS_KEY "<arg_key>"
#define PAIRS_KEY_END "</arg_key>"
#define PAIRS_VALUE "<arg_value>"
#define PAIRS_VALUE_END "</arg_value>"
#define PAIRS_END "</tool_call>"
#define PAIRS_SEPARATOR "<tool_sep>"
#define PAIRS_MARKS PAIRS_KEY PAIRS_KEY_END PAIRS_VALUE PAIRS_VALUE_END PAIRS_END PAIRS_SEPARATOR

#endif
