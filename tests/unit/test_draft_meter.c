/* When to draft, in simulations: rows of a given cost, drafts with a given acceptance. Time is
 * simulated, so nothing here depends on the machine. */
#include "engine/turn/draft_meter.h"
#include "memory_help.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct world {
	double row;		    /* cost of each row beyond the first, in steps of one row */
	double drawing;		    /* the draft layer's cost per token, likewise */
	double stands[DRAFT_KINDS]; /* the chance of each drafted token */
	double following;	    /* and its cost for each token that it follows */
	double found;		    /* how often lookup finds anything */
	double noise;		    /* of a step's time, relative */
	struct random random;
};

static const double step_seconds = 0.03;

/* ---- a turn alone ---- */

static struct draft_choice choose(struct draft_meter *m, const struct draft_offer *o)
{
	struct draft_choice c;
	draft_meter_choose(m, o, 1, DRAFT_MOST + 1, &c);
	return c;
}

static void count(struct draft_meter *m, struct draft_choice c, uint32_t stood, double drafting,
		  double verifying)
{
	const struct draft_result r = {.choice = c, .stood = stood};
	struct draft_times t = {.verifying = verifying};
	*(c.kind == DRAFT_MTP ? &t.passes[1] : &t.lookup) = drafting;
	t.asks[1] = c.kind == DRAFT_MTP && c.depth;
	draft_meter_count(m, &r, 1, &t);
}

static double noisy(struct world *w, double steps)
{
	return step_seconds * steps * (1 + w->noise * (2 * random_uniform(&w->random) - 1));
}

static uint32_t stood_of(struct world *w, struct draft_choice c)
{
	uint32_t stood = 0;
	while (stood < c.depth && random_uniform(&w->random) < w->stands[c.kind])
		stood++;
	return stood;
}

static uint32_t least(uint32_t one, uint32_t other)
{
	return one < other ? one : other;
}

/* Makes the draft layer follow a text: rows wait until something is drafted or too many wait.
 * Returns the time that is not part of drafting. */
static double follow(struct world *w, struct draft_meter *m, uint32_t *pending)
{
	enum { MOST = 32, LAST = 8 };
	uint32_t rows = *pending;
	bool follows = draft_meter_follows(m, true);
	if (rows + DRAFT_MOST + 1 <= (follows ? MOST : 2 * LAST))
		return 0;
	*pending = follows ? 0 : LAST;
	double seconds = follows ? noisy(w, w->following * rows) : 0;
	if (follows)
		draft_meter_follow(m, rows, seconds, true);
	return seconds;
}

/* The time of own drafts, and of the waiting rows before the first draft (*before). */
static double draft_own(struct world *w, struct draft_meter *m, uint32_t depth, uint32_t *pending,
			double *before)
{
	double rows = noisy(w, w->following * (*pending - 1)), own = noisy(w, w->drawing * depth);
	bool begins = *pending > DRAFT_MOST + 1;
	if (m && begins)
		draft_meter_follow(m, *pending - 1, rows, true);
	*before += begins ? rows : 0;
	*pending = 0;
	return begins ? own : own + rows;
}

/* Seconds for a number of tokens: by the meter's choice, or always `fixed` if that kind is
 * available. */
static double run(struct world *w, struct draft_meter *m, uint32_t tokens,
		  struct draft_choice fixed)
{
	double seconds = 0;
	if (m && !(m->following > 0)) /* a prompt comes before any answer */
		draft_meter_follow(m, 30, noisy(w, 30 * w->following), false);
	for (uint32_t done = 0, stood, pending = 1; done < tokens; done += stood + 1) {
		uint32_t left = least(tokens - done - 1, DRAFT_MOST);
		bool found = random_uniform(&w->random) < w->found;
		const struct draft_offer o = {.most = {left, found ? left : 0},
					      .missed = pending > DRAFT_MOST + 1 ? pending - 1 : 0};
		struct draft_choice c = m ? choose(m, &o) : fixed;
		c.depth = least(c.depth, o.most[c.kind]);
		double drafting = 0;
		if (c.depth && c.kind == DRAFT_MTP)
			drafting = draft_own(w, m, c.depth, &pending, &seconds);
		else if (m)
			seconds += follow(w, m, &pending);
		double verifying = noisy(w, 1 + w->row * c.depth);
		stood = stood_of(w, c);
		pending += stood + 1;
		seconds += drafting + verifying;
		if (m)
			count(m, c, stood, drafting, verifying);
	}
	return seconds;
}

