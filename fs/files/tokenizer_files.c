/* tokenizer/encode and decode: from a text to the ids of its tokens, and back. A worker does it
 * with the model's tokenizer; no weights are loaded. */
#include "fs/files/files.h"
#include "fs/files/question.h"

/* A text takes up to twenty times its length while it is encoded, where every byte of it is a
 * token.
 */
enum { TEXT_MOST = 128 << 20 };

static uint64_t most(const struct handle *h)
{
	(void)h;
	return TEXT_MOST;
}

static int encode_submit(struct handle *h, struct err *e)
{
	return question_work(h, model_encode, e);
}

const struct question encode_question = {
	.most = most,
	.why = "are more than it takes at once",
	.submit = encode_submit,
};

static int decode_submit(struct handle *h, struct err *e)
{
	return question_work(h, model_decode, e);
}

const struct question decode_question = {
	.most = most,
	.why = "are more than it takes at once",
	.submit = decode_submit,
};
