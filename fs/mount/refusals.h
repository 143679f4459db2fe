/* Refused prompts, and who must not take the answer to another one for his.
 *
 * Shells go on after a command that failed: `echo q > prompt; cat output` reads whether q was taken
 * or not. So a refusal is remembered with the process whose write it was, the one whose open it was
 * (in `{ echo a; cat b; } > prompt` the shell), and their parents. The next open of output or wait
 * by one of these processes, by a child of theirs, or further down by what the refused process
 * began, fails with EIO, once, and the session's error says why. Opens by others are not disturbed.
 *
 * The nearest deed of a reader's line (it, its parent, and so on) decides: where one of the line
 * was accepted, refusals before that are forgotten, and refusals of those further up do not count.
 * What a child did counts for its parent's other children: it wrote for a script that now reads. An
 * acceptance does so once the child has ended, since one that lives reads for itself.
 *
 * Processes of other namespaces have no number here, so nothing of theirs is remembered. */
#ifndef MOEFS_FS_REFUSALS_H
#define MOEFS_FS_REFUSALS_H

#include "fs/base/process.h"
#include "fs/mount/node.h"

enum {
	REFUSALS_PER_SESSION = 256, /* the oldest go, as in the next */
	REFUSALS_MOST = 4096,
	REFUSAL_LINE = 2, /* how much of a line is remembered: a process and its parent */
};

/* A prompt of the node's session was refused: a thread's write to it, or its open (no opener), or
 * what had been written (no thread: 0). For want of memory nothing is remembered. */
void refusals_add(const struct node *n, pid_t thread, const struct line *opener,
		  const struct err *why);
/* A prompt was accepted, of which this was the opener. */
void refusals_accepted(struct conversation *c, const struct line *opener);
/* Whether the reader has to be told of a refusal; error says why then, and it counts as told unless
 * he is to be told again. */
bool refusals_tell(const struct node *n, pid_t thread, bool again);
/* Forgets all of a session's. */
void refusals_forget(struct conversation *c);

#endif
