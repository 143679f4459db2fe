/* MOUNT/README, made from the table of the tree. */
#include "fs/tree/readme.h"
#include "fs/files/verbs.h"
#include "fs/tree/tree.h"

#include <stdio.h>
#include <string.h>

static const char readme_head[] =
	"Language models as files. Ask with echo, read with cat:\n"
	"\n"
	"    echo 'Why is the sky blue?' > MODEL/prompt; cat MODEL/output\n"
	"\n"
	"A prompt is submitted when its writer closes it. Reading output waits for text and ends "
	"with\n"
	"the answer. `mkdir MODEL/sessions/NAME` makes a conversation of its own, `rmdir` ends it; "
	"the\n"
	"files in MODEL are those of MODEL/sessions/default, which has params, state and\n"
	"logprobs.jsonl besides. What went wrong is said in error.\n"
	"\n"
	"    r: to read, w: to write. Sizes are in bytes, with K, M or G (1.5G), or 50% of "
	"memory.\n"
	"    auto puts a value in cache/ or params/ back to its default.\n"
	"\n";

static const char readme_tail[] =
	"\n"
	"experts/map has one line per layer and one character per expert: a digit where it is in\n"
	"memory, a letter where it is not; 0 to 9 and a to j say how often it was used, 9 and j as "
	"much\n"
	"as the most used expert of the model, each step down half as often; a dot was never "
	"used.\n"
	"experts/trace has a line for each token and layer while the model works: SESSION POSITION "
	"KIND\n"
	"LAYER EXPERT…, a star behind an expert that was read from the disk. It ends when the "
	"model "
	"is\n"
	"idle, and shows what follows its open: exec 3<experts/trace; echo hello > prompt; cat "
	"<&3.\n"
	"score, tokenizer/encode and tokenizer/decode are asked as ask is: `exec 3<>score; echo "
	"text\n"
	">&3; cat <&3`. Shells without <> have sh do it: `sh -c 'exec 3<>\"$0\"; cat >&3; cat "
	"<&3' score`.\n"
	"\n"
	"Of the params, `system`, `stop`, `grammar` and `logit_bias` take effect when they are "
	"closed:\n"
	"`echo > params/system` clears it, while opening it with truncation alone changes nothing. "
	"The\n"
	"others take effect at each write, with the next turn. More of each file and param is in\n"
	"moefs(5): `man 5 moefs`.\n";

void tree_about(const struct row *row, struct text *out)
{
	if (row->verbs) {
		text_string(out, "verbs: ");
		verbs_names(row->verbs, out);
		text_string(out, "; ");
	}
	text_string(out, row->about);
}

/* One line for each row of the tree. */
static void readme_row(const struct row *row, struct text *out)
{
	char path[NAME_SIZE];
	tree_path(row, path, sizeof path);
	if (S_ISDIR(row->mode))
		(void)snprintf(path + strlen(path), sizeof path - strlen(path), "/");
	const char *access = S_ISDIR(row->mode) ? "" : row->effect != EFFECT_NONE ? "rw" : "r";
	text_format(out, "    %-36s %-3s ", path, access);
	tree_about(row, out);
	text_string(out, "\n");
}

static void readme_params(struct text *out)
{
	text_string(out, "\nThe params, what each takes, and [what it begins with]:\n");
	for (size_t i = 0; i < params_count(); i++) {
		const struct param_words w = params_words(i);
		text_format(out, "    %-20s %s; %s [%s]\n", params_name(i), w.about, w.takes,
			    w.begins);
	}
}

void readme_make(struct text *out)
{
	text_string(out, readme_head);
	for (size_t i = FOLDER_ROOT + 1; i < tree_rows(); i++)
		readme_row(tree_row(i), out);
	readme_params(out);
	text_string(out, readme_tail);
}
