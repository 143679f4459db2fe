/* The table that is the tree.
 *
 * To add a file, add a row: nothing else in fs/ lists the files. MOUNT/README is made from these
 * rows. */
#include "fs/tree/rows.h"
#include "fs/files/files.h"
#include "fs/files/verbs.h"

/* Columns: name, folder, mode, caching, effect, flags, and then what the file does. */
#define FOLDER(n, i, m, ...)                                               \
	{                                                                  \
		.name = (n), .in = (i), .mode = S_IFDIR | (m), __VA_ARGS__ \
	}
#define FILE_ROW(n, i, m, c, w, f, ...)                                                \
	{                                                                              \
		.name = (n), .in = (i), .mode = S_IFREG | (m), .caching = CACHING_##c, \
		.effect = EFFECT_##w, .flags = (f), __VA_ARGS__                        \
	}
#define FACT(n, number, text)                                                                  \
	FILE_ROW(n, FOLDER_INFO, 0444, LIVE, NONE, 0, .ops = &live_ops, .render = fact_render, \
		 .fact = (number), .about = (text))

/* A session's texts in JSON, each in default's way. */
#define TEXT_ROW(n, m, w, what, ...)                                                      \
	FILE_ROW(n, FOLDER_SESSION, m, LIVE, w, ROW_GATED | ROW_IN_MODEL, .fact = (what), \
		 .most = CONVERSATION_TEXT_MOST, .render = conversation_text_render, __VA_ARGS__)
#define RENDERED(n, what, text)                                                                 \
	FILE_ROW(n, FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL, .fact = (what), \
		 .ops = &rendered_ops, .about = (text))

