/* A scripted model: a checkpoint whose weights force given tokens behind given tokens, with any
 * template, so that thinking, tools and long conversations are tested on the real way.
 *
 * It is the fixture qwen3, or the one that the script names, with mixers and feed-forwards of
 * zeros: what follows a token depends on that token alone. The script is JSON:
 *
 *     {"fixture": NAME, "template": a chat template, "answers": [[AFTER, PIECE, PIECE ...], ...]}
 *
 * Behind the token AFTER, with which the template may end, come the pieces, each one token (added
 * to the vocabulary where it is none), and then <|im_end|>. A piece stands for one token wherever
 * it is, so it follows the same token in all answers; together there are at most 64 of them. What
 * looks like <|this|> becomes a special token.
 *
 * tests/scripted has other means for more: it says any text behind any prompt, in a model of its
 * own. Here the fixture's architecture stays (a recurrent state, say), and is small. */
#ifndef MOEFS_TESTS_SCRIPT_HELP_H
#define MOEFS_TESTS_SCRIPT_HELP_H

/* Makes the checkpoint in a folder, which is made if need be. */
void test_script_make(const char *script, const char *folder);

#endif