static double metered(struct world *w, struct draft_meter *m, uint32_t tokens)
{
	return run(w, m, tokens, (struct draft_choice){0});
}

static const double rows[] = {0, 0.02, 0.1, 0.3, 0.6, 1}, chances[] = {0, 0.1, 0.3, 0.5, 0.8, 0.97};
enum { ROWS = sizeof rows / sizeof *rows, CHANCES = sizeof chances / sizeof *chances };
enum { WORLDS = ROWS * CHANCES * CHANCES * 3 * 2 };

/* Every cost of a row, with every chance of either kind; lookup finds something always, seldom or
 * never; a draft layer that is cheap to keep, or dear. */
static struct world world(int i, double noise)
{
	static const double found[] = {1, 0.3, 0};
	static const double following[] = {0.003, 0.05};
	int k = i / ROWS, j = k / CHANCES, l = j / CHANCES;
	return (struct world){
		.row = rows[i % ROWS],
		.drawing = 0.15,
		.stands =
			{[DRAFT_MTP] = chances[k % CHANCES], [DRAFT_LOOKUP] = chances[j % CHANCES]},
		.following = following[l / 3],
		.found = found[l % 3],
		.noise = noise,
		.random = {(uint64_t)i},
	};
}

static double best_fixed(const struct world *w, uint32_t tokens)
{
	double best = 0;
	for (int i = 0; i <= DRAFT_KINDS * DRAFT_MOST; i++) {
		struct draft_choice c = {(enum draft_kind)(i % DRAFT_KINDS),
					 (uint32_t)(i + 1) / DRAFT_KINDS};
		struct world copy = *w;
		double seconds = run(&copy, NULL, tokens, c);
		if (i == 0 || seconds < best)
			best = seconds;
	}
	return best;
}

static const struct draft_offer any = {.most = {DRAFT_MOST, DRAFT_MOST}}, none,
				own_only = {.most = {DRAFT_MOST, 0}};

static void nothing_is_drafted_before_a_step_was_measured(void **state)
{
	(void)state;
	struct draft_meter m = {0};
	assert_int_equal(choose(&m, &any).depth, 0);
	count(&m, (struct draft_choice){0}, 0, 0, step_seconds);
	assert_int_equal(choose(&m, &none).depth, 0);
	assert_int_equal(choose(&m, &any).depth, 1);
}

/* Promised: at most 3 % slower than without, from 64 tokens on, over many answers of a fresh meter.
 */
static void a_fresh_meter_never_costs_much(void **state)
{
	(void)state;
	enum { TOKENS = 64, ANSWERS = 300 };
	for (int i = 0; i < WORLDS; i++) {
		struct world w = world(i, 0.1);
		double with = 0;
		for (int a = 0; a < ANSWERS; a++) {
			struct draft_meter m = {0};
			with += metered(&w, &m, TOKENS);
		}
		if (!(with <= 1.03 * step_seconds * TOKENS * ANSWERS))
			fail_msg("world %d: %f", i, with / (step_seconds * TOKENS * ANSWERS));
	}
}

/* Of two good kinds the better one is found late, since the other pays meanwhile. */
static void where_drafts_pay_most_of_the_gain_is_reached(void **state)
{
	(void)state;
	enum { TOKENS = 3000 };
	for (int i = 0; i < WORLDS; i++) {
		double best = 0, with = 0;
		struct world w = world(i, 0.2);
		bool both =
			w.found > 0 && w.stands[DRAFT_MTP] > 0.5 && w.stands[DRAFT_LOOKUP] > 0.5;
		for (uint64_t seed = 0; seed < 8; seed++) {
			struct draft_meter m = {0};
			w = world(i, 0.2);
			w.random.state += 1000 * seed;
			best += best_fixed(&w, TOKENS);
			with += metered(&w, &m, TOKENS);
		}
		if (!(best / with >= (both ? 0.8 : 0.9)))
			fail_msg("world %d: %f of the best", i, best / with);
	}
}

