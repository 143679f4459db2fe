# Answers as make has them: NAME.answer is made of NAME.question, once, and again when the question is newer.
#
#     make -j 4 -f examples/ask.mk MODEL=~/m/fable-moe-15m capital.answer sum.answer
#
# MODEL is a model's folder in the mount. Each answer is a conversation of its own, by a name in ask.d, which make's
# jobs may hold side by side. A rule that fails leaves no answer, and says why.

.DELETE_ON_ERROR:

%.answer: %.question
	@[ -d "$(MODEL)/ask.d" ] || { echo "MODEL=$(MODEL) is not a model's folder in a mount of moefs" >&2; exit 1; }
	cat "$<" > "$(MODEL)/ask.d/$(subst /,-,$@).$$$$" && cat "$(MODEL)/ask.d/$(subst /,-,$@).$$$$" > "$@" || \
		{ cat "$(MODEL)/../error" >&2; rm -f "$(MODEL)/ask.d/$(subst /,-,$@).$$$$"; exit 1; }
