/* moefs-bench: the speed of the machine, and how much of it the engine uses.
 *
 *     machine    the ceilings: memory, arithmetic, disk
 *     kernels    each kernel of each instruction set, beside the ceiling it could reach
 *     run        a model: prefill, decode, experts, memory
 *     pager      the cache alone: a model's routing replayed against a store
 *     make       a synthetic model of real geometry to run
 *     perplexity how well a model predicts a text, and what losses cost
 *     recipe     how far each class of tensors in each format moves a model's predictions
 *     quality    what each recipe costs and gives
 *     company    what sessions of one model take from each other
 *     first      how long a mount takes to its first token
 *     page       how long rendering and encoding a conversation takes
 *     grammar    what holding answers to a form costs
 *     files      what it costs that a model is files
 *     http       what it costs that a tree is asked over HTTP
 *
 * One file per subcommand (README.md says what each measures and how); this one only chooses.
 */
#include "tests/bench/bench.h"
#include "fs/base/standard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv, struct err *e);
	const char *what;
} commands[] = {
	{"machine", machine_command, "memory, arithmetic and disk: the ceilings"},
	{"kernels", kernels_command, "each kernel as a share of its ceiling"},
	{"run", run_command, "a model's prefill and decode"},
	{"pager", pager_command, "a trace of routing against a store, without a model"},
	{"make", make_command, "writes a synthetic model of real geometry"},
	{"perplexity", perplexity_command, "how well a model predicts a text"},
	{"recipe", recipe_command, "what each choice of a recipe costs"},
	{"quality", quality_command, "what each recipe costs and gives, as one table"},
	{"company", company_command, "sessions answered and asked at once"},
	{"first", first_command, "from mounting to the first token"},
	{"page", page_command, "rendering and encoding a conversation"},
	{"grammar", grammar_command, "masks of a vocabulary for constrained answers"},
	{"files", files_command, "the tree beside a bare echo"},
	{"http", http_command, "the tree over HTTP beside its files"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *f)
{
	(void)fprintf(f, "usage: moefs-bench COMMAND [options]; each has --help\n");
	for (size_t i = 0; i < COMMANDS; i++)
		(void)fprintf(f, "    %-10s %s\n", commands[i].name, commands[i].what);
}

static int run(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < COMMANDS; i++) {
		struct err e = {0};
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (commands[i].run(argc - 1, argv + 1, &e) >= 0)
			return 0;
		(void)fprintf(stderr, "moefs-bench %s: %s\n", argv[1], e.text);
		return 1;
	}
	bool help = argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"));
	usage(help ? stdout : stderr);
	return help ? 0 : 2;
}

/* A report that could not be written is a failure. */
int main(int argc, char **argv)
{
	struct err e;
	standard_begin();
	int status = run(argc, argv);
	if (!standard_written(&e))
		return status;
	(void)fprintf(stderr, "moefs-bench: %s\n", e.text);
	return status ? status : 1;
}
