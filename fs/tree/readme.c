/* MOUNT/README, made from the table of the tree. Its long form is moefs(5), which
 * fs/install/pages/page_tables.c makes from the same table. */
#include "fs/tree/tree.h"

#include <stdio.h>
#include <string.h>

static const char readme_head[] =
	"Language models as files. Ask with echo, read with cat:\n"
	"\n"
	"    echo 'Why is the sky blue?' > MODEL/prompt; cat MODEL/output\n"
	"\n"
	"A prompt is submitted when its writer closes the file. Reading output waits for text and\n"
	"ends when the answer is complete. If something fails, error says why.\n"
	"\n"
	"`mkdir MODEL/sessions/NAME` creates a session: a conversation with its own files. "
	"`rmdir`\n"
	"ends it. The files in MODEL are those of MODEL/sessions/default. That folder also has\n"
	"params, state and logprobs.jsonl.\n"
	"\n"
	"    r: can be read, w: can be written. Sizes are in bytes, with K, M or G (1.5G), or a\n"
	"    share of memory (50%). Write auto to a file in cache/ or params/ to restore its "
	"default.\n"
	"\n";

static const char readme_tail[] =
	"\n"
	"experts/map has one line per layer and one character per expert. A digit: the expert is "
	"in\n"
	"memory. A capital letter: it is on the GPU. A small letter: it is in neither. A dot: it\n"
	"was never used. 0 to 9, A to J and a to j say how often it was used: 9, J and j as often\n"
	"as the most used expert of the model, each step down half as often.\n"
	"\n"
	"experts/trace has a line for each token and layer while the model works: SESSION "
	"POSITION\n"
	"KIND LAYER EXPERT…, with a star after each expert that was read from disk, and a plus after\n"
	"each that was on the GPU. Reading ends when the model is idle. You see what happens after\n"
	"you open the file:\n"
	"\n"
	"    exec 3<experts/trace; echo hello > prompt; cat <&3\n"
	"\n"
	"ask, score, tokenizer/encode and tokenizer/decode answer through the same open file:\n"
	"\n"
	"    exec 3<>score; echo text >&3; cat <&3\n"
	"\n"
	"In a shell without <> let sh do it: sh -c 'exec 3<>\"$0\"; cat >&3; cat <&3' score\n"
	"\n"
	"The params system, stop, grammar and logit_bias take effect when the file is closed;\n"
	"`echo > params/system` clears one. The other params take effect at each write. Both "
	"apply\n"
	"from the next turn on. moefs(5) describes each file and param: `man 5 moefs`.\n";

/* One line for each row of the tree. */
static void readme_row(const struct tree_row *row, struct text *out)
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

void readme_make(struct text *out)
{
	text_string(out, readme_head);
	for (size_t i = FOLDER_ROOT + 1; i < tree_rows(); i++)
		readme_row(tree_row(i), out);
	text_string(out,
		    "\nThe params: what each does, which values it takes, and [its default]:\n");
	for (size_t i = 0; i < params_count(); i++) {
		const struct param_words w = params_words(i);
		text_format(out, "    %-20s %s; %s [%s]\n", params_name(i), w.about, w.takes,
			    w.begins);
	}
	text_string(out, readme_tail);
}
