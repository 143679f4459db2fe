/* The table of the tree: one row for each kind of file or folder.
 *
 * To add a file, add a row: nothing else in fs/ lists the files. MOUNT/README and moefs(5) are made
 * from the rows, including .about. Session params have no rows of their own: the table in
 * engine/session/params.c has them, and the rows VALUE and TEXT show them (files/param_files.c). */
#include "fs/files/ctl.h"
#include "fs/files/files.h"
#include "fs/tree/tree.h"

/* Columns: name, folder, mode, caching, effect, flags; then named members of struct tree_row. */
#define FOLDER(n, i, m, ...)                                               \
	{                                                                  \
		.name = (n), .in = (i), .mode = S_IFDIR | (m), __VA_ARGS__ \
	}
#define FILE_ROW(n, i, m, c, w, f, ...)                                                \
	{                                                                              \
		.name = (n), .in = (i), .mode = S_IFREG | (m), .caching = CACHING_##c, \
		.effect = EFFECT_##w, .flags = (f), __VA_ARGS__                        \
	}
#define FACT(n, number, text)                                            \
	FILE_ROW(n, FOLDER_INFO, 0444, LIVE, NONE, 0, .ops = &value_ops, \
		 .render = model_fact_render, .fact = (number), .about = (text))

/* A session's texts in JSON. */
#define TEXT_ROW(n, m, w, what, ...)                                                      \
	FILE_ROW(n, FOLDER_SESSION, m, LIVE, w, ROW_GATED | ROW_IN_MODEL, .fact = (what), \
		 .most = CONVERSATION_TEXT_MOST, .render = conversation_text_render, __VA_ARGS__)
#define RENDERED(n, what, text)                                                                 \
	FILE_ROW(n, FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL, .fact = (what), \
		 .ops = &rendered_ops, .about = (text))