/* Text that suited drafts stops to do so and starts again, for each kind in turn. Neither change
 * goes unnoticed for long or costs much. Expensive kinds are tried less often. */
static void a_text_that_changes_is_followed(void **state)
{
	(void)state;
	enum { TOKENS = 400, ROUNDS = 10 };
	static const double least_gain[DRAFT_KINDS] = {[DRAFT_MTP] = 1.1, [DRAFT_LOOKUP] = 1.25};
	struct world w = {.row = 0.3, .drawing = 0.15, .found = 1, .noise = 0.1, .random = {5}};
	struct draft_meter m = {0};
	double with[DRAFT_KINDS] = {0};
	for (int round = 0; round < ROUNDS; round++) {
		enum draft_kind good = (enum draft_kind)(round % DRAFT_KINDS);
		w.stands[DRAFT_MTP] = w.stands[DRAFT_LOOKUP] = 0.02;
		assert_true(metered(&w, &m, TOKENS) <= 1.03 * step_seconds * TOKENS);
		w.stands[good] = 0.95;
		double seconds = metered(&w, &m, TOKENS);
		assert_true(seconds <= 1.03 * step_seconds * TOKENS);
		assert_true(good == DRAFT_MTP ||
			    step_seconds * TOKENS / seconds >= least_gain[good]);
		with[good] += seconds;
	}
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		assert_true(ROUNDS / DRAFT_KINDS * step_seconds * TOKENS / with[kind] >=
			    least_gain[kind]);
}

/* How often each kind is chosen in a number of tokens. */
static void of_two_kinds_the_faster_is_taken_and_the_other_when_that_changes(void **state)
{
	(void)state;
	struct world w = {.row = 0.2, .drawing = 0.2, .found = 1, .noise = 0.1, .random = {7}};
	struct draft_meter m = {0};
	for (int round = 0; round < 6; round++) {
		enum draft_kind good = (enum draft_kind)(round % DRAFT_KINDS);
		w.stands[good] = 0.9;
		w.stands[!good] = 0.2;
		metered(&w, &m, 600);
		int taken = 0;
		for (int i = 0; i < 100; i++) {
			taken += choose(&m, &any).kind == good;
			metered(&w, &m, 5);
		}
		assert_true(taken >= 90);
	}
}

/* Both are accepted equally often: the kind that drafts at no cost is chosen, and the other if it
 * finds nothing. */
static void drafting_costs_too(void **state)
{
	(void)state;
	struct world w = {.row = 0.2,
			  .drawing = 0.15,
			  .stands = {0.8, 0.8},
			  .found = 0.5,
			  .noise = 0.1,
			  .random = {8}};
	struct draft_meter m = {0};
	metered(&w, &m, 2000);
	m.credit = 1; /* enough */
	struct draft_choice both = choose(&m, &any), own = choose(&m, &own_only);
	assert_int_equal(both.kind, DRAFT_LOOKUP);
	assert_int_equal(own.kind, DRAFT_MTP);
	assert_true(own.depth > 0);
	/* Its experts must now be read: learning that has a price, then nothing is drafted. */
	w.drawing = 3;
	w.found = 0;
	assert_true(metered(&w, &m, 400) <= 1.1 * step_seconds * 400);
	metered(&w, &m, 2000);
	assert_int_equal(choose(&m, &own_only).depth, 0);
}

