#include "engine/serve/internal.h"

bool model_ends(const struct model *m, bool chat, uint32_t id)
{
	for (uint32_t i = 0; i < m->id.config.generation.end_count; i++)
		if (m->id.config.generation.end_tokens[i] == id)
			return true;
	return tokenizer_ends(m->run.tokenizer, id, chat) ||
	       (chat && chat_template_ends(m->run.chat, id));
}
