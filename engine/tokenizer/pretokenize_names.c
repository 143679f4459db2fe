/* The names in "tokenizer.ggml.pre" of GGUF files: for each the patterns of the tokenizer.json
 * that the vocabulary was published with, whether that file composes characters (NFC), and
 * whether a word that is a token is taken whole. An unknown name is refused: a text that is
 * split nearly right is wrong. */
#include "engine/tokenizer/pretokenize.h"

#include <stddef.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_AND_DIGITS(digits)                              \
	CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
		     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(contractions, digits)                                                         \
	"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contractions "|[^\\r\\n\\p{L}\\p{N}]?" UPPER \
	"+" LOWER "*" contractions "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

const char GPT2_PATTERN[] =
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char QWEN2_PATTERN[] = WORDS_AND_DIGITS("\\p{N}");

/* Letters of alphabets with case, as far as DeepSeek's first vocabulary knows them. */
static const char DEEPSEEK_LETTERS[] =
	"\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"
	"\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"
	"\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"
	"\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"
	"\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"
	"\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"
	"\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}"
	"\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}"
	"\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"
	"\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"
	"\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}"
	"\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"
	"\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"
	"\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}"
	"\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"
	"\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"
	"\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"
	"\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}]+";
static const char DEEPSEEK_MARKS[] =
	"\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
	"\\x{3000}-\\x{3002}]+";
static const char DEEPSEEK_SCRIPTS[] =
	"[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+";

static const char *const GPT2[] = {GPT2_PATTERN, NULL};
static const char *const DIGIT_GPT2[] = {"\\p{N}", GPT2_PATTERN, NULL};
static const char *const QWEN2[] = {QWEN2_PATTERN, NULL};
static const char *const QWEN35[] = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
						  " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
				     NULL};
static const char *const CL100K[] = {WORDS_AND_DIGITS("\\p{N}{1,3}"), NULL};
static const char *const O200K[] = {CASED_WORDS(CONTRACTIONS "?", "\\p{N}{1,3}"), NULL};
static const char *const TEKKEN[] = {CASED_WORDS("", "\\p{N}"), NULL};
static const char *const DEEPSEEK_LLM[] = {
	"[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+$", DEEPSEEK_SCRIPTS, "\\p{N}+", NULL};
static const char *const DEEPSEEK_CODER[] = {"[\\r\\n]",       "\\s?\\p{L}+", "\\s?\\p{P}+",
					     DEEPSEEK_SCRIPTS, "\\p{N}",      NULL};
static const char *const DEEPSEEK_V3[] = {
	"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
	"[!\"#$%&'()*+,\\-./"
	":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
	" ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES,
	NULL};
/* Kimi's pattern spells a letter outside of the Han script as [...&&[^\p{Han}]]. Intersections
 * of sets and the members of scripts differ between engines, so the set is spelled out. */
#define HAN                                                                                    \
	"[\\x{2e80}-\\x{2e99}\\x{2e9b}-\\x{2ef3}\\x{2f00}-\\x{2fd5}\\x{3005}\\x{3007}"         \
	"\\x{3021}-\\x{3029}\\x{3038}-\\x{303b}\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}"         \
	"\\x{f900}-\\x{fa6d}\\x{fa70}-\\x{fad9}\\x{16fe2}\\x{16fe3}\\x{16ff0}\\x{16ff1}"       \
	"\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b739}\\x{2b740}-\\x{2b81d}\\x{2b820}-\\x{2cea1}" \
	"\\x{2ceb0}-\\x{2ebe0}\\x{2ebf0}-\\x{2ee5d}\\x{2f800}-\\x{2fa1d}\\x{30000}-\\x{3134a}" \
	"\\x{31350}-\\x{323af}]"
#define KIMI_UPPER "(?:(?!" HAN ")" UPPER ")"
#define KIMI_LOWER "(?:(?!" HAN ")" LOWER ")"
#define KIMI_WORD(letters) "[^\\r\\n\\p{L}\\p{N}]?" letters CONTRACTIONS "?|"
const char KIMI_PATTERN[] = HAN "+|" KIMI_WORD(KIMI_UPPER "*" KIMI_LOWER "+") KIMI_WORD(
	KIMI_UPPER "+" KIMI_LOWER "*") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES;
static const char *const KIMI[] = {KIMI_PATTERN, NULL};
static const char *const BAILING[] = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"
				      " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
				      "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
				      NULL};
static const char *const SEED[] = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}|"
						" ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES,
				   NULL};

static const struct pretokenize_name NAMES[] = {
	/* name, patterns, NFC, words that are tokens are taken whole, begins with bos */
	{"gpt-2", GPT2, false, false, false},
	{"phi-2", GPT2, false, false, false},
	{"mpt", GPT2, true, false, false},
	{"olmo", GPT2, true, false, false},
	{"starcoder", DIGIT_GPT2, false, false, false},
	{"refact", DIGIT_GPT2, false, false, false},
	{"smollm", DIGIT_GPT2, false, false, false},
	{"codeshell", DIGIT_GPT2, false, false, false},
	{"command-r", DIGIT_GPT2, true, false, false},
	{"qwen2", QWEN2, true, false, false},
	{"deepseek-r1-qwen", QWEN2, true, false, false},
	{"qwen35", QWEN35, true, false, false},
	{"llama3", CL100K, false, true, true},
	{"llama-v3", CL100K, false, true, true},
	{"llama-bpe", CL100K, false, true, true},
	{"smaug-bpe", CL100K, false, false, false},
	{"dbrx", CL100K, false, false, false},
	{"lfm2", CL100K, false, true, true},
	{"glm4", CL100K, false, true, false},
	{"glm5", CL100K, false, true, false},
	{"chatglm-bpe", CL100K, false, false, false},
	{"gpt-4o", O200K, false, false, false},
	{"llama4", O200K, false, false, false},
	{"minimax-m2", O200K, false, false, false},
	{"tekken", TEKKEN, false, true, true},
	{"deepseek-llm", DEEPSEEK_LLM, false, false, false},
	{"deepseek-coder", DEEPSEEK_CODER, false, false, false},
	{"deepseek-v3", DEEPSEEK_V3, false, false, false},
	{"kimi-k2", KIMI, false, true, false},
	{"hunyuan-dense", DEEPSEEK_V3, false, false, false},
	{"hunyuan", QWEN2, false, false, false},
	{"bailingmoe", BAILING, false, false, false},
	{"bailingmoe2", BAILING, false, false, false},
	{"llada-moe", BAILING, false, false, false},
	{"seed-coder", SEED, false, false, false},
	{"grok-2", QWEN2, false, false, false},
};

const struct pretokenize_name *pretokenize_find_name(const char *name)
{
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
		if (strcmp(name, NAMES[i].name) == 0)
			return &NAMES[i];
	return NULL;
}