/* A kind that pays waits for credit; cheap trials of another kind must not use the credit up. */
static void what_pays_has_the_credit(void **state)
{
	(void)state;
	struct draft_meter m = {.cost = {0, 1, 1.1}, .credit = 0.3};
	struct draft_kind_meter *own = &m.kind[DRAFT_MTP], *lookup = &m.kind[DRAFT_LOOKUP];
	const struct draft_offer one = {.most = {1, 1}};
	/* 1.7 tokens in 1.5 steps, of which half a step could be lost; and a trial for a tenth. */
	*own = (struct draft_kind_meter){.drafting = {0, 0.4}, .stood = {0, 0.7}, .seen = {0, 20}};
	*lookup = (struct draft_kind_meter){.drafting = {0, 0.01}, .seen = {0, 20}, .idle = 1000};
	struct draft_choice c = choose(&m, &one);
	assert_true(c.kind == DRAFT_LOOKUP && c.depth == 1); /* there is enough for both */
	m.credit = 0.1;
	assert_int_equal(choose(&m, &one).depth, 0);
	own->stood[1] = 0.2;
	c = choose(&m, &one);
	assert_true(c.kind == DRAFT_LOOKUP && c.depth == 1);
}

static void a_step_that_lost_its_processor_does_not_decide(void **state)
{
	(void)state;
	struct world w = {.row = 0.1, .drawing = 0.05, .stands = {0.9}, .random = {6}};
	struct draft_meter m = {0};
	metered(&w, &m, 500);
	struct draft_choice before = choose(&m, &own_only);
	assert_true(before.depth >= 3);
	count(&m, before, before.depth, 10, 10);
	assert_true(m.cost[before.depth + 1] < 0.1);
	assert_true(m.kind[before.kind].drafting[before.depth] < 0.1);
	/* Nor is it on the credit, so that the next step drafts. */
	assert_true(choose(&m, &own_only).depth > 0);
}

/* ---- in company ---- */

enum { COMPANY = 4 };

/* A meter with much credit, for which these costs are known: seconds of a number of rows. */
struct known {
	uint32_t rows;
	double seconds;
};

static void learn(struct draft_costs *c, const struct known *known, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int times = 0; times < 3; times++)
			draft_costs_count(c, known[i].rows, 0, known[i].seconds, false);
}

static struct draft_meter company_meter(const struct known *known, size_t count)
{
	struct draft_meter m = {.credit = 100};
	learn(&m.company, known, count);
	return m;
}

/* Each draft stands as often, at any depth. */
static void learn_stood(struct draft_meter *m, enum draft_kind kind, double stands)
{
	for (uint32_t d = 1; d <= DRAFT_MOST; d++) {
		m->kind[kind].stood[d] = stands;
		m->kind[kind].seen[d] = 20;
	}
}

/* By lookup, as much as anybody wants. */
static const struct draft_offer found[COMPANY] = {
	{.most = {0, 4}}, {.most = {0, 4}}, {.most = {0, 4}}, {.most = {0, 4}}};
static const struct draft_offer one_own[COMPANY] = {
	{.most = {1, 0}}, {.most = {1, 0}}, {.most = {1, 0}}, {.most = {1, 0}}};

static void assert_depths(const struct draft_meter *known, const struct draft_offer *o,
			  uint32_t room, const uint32_t want[COMPANY])
{
	struct draft_choice c[COMPANY];
	struct draft_meter m = *known;
	draft_meter_choose(&m, o, COMPANY, room, c);
	for (uint32_t i = 0; i < COMPANY; i++)
		assert_int_equal(c[i].depth, want[i]);
}

static void nothing_is_drafted_in_a_company_that_is_not_known(void **state)
{
	(void)state;
	struct draft_meter m = {.cost = {0, 1, 1.01}, .credit = 100};
	learn_stood(&m, DRAFT_LOOKUP, 0.9);
	assert_int_equal(choose(&m, &found[0]).depth, 4); /* alone it is */
	assert_depths(&m, found, 100, (uint32_t[COMPANY]){0, 0, 0, 0});
	draft_costs_count(&m.company, COMPANY, 0, 1, false);
	draft_costs_count(&m.company, COMPANY, 0, 1, false);
	assert_depths(&m, found, 100, (uint32_t[COMPANY]){0, 0, 0, 0});
}

