/* Ways of writing conversations, known by the marks that a Go template puts between messages. The
 * template itself is not run: it is in another language. So what it does beside that (tools,
 * default system messages, thoughts) is not done. Each form here is written from the published
 * description of its family. */
#include "engine/library/ollama.h"

#include <string.h>

enum { MARKS = 2 };

static const char llama3[] =
	"{{ bos_token }}{% for m in messages %}"
	"{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + "
	"'<|eot_id|>' }}{% endfor %}"
	"{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' "
	"}}{% endif %}";

/* Gemma has no system message: it stands before the first message of the user. */
static const char gemma[] =
	"{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
	"{% if m.role == 'system' %}{% set ns.system = m.content + '\\n\\n' %}{% else %}"
	"{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + "
	"ns.system + m.content | trim + '<end_of_turn>\\n' }}{% set ns.system = '' %}"
	"{% endif %}{% endfor %}"
	"{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

static const char llama2[] =
	"{% set ns = namespace(system='') %}{% for m in messages %}"
	"{% if m.role == 'system' %}"
	"{% set ns.system = '<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n' %}"
	"{% elif m.role == 'assistant' %}{{ ' ' + m.content | trim + ' ' }}{{ eos_token }}"
	"{% else %}{{ bos_token }}{{ '[INST] ' + ns.system + m.content | trim + ' [/INST]' }}"
	"{% set ns.system = '' %}{% endif %}{% endfor %}";

static const char mistral[] =
	"{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
	"{% if m.role == 'system' %}{% set ns.system = m.content + '\\n\\n' %}"
	"{% elif m.role == 'assistant' %}{{ ' ' + m.content | trim }}{{ eos_token }}"
	"{% else %}{{ '[INST] ' + ns.system + m.content | trim + ' [/INST]' }}"
	"{% set ns.system = '' %}{% endif %}{% endfor %}";

static const char phi3[] =
	"{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}"
	"{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

static const char zephyr[] =
	"{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content }}{{ eos_token }}{{ '\\n' }}"
	"{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

/* A form has all its marks and none of `without`. The first that fits counts, so those with more
 * marks come first. */
static const struct ollama_known {
	struct ollama_form form;
	const char *marks[MARKS], *without;
} known[] = {
	{{"ChatML", NULL}, {"<|im_start|>", "<|im_end|>"}, NULL},
	{{"Llama 3", llama3}, {"<|start_header_id|>", "<|eot_id|>"}, NULL},
	{{"Gemma", gemma}, {"<start_of_turn>", "<end_of_turn>"}, NULL},
	{{"Llama 2", llama2}, {"[INST]", "<<SYS>>"}, NULL},
	{{"Mistral", mistral}, {"[INST]", "[/INST]"}, "[SYSTEM_PROMPT]"},
	{{"Phi 3", phi3}, {"<|user|>", "<|end|>"}, NULL},
	{{"Zephyr", zephyr}, {"<|user|>", "</s>"}, NULL},
};

/* The template of a model that continues texts: nothing but the prompt. */
static bool ollama_is_plain(const char *go)
{
	static const char plain[] = "{{.Prompt}}";
	size_t at = 0;
	for (; *go; go++)
		if (!strchr(" \t\r\n", *go) && (at >= sizeof plain - 1 || plain[at++] != *go))
			return false;
	return at == sizeof plain - 1;
}

const struct ollama_form *ollama_form_of(const char *go)
{
	static const struct ollama_form none = {"none", NULL};
	if (ollama_is_plain(go))
		return &none;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const struct ollama_known *k = &known[i];
		bool is = !k->without || !strstr(go, k->without);
		for (int j = 0; j < MARKS; j++)
			is &= strstr(go, k->marks[j]) != NULL;
		if (is)
			return &k->form;
	}
	return NULL;
}
