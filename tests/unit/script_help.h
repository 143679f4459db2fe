/* A scripted model: a checkpoint whose weights force given tokens after given tokens, with any
 * template, so that thinking, tools and long conversations are tested through the real engine.
 *
 * It is the fixture qwen3, or the one that the script names, with mixers and feed-forwards of
 * zeros: the next token depends only on the last one. The script is JSON:
 *
 *     {"fixture": NAME, "template": a chat template, "answers": [[AFTER, PIECE, PIECE ...], ...]}
 *
 * The token AFTER, with which the template may end, is followed by the pieces and then <|im_end|>.
 * An answer whose last piece stands in it before goes round from there without an end. Each piece
 * is one token, added to the vocabulary if it is missing. A piece has the same successor in all
 * answers; at most 64 pieces in total. Pieces like <|this|> become special tokens.
 *
 * tests/scripted can do more: it says any text after any prompt, in its own model. This helper
 * keeps the fixture's architecture (a recurrent state, for example) and is small. */
#ifndef MOEFS_TESTS_UNIT_SCRIPT_HELP_H
#define MOEFS_TESTS_UNIT_SCRIPT_HELP_H

/* Makes the checkpoint in a folder, which is made if it is missing. */
void test_script_make(const char *script, const char *folder);

#endif