/* Half of the drafts stand. Without any, 4 tokens take a second. */
static void in_company_the_speed_of_all_decides(void **state)
{
	(void)state;
	/* A token more for each: 6 tokens in 1.1 s. Two more for one of them: 6.25 in 1.375. */
	const struct known cheap[] = {{4, 1}, {8, 1.1}, {12, 2.2}};
	struct draft_meter m = company_meter(cheap, 3);
	learn_stood(&m, DRAFT_LOOKUP, 0.5);
	assert_depths(&m, found, 100, (uint32_t[COMPANY]){1, 1, 1, 1});
	/* 4.5 tokens in 1.15 s, 6 in 1.6. */
	const struct known dear[] = {{4, 1}, {8, 1.6}};
	m = company_meter(dear, 2);
	learn_stood(&m, DRAFT_LOOKUP, 0.5);
	assert_depths(&m, found, 100, (uint32_t[COMPANY]){0, 0, 0, 0});
	/* 5 tokens in 1.05 s, 5.5 in 1.525: for two of them, and then for others. */
	const struct known for_two[] = {{4, 1}, {6, 1.05}, {8, 2}};
	m = company_meter(for_two, 3);
	learn_stood(&m, DRAFT_LOOKUP, 0.5);
	assert_depths(&m, found, 100, (uint32_t[COMPANY]){1, 1, 0, 0});
	m.chosen = 3;
	assert_depths(&m, found, 100, (uint32_t[COMPANY]){1, 0, 0, 1});
}

/* A pass of the draft layer takes 0.3 s for one turn and 0.4 for four, and 0.8 of its drafts stand:
 * 7.2 tokens in 1.6 s, but 4.8 in 1.35; without drafts, 4 in one. */
static void a_pass_of_the_draft_layer_pays_for_several_turns(void **state)
{
	(void)state;
	const struct known costs[] = {{4, 1}, {5, 1.05}, {8, 1.2}}, passes[] = {{1, 0.3}, {4, 0.4}};
	struct draft_meter m = company_meter(costs, 3);
	learn(&m.first_pass, passes, 2);
	learn_stood(&m, DRAFT_MTP, 0.8);
	assert_depths(&m, one_own, 100, (uint32_t[COMPANY]){1, 1, 1, 1});
	const struct draft_offer for_one[COMPANY] = {one_own[0]};
	assert_depths(&m, for_one, 100, (uint32_t[COMPANY]){0, 0, 0, 0});
	/* A turn whose params ask for it has the pass anyway, and others join: from 4.8 tokens in
	 * 1.35 s. */
	struct draft_offer beside[COMPANY] = {one_own[0], one_own[1]};
	beside[0].asked = true;
	assert_depths(&m, beside, 100, (uint32_t[COMPANY]){1, 1, 0, 0});
}

/* Two turns find what follows, of which more stands; for the others the draft layer drafts: 7.4
 * tokens in 1.12 s, against 7.2 in 1.13 and 5.8 in 1.05. */
static void each_turn_drafts_by_the_kind_that_it_has(void **state)
{
	(void)state;
	const struct known costs[] = {{4, 1}, {8, 1.1}}, passes[] = {{2, 0.02}, {4, 0.03}};
	struct draft_meter m = company_meter(costs, 2);
	struct draft_choice c[COMPANY];
	const struct draft_offer o[COMPANY] = {
		{.most = {1, 1}}, {.most = {1, 0}}, {.most = {1, 1}}, {.most = {1, 0}}};
	learn(&m.first_pass, passes, 2);
	learn_stood(&m, DRAFT_MTP, 0.8);
	learn_stood(&m, DRAFT_LOOKUP, 0.9);
	draft_meter_choose(&m, o, COMPANY, 100, c);
	for (int i = 0; i < COMPANY; i++) {
		assert_int_equal(c[i].depth, 1);
		assert_int_equal(c[i].kind, i % 2 ? DRAFT_MTP : DRAFT_LOOKUP);
	}
}

/* What params ask for is drafted whatever it costs, and before what the meter would like. Each turn
 * has its own row in any case. */