/* clang-format off */
const struct row rows[] = {
	[FOLDER_ROOT] =
	FOLDER("", FOLDER_NONE, 0755, .about = ""),
	[FOLDER_CACHE] =
	FOLDER("cache", FOLDER_ROOT, 0755, .about = "one pool of experts for all models"),
	[FOLDER_MODEL] =
	FOLDER("MODEL", FOLDER_ROOT, 0755, .family = &model_family, .hooks = &model_hooks,
	       .about = "a mounted model, named after its folder or file"),
	[FOLDER_SESSIONS] =
	FOLDER("sessions", FOLDER_MODEL, S_ISVTX | 0777,
	       .about = "mkdir begins a conversation, rmdir ends it, mv renames it"),
	[FOLDER_ASKS] =
	FOLDER("ask.d", FOLDER_MODEL, S_ISVTX | 0777,
	       .about = "conversations by name, for shells without <>"),
	[FOLDER_SESSION] =
	FOLDER("NAME", FOLDER_SESSIONS, 0700, .family = &session_family,
	       .about = "a conversation; `default` is the one in MODEL"),
	[FOLDER_PARAMS] =
	FOLDER("params", FOLDER_SESSION, 0700, .about = "how this session answers, from its next turn on"),
	[FOLDER_INFO] =
	FOLDER("info", FOLDER_MODEL, 0755, .about = "facts about the model"),
	[FOLDER_EXPERTS] =
	FOLDER("experts", FOLDER_MODEL, 0755, .about = "the experts, and which of them are in memory"),
	[FOLDER_LAYER] =
	FOLDER("LL", FOLDER_EXPERTS, 0755, .flags = ROW_FRESH, .family = &layer_family,
	       .hooks = &layer_hooks,
	       .about = "a layer's experts (none where the layer is dense); chmod +t pins all"),
	[FOLDER_TOKENIZER] =
	FOLDER("tokenizer", FOLDER_MODEL, 0755, .about = "from text to tokens and back, without weights"),
	[FOLDER_TENSORS] =
	FOLDER("tensors", FOLDER_MODEL, 0755, .is_prepared = tensors_are_prepared, .prepare = tensors_prepare,
	       .about = "the checkpoint's tensors by their names"),

	FILE_ROW("README", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = readme_render, .about = "this text"),
	FILE_ROW("version", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = version_render, .about = "of moefs"),
	FILE_ROW("pid", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = pid_render, .about = "the process that serves this mount"),
	FILE_ROW("ctl", FOLDER_ROOT, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &mount_ctl_ops, .render = verbs_render, .verbs = &mount_verbs,
		 .about = "the first two with a model's NAME"),
	FILE_ROW("error", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = mount_error_render,
		 .about = "models that are not mounted, and the last failure, in words: yours, a "
			  "model's or the store's"),
	FILE_ROW("error.json", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = mount_error_json_render,
		 .about = "the same as JSON: code, message, numbers; not_mounted"),

	FILE_ROW("budget", FOLDER_CACHE, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &live_ops, .render = budget_render, .set = budget_set,
		 .about = "bytes of memory for experts; auto: what is free"),
	FILE_ROW("context_budget", FOLDER_CACHE, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &live_ops, .render = context_budget_render, .set = context_budget_set,
		 .about = "bytes of memory for contexts; auto: an eighth of what is free"),
	FILE_ROW("policy", FOLDER_CACHE, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &live_ops, .render = policy_render, .set = policy_set,
		 .about = "which expert makes room: scales lrfu lfu lru [no-shield] [no-prefetch]"),
	FILE_ROW("waiting", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = waiting_render,
		 .about = "who waits for the disk now, and how long each token did"),
	FILE_ROW("warming", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = warming_render,
		 .about = "idle, or experts read ahead because they were hot in the last mount"),
	FILE_ROW("stats", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = facts_render, .facts = cache_stats_list, .about = "what the cache has done"),
	FILE_ROW("stats.json", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = facts_json_render, .facts = cache_stats_list, .about = "the same as JSON"),

	FILE_ROW("ask", FOLDER_MODEL, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &ask_question,
		 .about = "one private conversation per open file: write, then read"),
	FILE_ROW("NAME", FOLDER_ASKS, 0600, STREAM, RELEASE, ROW_GATED | ROW_TELLS | ROW_PASSING,
		 .family = &ask_family, .ops = &ask_d_ops, .grows = session_answer,
		 .about = "write it, close it, then read the answer; gone when read to its end"),
	FILE_ROW("score", FOLDER_MODEL, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &score_question,
		 .about = "write a text, read each token's id, log-probability and spelling, then mean and "
			  "perplexity"),
	FILE_ROW("encode", FOLDER_TOKENIZER, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &encode_question,
		 .about = "write a text, read the ids of its tokens, one a line"),
	FILE_ROW("decode", FOLDER_TOKENIZER, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &decode_question,
		 .about = "write ids, read their text"),
	FILE_ROW("config.json", FOLDER_MODEL, 0444, STATIC, NONE, 0,
		 .ops = &config_ops, .about = "the checkpoint's, as it is on disk"),

	FILE_ROW("prompt", FOLDER_SESSION, 0600, LIVE, RELEASE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &prompt_ops, .render = prompt_render,
		 .about = "a turn, submitted when its writer closes it; reads as the last one"),
	FILE_ROW("output", FOLDER_SESSION, 0600, STREAM, NONE, ROW_GATED | ROW_IN_MODEL | ROW_TELLS,
		 .ops = &output_ops, .grows = session_answer,
		 .about = "the answer, as it is generated"),
	FILE_ROW("thoughts", FOLDER_SESSION, 0600, STREAM, NONE,
		 ROW_GATED | ROW_IN_MODEL | ROW_TELLS | ROW_REPEATS,
		 .ops = &output_ops, .grows = session_thoughts,
		 .about = "what the model thought before it, likewise"),
	FILE_ROW("logprobs.jsonl", FOLDER_SESSION, 0600, STREAM, NONE, ROW_GATED | ROW_TELLS,
		 .ops = &output_ops, .grows = session_logprobs,
		 .about = "the answer's tokens, each with its log-probability and the likeliest others "
			  "(params/logprobs)"),
	FILE_ROW("log", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &log_ops, .about = "the whole conversation so far (tail -f)"),
	FILE_ROW("status", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &news_ops, .render = status_render,
		 .about = "idle loading queued prompting generating done stopped error"),
	FILE_ROW("wait", FOLDER_SESSION, 0600, STREAM, NONE, ROW_GATED | ROW_IN_MODEL | ROW_TELLS,
		 .ops = &wait_ops, .render = status_render,
		 .about = "the same word, once the session has stopped working"),
	FILE_ROW("error", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &news_ops, .render = session_error_render,
		 .about = "why the last turn failed, or the last write was refused, in words; else empty"),
	FILE_ROW("error.json", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &news_ops, .render = session_error_json_render,
		 .about = "the same as JSON: code, message, numbers; {} for none"),
	FILE_ROW("ctl", FOLDER_SESSION, 0600, LIVE, EACH_WRITE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &ctl_ops, .render = verbs_render, .verbs = &session_verbs,
		 .about = "the last three with params: retry temperature=0.8"),
	FILE_ROW("stats", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &live_ops, .render = facts_render, .facts = session_stats_list,
		 .about = "tokens, speeds, cache hits and losses of the last turn"),
	FILE_ROW("stats.json", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &live_ops, .render = facts_json_render, .facts = session_stats_list,
		 .about = "the same as JSON"),
	TEXT_ROW("messages.json", 0600, ASSEMBLED, SESSION_MESSAGES,
		 .ops = &conversation_text_ops, .set = conversation_text_set,
		 .about = "the conversation as a list of messages; writing replaces it"),
	RENDERED("rendered", SESSION_RENDERED,
		 "what the model would read next, special tokens spelled out"),
	RENDERED("rendered_tokens", SESSION_RENDERED_TOKENS, "how many tokens that is"),
	TEXT_ROW("template.json", 0600, ASSEMBLED, SESSION_VARIABLES,
		 .ops = &conversation_text_ops, .set = conversation_text_set,
		 .about = "more variables for the model's template, an object"),
	TEXT_ROW("tools.json", 0600, ASSEMBLED, SESSION_TOOLS,
		 .ops = &conversation_text_ops, .set = conversation_text_set,
		 .about = "the functions on offer, a list as OpenAI's interface has it"),
	TEXT_ROW("tool_calls.json", 0600, NONE, SESSION_TOOL_CALLS,
		 .ops = &tool_calls_ops, .about = "the calls of the last answer, as they come"),
	TEXT_ROW("tool_result", 0600, EACH_WRITE, SESSION_TOOL_RESULTS,
		 .ops = &tool_result_ops,
		 .about = "a call's result, {\"tool_call_id\", \"content\"}; the last one submits them all"),
	FILE_ROW("state", FOLDER_SESSION, 0600, LIVE, ASSEMBLED, ROW_GATED,
		 .ops = &state_ops,
		 .about = "the whole session: cp out saves it, cp in restores or forks it"),
	FILE_ROW("VALUE", FOLDER_PARAMS, 0600, LIVE, EACH_WRITE, 0,
		 .family = &value_param_family,
		 .ops = &value_param_ops, .render = param_render, .set = param_set,
		 .about = "one number or word, checked when it is written"),
	FILE_ROW("TEXT", FOLDER_PARAMS, 0600, LIVE, ASSEMBLED, 0,
		 .family = &text_param_family,
		 .ops = &text_param_ops, .render = param_render, .set = param_set,
		 .about = "a text of any number of lines, taken when it is closed"),

	FACT("architecture", FACT_ARCHITECTURE, "the family of models"),
	FACT("layers", FACT_LAYERS, "how many"),
	FACT("hidden_size", FACT_HIDDEN_SIZE, "numbers per token between layers"),
	FACT("heads", FACT_HEADS, "query heads"),
	FACT("kv_heads", FACT_KV_HEADS, "key and value heads"),
	FACT("head_dim", FACT_HEAD_DIM, "numbers per head"),
	FACT("vocabulary", FACT_VOCABULARY, "different tokens"),
	FACT("experts", FACT_EXPERTS, "per routed layer"),
	FACT("experts_per_token", FACT_EXPERTS_PER_TOKEN, "that the router picks"),
	FACT("parameters", FACT_PARAMETERS, "all of them"),
	FACT("active_parameters", FACT_ACTIVE_PARAMETERS, "that one token passes through"),
	FACT("bits_per_weight", FACT_BITS_PER_WEIGHT, "of the store"),
	FACT("context", FACT_CONTEXT, "tokens that a session may hold"),
	FACT("context_bytes", FACT_CONTEXT_BYTES, "of memory that a session takes whose context is full"),
	FACT("max_prompt_bytes", FACT_MAX_PROMPT_BYTES, "beyond which a prompt is EFBIG"),
	FACT("defaults", FACT_DEFAULTS, "what params begin with, of generation_config.json and by -o, and what is ignored"),
	FACT("recipe", FACT_RECIPE,
	     "how the weights are stored; \"in place\": nowhere but in the checkpoint"),
	FACT("codec", FACT_CODEC, "by which experts are smaller on disk, to what share, and why"),
	FACT("source", FACT_SOURCE, "the checkpoint: its folder, or a GGUF file"),
	FACT("store", FACT_STORE,
	     "where they are stored, or what is kept of a checkpoint used in place"),
	FACT("state", FACT_STATE, "unloaded loading ready failed"),
	FACT("progress", FACT_PROGRESS, "of a conversion, of checking the checkpoint, of refining, or of warming"),
	FACT("template", FACT_TEMPLATE, "where its chat template comes from, or why it has none"),
	FACT("kernels", FACT_KERNELS, "the instruction set in use"),

	FILE_ROW("map", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = expert_map_render,
		 .about = "a line per layer, a character per expert: how hot, and whether resident"),
	FILE_ROW("stats", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = facts_render, .facts = expert_stats_list, .about = "the same as a table"),
	FILE_ROW("stats.json", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &live_ops, .render = facts_json_render, .facts = expert_stats_list, .about = "the table as JSON"),
	FILE_ROW("trace", FOLDER_EXPERTS, 0444, STREAM, NONE, 0,
		 .ops = &trace_ops,
		 .about = "a line per token and layer while the model works: the experts picked, "
			  "a star on what was read"),
	FILE_ROW("ctl", FOLDER_EXPERTS, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &expert_ctl_ops, .render = verbs_render, .verbs = &expert_verbs,
		 .about = "each with experts as 00/017 or 0[0-3]/*"),
	FILE_ROW("EEE", FOLDER_LAYER, 0444, STATIC, NONE, ROW_FRESH,
		 .family = &expert_family, .ops = &expert_ops, .hooks = &expert_hooks,
		 .about = "an expert: its stored bytes; its blocks are those in memory (ls -s), its "
			  "access time is its last use (ls -lu); chmod +t pins it"),
	FILE_ROW("NAME.npy", FOLDER_TENSORS, 0444, STATIC, NONE, 0,
		 .family = &tensor_family, .ops = &tensor_ops, .hooks = &tensor_hooks,
		 .about = "the numbers that are computed with, as a NumPy file of 32-bit floats"),
};
/* clang-format on */

const size_t row_count = sizeof rows / sizeof *rows;
_Static_assert(sizeof rows / sizeof *rows < 256, "an inode number has 8 bits for the row");