/* clang-format off */
const struct tree_row rows[] = {
	[FOLDER_ROOT] =
	FOLDER("", FOLDER_NONE, 0755, .about = ""),
	[FOLDER_CACHE] =
	FOLDER("cache", FOLDER_ROOT, 0755, .about = "the expert cache, shared by all models"),
	[FOLDER_GPU] =
	FOLDER("gpu", FOLDER_CACHE, 0755, .about = "the GPU, shared by all models (-o gpu=)"),
	[FOLDER_MODEL] =
	FOLDER("MODEL", FOLDER_ROOT, 0755, .family = &model_family, .hooks = &expert_model_hooks,
	       .about = "a mounted model, named after its folder or file"),
	[FOLDER_SESSIONS] =
	FOLDER("sessions", FOLDER_MODEL, S_ISVTX | 0777,
	       .about = "mkdir creates a session, rmdir ends it, mv renames it"),
	[FOLDER_ASKS] =
	FOLDER("ask.d", FOLDER_MODEL, S_ISVTX | 0777,
	       .about = "questions by name, for shells that cannot open a file with <>"),
	[FOLDER_EMBEDS] =
	FOLDER("embed.d", FOLDER_MODEL, S_ISVTX | 0777,
	       .about = "texts to embed by name, for shells that cannot open a file with <>"),
	[FOLDER_SESSION] =
	FOLDER("NAME", FOLDER_SESSIONS, 0700, .family = &session_family,
	       .about = "a session: one conversation; MODEL shows the files of `default`"),
	[FOLDER_PARAMS] =
	FOLDER("params", FOLDER_SESSION, 0700, .about = "the session's settings; a change applies from the next turn on"),
	[FOLDER_INFO] =
	FOLDER("info", FOLDER_MODEL, 0755, .about = "facts about the model"),
	[FOLDER_EXPERTS] =
	FOLDER("experts", FOLDER_MODEL, 0755, .about = "the experts, and which of them are in memory"),
	[FOLDER_LAYER] =
	FOLDER("LL", FOLDER_EXPERTS, 0755, .flags = ROW_FRESH, .family = &expert_layer_family,
	       .hooks = &expert_layer_hooks,
	       .about = "a layer's experts (a dense layer has none); chmod +t pins all of them"),
	[FOLDER_TOKENIZER] =
	FOLDER("tokenizer", FOLDER_MODEL, 0755, .about = "converts text to tokens and back; needs no weights"),
	[FOLDER_TENSORS] =
	FOLDER("tensors", FOLDER_MODEL, 0755, .is_prepared = model_tensors_are_listed, .prepare = model_tensors_list,
	       .about = "the checkpoint's tensors, by name"),

	[FOLDER_PREFIXES] =
	FOLDER("prefixes", FOLDER_MODEL, S_ISVTX | 0777,
	       .about = "what conversations have computed, kept for others that begin alike"),

	FILE_ROW("README", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = mount_readme_render, .about = "this text"),
	FILE_ROW("version", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = mount_version_render, .about = "the version of moefs"),
	FILE_ROW("pid", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = mount_pid_render, .about = "the id of the process that serves this mount"),
	FILE_ROW("kept", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = mount_kept_render,
		 .about = "the folder that keeps sessions when the mount ends (-o sessions=), or off"),
	FILE_ROW("ctl", FOLDER_ROOT, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &mount_ctl_ops, .render = ctl_verbs_render, .verbs = &mount_verbs,
		 .about = "NAME is a model's folder"),
	FILE_ROW("error", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = error_mount_render,
		 .about = "which models could not be mounted and why, and the last failure of a model, the "
			  "store or one of your requests"),
	FILE_ROW("error.json", FOLDER_ROOT, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = error_mount_json_render,
		 .about = "the same as JSON: code, message, numbers, not_mounted"),

	FILE_ROW("budget", FOLDER_CACHE, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &value_ops, .render = mount_budget_render, .set = mount_budget_set,
		 .about = "memory for experts, in bytes; auto: all that is free"),
	FILE_ROW("context_budget", FOLDER_CACHE, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &value_ops, .render = mount_context_budget_render, .set = mount_context_budget_set,
		 .about = "memory for contexts, in bytes; auto: an eighth of what is free"),
	FILE_ROW("policy", FOLDER_CACHE, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &value_ops, .render = mount_policy_render, .set = mount_policy_set,
		 .about = "which expert is evicted: scales lrfu lfu lru [no-shield] [no-prefetch]"),
	FILE_ROW("waiting", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = mount_waiting_render,
		 .about = "how many sessions wait for the disk now, the waiting time per token, and which turns are queued"),
	FILE_ROW("warming", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = mount_warming_render,
		 .about = "how far the experts that the last mount used most are read ahead, or idle"),
	FILE_ROW("stats", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = facts_render, .facts = mount_cache_stats_list, .about = "hits, misses, evictions, bytes read and waiting time"),
	FILE_ROW("stats.json", FOLDER_CACHE, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = facts_json_render, .facts = mount_cache_stats_list, .about = "the same as JSON"),

	FILE_ROW("budget", FOLDER_GPU, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &value_ops, .render = mount_gpu_budget_render, .set = mount_gpu_budget_set,
		 .about = "the GPU's memory for weights, contexts and experts, in bytes; auto: what is free, less 512M"),
	FILE_ROW("stats", FOLDER_GPU, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = facts_render, .facts = mount_gpu_stats_list,
		 .about = "the GPU that computes, or why there is none; its memory and what uses it, experts on it, hits"),
	FILE_ROW("stats.json", FOLDER_GPU, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = facts_json_render, .facts = mount_gpu_stats_list, .about = "the same as JSON"),

	FILE_ROW("ask", FOLDER_MODEL, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &ask_question,
		 .about = "one private session per open file: write a question, then read the answer"),
	FILE_ROW("NAME", FOLDER_ASKS, 0600, STREAM, RELEASE, ROW_GATED | ROW_TELLS | ROW_PASSING,
		 .family = &ask_family, .ops = &ask_d_ops, .grows = session_answer,
		 .about = "write a question, close the file, read the answer; disappears when read to its end"),
	FILE_ROW("score", FOLDER_MODEL, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &score_question,
		 .about = "write a text, read the id, log-probability and spelling of each token, then the "
			  "mean and the perplexity"),
	FILE_ROW("embed", FOLDER_MODEL, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &embed_question,
		 .about = "write a text, read its embedding: a line of numbers"),
	FILE_ROW("embed.npy", FOLDER_MODEL, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &embed_array_question,
		 .about = "write texts with a NUL byte between two, read their embeddings as a NumPy file"),
	FILE_ROW("NAME", FOLDER_EMBEDS, 0600, STREAM, RELEASE, ROW_GATED | ROW_TELLS | ROW_PASSING,
		 .family = &embed_family, .ops = &ask_d_ops, .grows = session_answer,
		 .about = "write a text, close the file, read its embedding; disappears when read to its end"),
	FILE_ROW("encode", FOLDER_TOKENIZER, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &encode_question,
		 .about = "write a text, read the ids of its tokens, one per line"),
	FILE_ROW("decode", FOLDER_TOKENIZER, 0666, STREAM, READ, 0,
		 .ops = &question_ops, .question = &decode_question,
		 .about = "write token ids, read their text"),
	FILE_ROW("config.json", FOLDER_MODEL, 0444, STATIC, NONE, 0,
		 .ops = &config_ops, .about = "the checkpoint's config.json, unchanged"),

	FILE_ROW("prompt", FOLDER_SESSION, 0600, LIVE, RELEASE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &prompt_ops, .render = prompt_render,
		 .about = "the next prompt, submitted when its writer closes the file; reading gives the last prompt"),
	FILE_ROW("output", FOLDER_SESSION, 0600, STREAM, NONE, ROW_GATED | ROW_IN_MODEL | ROW_TELLS,
		 .ops = &output_ops, .grows = session_answer,
		 .about = "the answer, while it is generated"),
	FILE_ROW("thoughts", FOLDER_SESSION, 0600, STREAM, NONE,
		 ROW_GATED | ROW_IN_MODEL | ROW_TELLS | ROW_REPEATS,
		 .ops = &output_ops, .grows = session_thoughts,
		 .about = "the model's thinking before the answer, while it is generated"),
	FILE_ROW("logprobs.jsonl", FOLDER_SESSION, 0600, STREAM, NONE, ROW_GATED | ROW_TELLS,
		 .ops = &output_ops, .grows = session_logprobs,
		 .about = "the tokens of the answer, each with its log-probability and the most likely "
			  "alternatives (set params/logprobs)"),
	FILE_ROW("log", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &output_log_ops, .about = "the conversation so far, as text (tail -f)"),
	FILE_ROW("status", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &polled_value_ops, .render = session_status_render,
		 .about = "one of idle loading queued prompting generating done stopped error"),
	FILE_ROW("wait", FOLDER_SESSION, 0600, STREAM, NONE, ROW_GATED | ROW_IN_MODEL | ROW_TELLS,
		 .ops = &output_wait_ops, .render = session_status_render,
		 .about = "the same word; reading waits until the turn has ended"),
	FILE_ROW("error", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &polled_value_ops, .render = error_session_render,
		 .about = "why the last turn failed or the last write was refused; otherwise empty"),
	FILE_ROW("error.json", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &polled_value_ops, .render = error_session_json_render,
		 .about = "the same as JSON: code, message, numbers; {} if nothing failed"),
	FILE_ROW("ctl", FOLDER_SESSION, 0600, LIVE, EACH_WRITE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &ctl_ops, .render = ctl_verbs_render, .verbs = &session_verbs,
		 .about = "answer, retry and continue also take params: retry temperature=0.8"),
	FILE_ROW("stats", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &value_ops, .render = facts_render, .facts = session_stats_list,
		 .about = "tokens, speeds, cache hits and lossy settings of the last turn"),
	FILE_ROW("stats.json", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &value_ops, .render = facts_json_render, .facts = session_stats_list,
		 .about = "the same as JSON"),
	TEXT_ROW("messages.json", 0600, ASSEMBLED, SESSION_MESSAGES,
		 .ops = &conversation_text_ops, .set = conversation_text_set,
		 .about = "the conversation as a list of messages; writing replaces the conversation"),
	FILE_ROW("why", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .ops = &value_ops, .render = conversation_text_render, .fact = SESSION_WHY,
		 .about = "how much of the last prompt was computed already, and what differs from then on"),
	RENDERED("rendered", SESSION_RENDERED,
		 "the text that the model would read next, with special tokens spelled out"),
	RENDERED("rendered_tokens", SESSION_RENDERED_TOKENS, "the number of tokens in rendered"),
	TEXT_ROW("template.json", 0600, ASSEMBLED, SESSION_VARIABLES,
		 .ops = &conversation_text_ops, .set = conversation_text_set,
		 .about = "additional variables for the model's chat template, an object"),
	TEXT_ROW("tools.json", 0600, ASSEMBLED, SESSION_TOOLS,
		 .ops = &conversation_text_ops, .set = conversation_text_set,
		 .about = "the tools that the model may call, a list in OpenAI's format"),
	FILE_ROW("choices", FOLDER_SESSION, 0600, LIVE, ASSEMBLED, ROW_GATED | ROW_IN_MODEL,
		 .fact = SESSION_CHOICES, .most = CHOICES_TEXT_MOST,
		 .ops = &conversation_text_ops, .render = conversation_text_render,
		 .set = conversation_text_set,
		 .about = "the texts of which an answer is one (set params/format to choices): one per line, or a JSON list"),
	FILE_ROW("choices.tsv", FOLDER_SESSION, 0600, LIVE, NONE, ROW_GATED | ROW_IN_MODEL,
		 .fact = SESSION_CHOSEN, .ops = &value_ops, .render = conversation_text_render,
		 .about = "how likely the last answer's choices were: probability, log-probability, text"),
	TEXT_ROW("tool_calls.json", 0600, NONE, SESSION_TOOL_CALLS,
		 .ops = &tool_calls_ops, .about = "the tool calls of the last answer, while they are generated"),
	TEXT_ROW("tool_result", 0600, EACH_WRITE, SESSION_TOOL_RESULTS,
		 .ops = &tool_result_ops,
		 .about = "the result of a tool call, {\"tool_call_id\", \"content\"}; the last missing result submits all of them"),
	FILE_ROW("plan", FOLDER_SESSION, 0600, STREAM, READ, ROW_GATED | ROW_IN_MODEL,
		 .ops = &plan_ops,
		 .about = "what a turn will cost: write a prompt and read the plan, through one open file; reading alone is "
			  "the next turn as it stands"),
	FILE_ROW("state", FOLDER_SESSION, 0600, LIVE, ASSEMBLED, ROW_GATED,
		 .ops = &state_ops,
		 .about = "the whole session: copy the file to save the session, write it back to restore or fork it"),
	FILE_ROW("VALUE", FOLDER_PARAMS, 0600, LIVE, EACH_WRITE, 0,
		 .family = &value_param_family,
		 .ops = &value_param_ops, .render = param_render, .set = param_set,
		 .about = "a number or word, checked at each write"),
	FILE_ROW("TEXT", FOLDER_PARAMS, 0600, LIVE, ASSEMBLED, 0,
		 .family = &text_param_family,
		 .ops = &text_param_ops, .render = param_render, .set = param_set,
		 .about = "a text of any number of lines, checked when the file is closed"),

	FACT("architecture", FACT_ARCHITECTURE, "the model family"),
	FACT("layers", FACT_LAYERS, "the number of layers"),
	FACT("hidden_size", FACT_HIDDEN_SIZE, "the size of a token's vector between layers"),
	FACT("heads", FACT_HEADS, "the number of query heads"),
	FACT("kv_heads", FACT_KV_HEADS, "the number of key and value heads"),
	FACT("head_dim", FACT_HEAD_DIM, "the size of a head's vector"),
	FACT("vocabulary", FACT_VOCABULARY, "the number of tokens in the vocabulary"),
	FACT("experts", FACT_EXPERTS, "experts per routed layer"),
	FACT("experts_per_token", FACT_EXPERTS_PER_TOKEN, "experts that the router picks for each token"),
	FACT("parameters", FACT_PARAMETERS, "the number of weights"),
	FACT("active_parameters", FACT_ACTIVE_PARAMETERS, "the number of weights that each token uses"),
	FACT("bits_per_weight", FACT_BITS_PER_WEIGHT, "bits per weight in the store"),
	FACT("context", FACT_CONTEXT, "the longest conversation, in tokens"),
	FACT("context_bytes", FACT_CONTEXT_BYTES, "memory of a session whose context is full, in bytes"),
	FACT("kv", FACT_KV, "what keys and values are kept in (-o kv=), and what a full context would take in another"),
	FACT("max_prompt_bytes", FACT_MAX_PROMPT_BYTES, "the longest prompt, in bytes; longer ones are EFBIG"),
	FACT("defaults", FACT_DEFAULTS, "the params' defaults from generation_config.json and -o, and which keys are ignored"),
	FILE_ROW("params.json", FOLDER_INFO, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = model_params_render,
		 .about = "the params as JSON: label, help, type, choices, bounds and this model's default of each"),
	FILE_ROW("examples", FOLDER_INFO, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = model_examples_render,
		 .about = "questions to begin with, one per line: the checkpoint's examples.txt"),
	FACT("recipe", FACT_RECIPE,
	     "how the weights are stored, and by which rule if no recipe was named; \"in place\": only in the checkpoint"),
	FACT("loss", FACT_LOSS,
	     "how far the store's predictions are from the checkpoint's: divergence (nats a token), its error, the share of equal best tokens"),
	FACT("codec", FACT_CODEC, "how experts are compressed on disk, to what share of their size, and why"),
	FACT("source", FACT_SOURCE, "the checkpoint: a folder or a GGUF file"),
	FACT("store", FACT_STORE,
	     "the folder of the store, or of what is kept for a checkpoint used in place"),
	FACT("state", FACT_STATE, "one of unloaded loading ready failed"),
	FACT("progress", FACT_PROGRESS, "progress of a conversion, of checking the checkpoint, of refining or of warming; else idle"),
	FACT("template", FACT_TEMPLATE, "where the chat template comes from, or why there is none"),
	FACT("embedding", FACT_EMBEDDING, "how embeddings are made: pooling, normalisation, and what says so"),
	FILE_ROW("kernels", FOLDER_INFO, 0444, LIVE, NONE, 0,
		 .ops = &kernels_ops, .render = model_fact_render, .fact = FACT_KERNELS,
		 .about = "the kernels in use, the GPU kernels in the program, the GPU that was found, and which of them computes the model"),
	FACT("left_out", FACT_LEFT_OUT, "what of the checkpoint is not used: what names begin with, tensors, bytes; or none. Known once the model is loaded"),
	FACT("ngrams", FACT_NGRAMS, "tables of n-grams, read where they were published: bytes, how many of these are in memory, rows read and waited for; or none"),

	FILE_ROW("map", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = expert_map_render,
		 .about = "one line per layer, one character per expert: how often the expert is used, and whether it is in memory or on the GPU"),
	FILE_ROW("heat.svg", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = expert_picture_render,
		 .about = "the same as a picture, for a browser: a cell for each expert, by use, in memory, on the GPU or neither, pinned"),
	FILE_ROW("stats", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = facts_render, .facts = expert_stats_list, .about = "residency, pins, hits, misses and last use of each expert, as a table"),
	FILE_ROW("stats.json", FOLDER_EXPERTS, 0444, LIVE, NONE, 0,
		 .ops = &value_ops, .render = facts_json_render, .facts = expert_stats_list, .about = "the table as JSON"),
	FILE_ROW("trace", FOLDER_EXPERTS, 0444, STREAM, NONE, 0,
		 .ops = &trace_ops,
		 .about = "while the model works, a line per token and layer: the experts that the router "
			  "picked, with a star after those read from disk and a plus after those on the GPU"),
	FILE_ROW("ctl", FOLDER_EXPERTS, 0644, LIVE, EACH_WRITE, 0,
		 .ops = &expert_ctl_ops, .render = ctl_verbs_render, .verbs = &expert_verbs,
		 .about = "experts are named like 00/017 or 0[0-3]/*"),
	FILE_ROW("EEE", FOLDER_LAYER, 0444, STATIC, NONE, ROW_FRESH,
		 .family = &expert_family, .ops = &expert_ops, .hooks = &expert_hooks,
		 .about = "the stored bytes of an expert; ls -s shows how much of it is in memory and on the GPU, ls -lu "
			  "when it was last used; chmod +t pins the expert"),
	FILE_ROW("NAME", FOLDER_PREFIXES, 0600, LIVE, NONE, ROW_FRESH,
		 .family = &prefix_family, .ops = &value_ops, .render = prefix_render, .hooks = &prefix_hooks,
		 .about = "the text of a kept prefix; ls -s shows the memory that only the prefix holds, rm forgets "
			  "the prefix, touch keeps it longer, chmod +t pins it"),
	FILE_ROW("NAME.npy", FOLDER_TENSORS, 0444, STATIC, NONE, 0,
		 .family = &tensor_family, .ops = &tensor_ops, .hooks = &tensor_hooks,
		 .about = "the tensor's values as a NumPy file of 32-bit floats"),
};
/* clang-format on */

const size_t row_count = sizeof rows / sizeof *rows;
_Static_assert(sizeof rows / sizeof *rows < 256, "an inode number has 8 bits for the row");