static void room_for_drafts_is_shared(void **state)
{
	(void)state;
	const struct known costs[] = {{4, 1}, {16, 1.01}};
	struct draft_meter m = company_meter(costs, 2), unknown = {0};
	struct draft_offer o[COMPANY] = {found[0], found[1], found[2], found[3]};
	learn_stood(&m, DRAFT_LOOKUP, 0.9);
	assert_depths(&m, o, 4, (uint32_t[COMPANY]){0, 0, 0, 0});
	assert_depths(&m, o, 10, (uint32_t[COMPANY]){2, 2, 1, 1});
	o[0].asked = o[2].asked = true;
	assert_depths(&unknown, o, 7, (uint32_t[COMPANY]){2, 0, 1, 0});
	assert_depths(&unknown, o, 100, (uint32_t[COMPANY]){4, 0, 4, 0});
	assert_depths(&m, o, 7, (uint32_t[COMPANY]){2, 0, 1, 0});
	m.chosen = unknown.chosen = 1;
	assert_depths(&unknown, o, 7, (uint32_t[COMPANY]){1, 0, 2, 0});
}

/* Without credit for what could be lost, nothing is drafted; what drafts save becomes credit. */
static void the_credit_is_that_of_all_turns(void **state)
{
	(void)state;
	const struct known costs[] = {{4, 1}, {8, 1.4}};
	struct draft_meter m = company_meter(costs, 2);
	struct draft_result r[COMPANY];
	const struct draft_times t = {.verifying = 1.4};
	struct draft_offer one[COMPANY];
	learn_stood(&m, DRAFT_LOOKUP, 0.9);
	for (int i = 0; i < COMPANY; i++) {
		one[i] = (struct draft_offer){.most = {0, 1}};
		r[i] = (struct draft_result){.choice = {DRAFT_LOOKUP, 1}, .stood = i < 3};
	}
	m.turns = COMPANY;
	m.credit = 0.02; /* a row may lose 0.1 s, and a quarter of that has to be there */
	assert_depths(&m, one, 100, (uint32_t[COMPANY]){0, 0, 0, 0});
	m.credit = 0.11;
	assert_depths(&m, one, 100, (uint32_t[COMPANY]){1, 1, 1, 1});
	/* 7 tokens, which take 1.75 s without drafts. */
	draft_meter_count(&m, r, COMPANY, &t);
	assert_true(m.credit > 0.11 + 0.35 && m.credit < 0.11 + 0.35 + 0.02);
	assert_true(m.kind[DRAFT_LOOKUP].hot);
}

/* A step of turns in company, drafted by the meter's choice, or always by `fixed` where there is no
 * meter. Returns the seconds that it takes. */
static double company_step(struct world *w, struct draft_meter *m, uint32_t turns,
			   struct draft_choice fixed, uint32_t *done)
{
	struct draft_offer o[DRAFT_TURNS] = {0};
	struct draft_choice c[DRAFT_TURNS];
	struct draft_result r[DRAFT_TURNS];
	struct draft_times t = {0};
	uint32_t verified = turns;
	double drafting = 0;
	for (uint32_t i = 0; i < turns; i++) {
		bool finds = random_uniform(&w->random) < w->found;
		o[i] = (struct draft_offer){.most = {DRAFT_MOST, finds ? DRAFT_MOST : 0}};
		c[i] = fixed;
		c[i].depth = least(fixed.depth, o[i].most[fixed.kind]);
	}
	if (m)
		draft_meter_choose(m, o, turns, UINT32_MAX, c);
	for (uint32_t i = 0; i < turns; i++) {
		r[i] = (struct draft_result){.choice = c[i], .stood = stood_of(w, c[i])};
		verified += c[i].depth;
		*done += r[i].stood + 1;
		for (uint32_t d = 1; d <= c[i].depth; d++)
			t.asks[d] += c[i].kind == DRAFT_MTP;
	}
	for (uint32_t d = 1; d <= DRAFT_MOST && t.asks[d]; d++) {
		t.passes[d] = noisy(w, w->drawing * (1 + w->row * (t.asks[d] - 1)));
		drafting += t.passes[d];
	}
	t.verifying = noisy(w, 1 + w->row * (verified - 1));
	if (m)
		draft_meter_count(m, r, turns, &t);
	return drafting + t.verifying;
}

