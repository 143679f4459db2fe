/* Prompt lookup: a draft of what comes next, from what followed the same words before.
 *
 * Text repeats itself where it quotes, edits or counts. The last few tokens are looked for earlier
 * in the context, and what followed them there is the draft (Saxena 2023; Yang et al. 2023). A
 * draft changes no text: it is verified like any other.
 */
#ifndef MOEFS_ENGINE_COMPUTE_LOOKUP_H
#define MOEFS_ENGINE_COMPUTE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

/* The shortest and the longest run of tokens that is looked for: one token alone says too little,
 * and beyond the longest every place is as good as the newest. */
enum { LOOKUP_LEAST = 2, LOOKUP_MOST = 8 };

/* Fills draft[most] with what followed the last tokens of tokens[count] at the place that agrees
 * with the most of them, the newest among equals; where the text ends it goes on with the draft
 * itself, as a text does that repeats itself. Returns most, or 0 where nothing agrees. *matched:
 * how many tokens agreed. Reads the tokens once, backwards: some µs for 32 Ki. */
uint32_t lookup_draft(const uint32_t *tokens, size_t count, uint32_t *draft, uint32_t most,
		      uint32_t *matched);

#endif