/* Seconds until the turns have `tokens` in all. */
static double run_company(struct world *w, struct draft_meter *m, uint32_t turns, uint32_t tokens,
			  struct draft_choice fixed)
{
	double seconds = 0;
	for (uint32_t done = 0; done < tokens;)
		seconds += company_step(w, m, turns, fixed, &done);
	return seconds;
}

static const uint32_t companies[] = {2, 6, DRAFT_TURNS};
/* Of the worlds one in so many: with each cost and each chance of either kind. Under a sanitizer
 * fewer, since this is arithmetic. */
enum { COMPANIES = sizeof companies / sizeof *companies, STRIDE = SANITIZED ? 35 : 7 };

/* Of a company's turns together, from 64 tokens of each on. */
static void a_fresh_meter_never_costs_a_company_much(void **state)
{
	(void)state;
	enum { TOKENS = 64, ANSWERS = 15 };
	for (int i = 0; i < WORLDS * COMPANIES; i += STRIDE) {
		uint32_t turns = companies[i / WORLDS], tokens = TOKENS * turns;
		struct world w = world(i % WORLDS, 0.1);
		double with = 0, without = step_seconds * (1 + w.row * (turns - 1)) * TOKENS;
		for (int a = 0; a < ANSWERS; a++) {
			struct draft_meter m = {0};
			with += run_company(&w, &m, turns, tokens, (struct draft_choice){0});
		}
		if (!(with <= 1.03 * without * ANSWERS))
			fail_msg("world %d, %u turns: %f", i % WORLDS, turns,
				 with / (without * ANSWERS));
	}
}

static double best_fixed_company(const struct world *w, uint32_t turns, uint32_t tokens)
{
	double best = 0;
	for (int i = 0; i <= DRAFT_KINDS * DRAFT_MOST; i++) {
		struct draft_choice c = {(enum draft_kind)(i % DRAFT_KINDS),
					 (uint32_t)(i + 1) / DRAFT_KINDS};
		struct world copy = *w;
		double seconds = run_company(&copy, NULL, turns, tokens, c);
		if (i == 0 || seconds < best)
			best = seconds;
	}
	return best;
}

static void where_drafts_pay_a_company_reaches_most_of_the_gain(void **state)
{
	(void)state;
	enum { TOKENS = 400, SEEDS = 1 };
	for (int i = 0; i < WORLDS * COMPANIES; i += STRIDE) {
		uint32_t turns = companies[i / WORLDS];
		double best = 0, with = 0;
		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			struct world w = world(i % WORLDS, 0.1);
			struct draft_meter m = {0};
			w.random.state += 1000 * seed;
			best += best_fixed_company(&w, turns, TOKENS * turns);
			with += run_company(&w, &m, turns, TOKENS * turns,
					    (struct draft_choice){0});
		}
		if (!(best / with >= 0.8))
			fail_msg("world %d, %u turns: %f of the best", i % WORLDS, turns,
				 best / with);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_drafted_before_a_step_was_measured),
		cmocka_unit_test(a_fresh_meter_never_costs_much),
		cmocka_unit_test(where_drafts_pay_most_of_the_gain_is_reached),
		cmocka_unit_test(a_text_that_changes_is_followed),
		cmocka_unit_test(of_two_kinds_the_faster_is_taken_and_the_other_when_that_changes),
		cmocka_unit_test(drafting_costs_too),
		cmocka_unit_test(what_pays_has_the_credit),
		cmocka_unit_test(a_step_that_lost_its_processor_does_not_decide),
		cmocka_unit_test(nothing_is_drafted_in_a_company_that_is_not_known),
		cmocka_unit_test(in_company_the_speed_of_all_decides),
		cmocka_unit_test(a_pass_of_the_draft_layer_pays_for_several_turns),
		cmocka_unit_test(each_turn_drafts_by_the_kind_that_it_has),
		cmocka_unit_test(room_for_drafts_is_shared),
		cmocka_unit_test(the_credit_is_that_of_all_turns),
		cmocka_unit_test(a_fresh_meter_never_costs_a_company_much),
		cmocka_unit_test(where_drafts_pay_a_company_reaches_most_of_the_gain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
